#include "planner/penstock/early_signs.h"

#include <algorithm>

namespace penstock::planner {
namespace {

core::Duration strictest_ttft(const signals::SloPolicy& slo) {
  core::Duration least = core::Duration::max();
  for (std::size_t i = 0; i <= slo.segments.size(); ++i) least = std::min(least, slo.target_at(i).ttft);
  return least;
}

std::optional<Finding> sign_of(const signals::PoolObservation& pool, const signals::SloPolicy& slo,
                               core::Duration longest_wait) {
  const auto found = [](Symptom symptom, Phase phase, std::vector<Evidence> evidence) {
    Finding finding;
    finding.symptom = symptom;
    finding.phase = phase;
    finding.cause = Cause::kEarlySigns;
    finding.evidence = std::move(evidence);
    return finding;
  };
  if (pool.unrouted_requests > 0)
    return found(Symptom::kTtft, Phase::kReplicaWait,
                 {{"unrouted", static_cast<double>(pool.unrouted_requests), "requests"}});
  for (const signals::ReplicaObservation& replica : pool.replicas)
    if (replica.sample && replica.sample->oldest_queued_age && *replica.sample->oldest_queued_age > longest_wait)
      return found(Symptom::kTtft, Phase::kQueue,
                   {{"oldest_waiting", core::to_milliseconds(*replica.sample->oldest_queued_age), "ms"}});
  const signals::TrafficWindow& traffic = pool.last_minute;
  if (traffic.ttft.count > 0 && traffic.ttft.p95_ms > core::to_milliseconds(slo.target.ttft))
    return found(
        Symptom::kTtft, Phase::kNone,
        {{"ttft_p95", traffic.ttft.p95_ms, "ms"}, {"samples", static_cast<double>(traffic.ttft.count), "requests"}});
  if (traffic.itl.count > 0 && traffic.itl.p95_ms > core::to_milliseconds(slo.target.itl))
    return found(
        Symptom::kItl, Phase::kDecode,
        {{"itl_p95", traffic.itl.p95_ms, "ms"}, {"samples", static_cast<double>(traffic.itl.count), "requests"}});
  return std::nullopt;
}

}  // namespace

std::optional<Finding> early_sign(const signals::Observation& observation, const signals::SloPolicy& slo) {
  const core::Duration longest_wait = strictest_ttft(slo) / 2;
  for (std::uint32_t i = 0; i < observation.pools.size(); ++i) {
    auto finding = sign_of(observation.pools[i], slo, longest_wait);
    if (!finding) continue;
    finding->pool = i;
    finding->pool_name = observation.pools[i].name;
    return finding;
  }
  return std::nullopt;
}

}  // namespace penstock::planner
