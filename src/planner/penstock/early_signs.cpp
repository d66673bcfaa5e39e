#include "planner/penstock/early_signs.h"

#include <algorithm>
#include <utility>

#include "planner/objective_latency.h"

namespace penstock::planner {
namespace {

core::Duration strictest_ttft(const signals::SloPolicy& slo) {
  core::Duration least = core::Duration::max();
  for (std::size_t i = 0; i <= slo.segments.size(); ++i) least = std::min(least, slo.target_at(i).ttft);
  return least;
}

Finding found(Symptom symptom, Phase phase, std::vector<Evidence> evidence) {
  Finding finding;
  finding.symptom = symptom;
  finding.phase = phase;
  finding.cause = Cause::kEarlySigns;
  finding.evidence = std::move(evidence);
  return finding;
}

Finding late(Symptom symptom, double p95_ms, std::uint64_t samples) {
  const bool ttft = symptom == Symptom::kTtft;
  return found(symptom, ttft ? Phase::kNone : Phase::kDecode,
               {{ttft ? "ttft_p95" : "itl_p95", p95_ms, "ms"}, {"samples", static_cast<double>(samples), "requests"}});
}

// Where segments have objectives of their own, the p95 of all requests says nothing: each objective has its own.
std::optional<Finding> sign_of_objectives(const signals::Observation& observation, const signals::SloPolicy& slo) {
  const std::vector<ObjectiveLatency> latencies = std::move(objective_latencies(observation, slo, 1).front());
  for (std::size_t i = 0; i < latencies.size(); ++i) {
    const signals::SloTarget& target = slo.target_at(i);
    const auto &ttft = latencies[i].ttft, &itl = latencies[i].itl;
    if (ttft.count > 0 && ttft.p95_ms > core::to_milliseconds(target.ttft))
      return late(Symptom::kTtft, ttft.p95_ms, ttft.count);
    if (itl.count > 0 && itl.p95_ms > core::to_milliseconds(target.itl))
      return late(Symptom::kItl, itl.p95_ms, itl.count);
  }
  return std::nullopt;
}

std::optional<Finding> sign_of(const signals::PoolObservation& pool, const signals::SloPolicy& slo,
                               core::Duration longest_wait) {
  if (pool.unrouted_requests > 0)
    return found(Symptom::kTtft, Phase::kReplicaWait,
                 {{"unrouted", static_cast<double>(pool.unrouted_requests), "requests"}});
  for (const signals::ReplicaObservation& replica : pool.replicas)
    if (replica.sample && replica.sample->oldest_queued_age && *replica.sample->oldest_queued_age > longest_wait)
      return found(Symptom::kTtft, Phase::kQueue,
                   {{"oldest_waiting", core::to_milliseconds(*replica.sample->oldest_queued_age), "ms"}});
  if (!slo.segments.empty()) return std::nullopt;
  const signals::TrafficWindow& traffic = pool.last_minute;
  if (traffic.ttft.count > 0 && traffic.ttft.p95_ms > core::to_milliseconds(slo.target.ttft))
    return late(Symptom::kTtft, traffic.ttft.p95_ms, traffic.ttft.count);
  if (traffic.itl.count > 0 && traffic.itl.p95_ms > core::to_milliseconds(slo.target.itl))
    return late(Symptom::kItl, traffic.itl.p95_ms, traffic.itl.count);
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
  if (slo.segments.empty() || observation.pools.empty()) return std::nullopt;
  auto finding = sign_of_objectives(observation, slo);
  if (finding) finding->pool_name = observation.pools.front().name;
  return finding;
}

}  // namespace penstock::planner
