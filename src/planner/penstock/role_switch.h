// Prefill and decode pools whose replicas can change between them: what one gives to the other, and what both hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/policy.h"
#include "signals/observation.h"

namespace penstock::planner {

// Some pool can grow by replicas of another one.
[[nodiscard]] bool exchanges_replicas(const signals::Observation& observation);

// Raises what pools need to proposals that a schedule or the warm pool has set.
void keep_scheduled(const std::vector<PoolDecision>& proposals, std::vector<std::uint32_t>& needed);

// Returns by pool the replicas that it gives to its partner, which grows in the same tick: as many as the partner gains
// by its decision, less those that the pool releases anyway, down to the replicas that it needs. The fleet as a whole
// does not shrink, so that no hold of a window applies. `needed` has an element for each pool.
[[nodiscard]] std::vector<std::uint32_t> replicas_to_give(const signals::Observation& observation,
                                                          const std::vector<PoolDecision>& decisions,
                                                          const std::vector<std::uint32_t>& needed);

// A drain and a switch of a replica of the partner take less than a start-up in this pool. The drain is estimated from
// the last minute: the p95 of TTFT for prefill, a mean answer at the p95 of ITL for decode. False if it is unknown.
[[nodiscard]] bool switch_is_faster(const signals::Observation& observation, std::size_t pool);

// Two pools that can exchange replicas faster than they start them need not both hold their largest plan: they hold
// `held_total`, the largest sum of their plans. Lowers the proposals until their sum is that, but none below `needed`;
// the pool that holds more beyond its need goes first.
void share_hold(const signals::Observation& observation, const std::vector<std::uint32_t>& needed,
                std::uint32_t held_total, std::vector<PoolDecision>& proposals);

}  // namespace penstock::planner
