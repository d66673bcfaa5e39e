// Load tests of one simulated replica.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/random.h"
#include "simulation/gateway_options.h"
#include "simulation/run.h"

namespace penstock::simulation {
namespace {

constexpr std::size_t kProbeRequests = 2000;
// Replicas of the pool that is not probed, so that it is never the bottleneck.
constexpr std::uint32_t kPartnerReplicas = 64;
constexpr int kDoublings = 24;
// Requests that may wait at once. An SLO with a long TTFT or ITL lets more wait, and the test would end while its queue
// still grows: an overload would pass for capacity.
constexpr std::uint64_t kQueueMost = kProbeRequests / 20;
constexpr int kHalvings = 7;  // the found rate is within 2^(1/128), 0.5 %, of the sought one

// The requests that the pool serves as the first that matches; all where that is none.
std::vector<std::uint32_t> own_requests(const workload::Workload& workload, const PoolSpec& pool,
                                        const RunOptions& options) {
  std::vector<std::uint32_t> own, all(workload.requests.size());
  std::iota(all.begin(), all.end(), 0U);
  const Gateway gateway = make_gateway(workload, options);
  const std::vector<dispatch::PoolRule>& rules = gateway.options.pools;
  for (const std::uint32_t request : all) {
    if (rules.empty()) break;
    const std::uint32_t first = signals::first_match(rules, gateway.traits_of(workload.requests[request]));
    if (first < rules.size() && rules[first].name == pool.name) own.push_back(request);
  }
  return own.empty() ? all : own;
}

// Requests drawn from some of the workload, with their prefixes, arriving at random at 1/s.
workload::Workload draw(const workload::Workload& from, const std::vector<std::uint32_t>& some, std::uint64_t seed) {
  core::RandomStream random = core::RandomStream{seed}.fork("probe");
  workload::Workload drawn;
  drawn.name = from.name;
  drawn.block_ids = from.block_ids;
  drawn.block_tokens = from.block_tokens;
  drawn.tenants = from.tenants;
  double at = 0.0;
  for (std::size_t i = 0; i < kProbeRequests; ++i) {
    at += random.exponential(1.0);
    drawn.requests.push_back(from.requests[some[random.below(some.size())]]);
    drawn.requests.back().arrival = core::Instant{core::from_seconds(at)};
  }
  return drawn;
}

RunOptions probe_options(const PoolSpec& pool, const RunOptions& options) {
  RunOptions probe = without_limits(options);
  probe.judged_from = core::kStart;
  probe.progress = nullptr;
  if (pool.role == signals::Role::kAggregated) probe.pools = {pool};
  for (PoolSpec& each : probe.pools) {
    each.replicas = each.role == pool.role ? 1 : kPartnerReplicas;
    each.min_replicas = 1;
    each.max_replicas = kPartnerReplicas;
  }
  return probe;
}

bool keeps_up(const decision::RunResult& result) {
  return std::all_of(result.series.begin(), result.series.end(),
                     [](const decision::SeriesPoint& point) { return point.queued_requests <= kQueueMost; });
}

}  // namespace

core::Result<planner::ReplicaCapacity> probe_capacity(const workload::Workload& workload, const PoolSpec& pool,
                                                      const RunOptions& options, double attainment) {
  if (workload.requests.empty()) return core::invalid_input("workload", "has no requests");
  const RunOptions probe = probe_options(pool, options);
  const workload::Workload shapes = draw(workload, own_requests(workload, pool, options), options.seed);
  workload::Workload paced = shapes;
  auto still = planner::make_policy("static", {});
  if (!still) return tl::make_unexpected(still.error());
  const auto at_rate = [&](double rate) {
    for (std::size_t i = 0; i < paced.requests.size(); ++i)
      paced.requests[i].arrival =
          core::Instant{core::from_seconds(core::to_seconds(shapes.requests[i].arrival) / rate)};
    return run(paced, **still, probe);
  };

  double rate = 1e-3;
  auto result = at_rate(rate);
  if (!result) return tl::make_unexpected(result.error());
  // Some requests may miss the SLO on an idle replica; no rate can fix that.
  const double goal = attainment * result->slo_attainment;
  const auto suffices = [&] { return result && result->slo_attainment >= goal && keeps_up(*result); };
  decision::RunResult best = *result;
  for (int i = 0; i < kDoublings; ++i) {
    result = at_rate(rate * 2.0);
    if (!suffices()) break;
    best = *result;
    rate *= 2.0;
  }
  double factor = std::sqrt(2.0);
  for (int i = 0; i < kHalvings; ++i, factor = std::sqrt(factor)) {
    result = at_rate(rate * factor);
    if (!suffices()) continue;
    best = *result;
    rate *= factor;
  }

  double input = 0.0, output = 0.0;
  for (const workload::Request& request : shapes.requests) {
    input += request.input_tokens;
    output += request.output_tokens;
  }
  const auto count = static_cast<double>(shapes.requests.size());
  double in_flight_ms = best.e2e_ms.mean;
  if (pool.role == signals::Role::kPrefill) in_flight_ms = best.ttft_ms.mean;
  if (pool.role == signals::Role::kDecode) in_flight_ms = std::max(0.0, best.e2e_ms.mean - best.ttft_ms.mean);
  planner::ReplicaCapacity capacity;
  capacity.requests_per_s = rate;
  capacity.input_tokens_per_s = rate * input / count;
  capacity.output_tokens_per_s = rate * output / count;
  capacity.concurrency = std::max(1.0, rate * in_flight_ms / 1000.0);  // Little's law
  return capacity;
}

}  // namespace penstock::simulation
