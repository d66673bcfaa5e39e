#include "planner/penstock/role_switch.h"

#include <algorithm>
#include <optional>

#include "core/result.h"
#include "signals/role_switch.h"

namespace penstock::planner {

using signals::Observation;
using signals::PoolObservation;
using signals::TrafficWindow;

namespace {

// Empty if the last minute does not show it.
std::optional<core::Duration> expected_drain(const PoolObservation& pool) {
  const TrafficWindow& traffic = pool.last_minute;
  if (pool.role == signals::Role::kPrefill)
    return traffic.ttft.count > 0 ? std::optional{core::from_seconds(traffic.ttft.p95_ms / 1000.0)} : std::nullopt;
  if (traffic.itl.count == 0 || traffic.completed == 0) return std::nullopt;
  const double answer = static_cast<double>(traffic.completed_output_tokens) / static_cast<double>(traffic.completed);
  return core::from_seconds(answer * traffic.itl.p95_ms / 1000.0);
}

}  // namespace

bool exchanges_replicas(const Observation& observation) {
  for (std::size_t i = 0; i < observation.pools.size(); ++i)
    if (signals::switch_partner(observation.pools, i)) return true;
  return false;
}

void keep_scheduled(const std::vector<PoolDecision>& proposals, std::vector<std::uint32_t>& needed) {
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (proposals[i].reason == Reason::kSchedule || proposals[i].reason == Reason::kWarmPool)
      needed[i] = proposals[i].target;
}

std::vector<std::uint32_t> replicas_to_give(const Observation& observation, const std::vector<PoolDecision>& decisions,
                                            const std::vector<std::uint32_t>& needed) {
  PENSTOCK_ASSERT(needed.size() == decisions.size(), "the need of each pool is known");
  std::vector<std::uint32_t> gives(decisions.size(), 0);
  for (std::size_t to = 0; to < decisions.size(); ++to) {
    const auto from = signals::switch_partner(observation.pools, to);
    const std::uint32_t current = observation.pools[to].target_replicas;
    if (!from || decisions[to].target <= current) continue;
    const PoolObservation& pool = observation.pools[*from];
    const std::uint32_t left = decisions[*from].target;
    if (left > pool.target_replicas) continue;  // It grows itself.
    const std::uint32_t gains = decisions[to].target - current, released = pool.target_replicas - left;
    const std::uint32_t least = std::max(needed[*from], pool.min_replicas);
    if (gains > released && left > least) gives[*from] = std::min(gains - released, left - least);
  }
  return gives;
}

bool switch_is_faster(const Observation& observation, std::size_t pool) {
  const auto partner = signals::switch_partner(observation.pools, pool);
  if (!partner) return false;
  const auto drain = expected_drain(observation.pools[*partner]);
  return drain && *drain + observation.pools[pool].switch_time < observation.pools[pool].start_up;
}

void share_hold(const Observation& observation, const std::vector<std::uint32_t>& needed, std::uint32_t held_total,
                std::vector<PoolDecision>& proposals) {
  PENSTOCK_ASSERT(needed.size() == proposals.size(), "the need of each pool is known");
  if (proposals.size() != 2 || !switch_is_faster(observation, 0) || !switch_is_faster(observation, 1)) return;
  const auto spare = [&](std::size_t i) { return proposals[i].target - std::min(proposals[i].target, needed[i]); };
  bool lowered = false;
  while (proposals[0].target + proposals[1].target > held_total && spare(0) + spare(1) > 0) {
    --proposals[spare(0) >= spare(1) ? 0 : 1].target;
    lowered = true;
  }
  if (!lowered) return;
  for (PoolDecision& proposal : proposals)
    proposal.evidence.push_back({"largest_recent_sum", static_cast<double>(held_total), "replicas"});
}

}  // namespace penstock::planner
