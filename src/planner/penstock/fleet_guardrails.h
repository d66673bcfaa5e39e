// Guardrails of a fleet: those of each pool, and the GPU budget that all pools share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/penstock/guardrails.h"
#include "planner/policy.h"
#include "signals/observation.h"
#include "signals/sanitize.h"

namespace penstock::planner {

// Applies Guardrails to each pool, and with a `gpu_budget` to all of them:
//  - No pool grows if the fleet would exceed the budget. A pool uses the GPUs of its target, of replicas that start,
// serve or are stuck beyond it, and of those that drain or do not end: GPUs are free only after a replica has stopped.
//  - If growth must be limited, pools keep the proposed ratio as far as whole replicas allow: each gets the same share
// of its proposal, rounded by largest remainder, but never less than it has.
//  - No pool shrinks because another one grows. If the current targets exceed a lowered budget, nothing grows, and
// proposals are lowered to the budget; shrinking follows its own rules.
//  - min_replicas take precedence over the budget.
// A pool gives replicas that it does not need to a partner that grows (role_switch.h); these need no further GPUs.
class FleetGuardrails {
 public:
  explicit FleetGuardrails(const GuardrailOptions& options = {}) : options_(options) {}

  // Takes one proposal per pool of the observation, in an order that must not change between ticks. All pools hold
  // while the clock is not steady. `needed` has the replicas that each pool needs now, without any hold, or is empty:
  // then no pool gives replicas to a partner that grows.
  [[nodiscard]] std::vector<PoolDecision> apply(const signals::Observation& observation,
                                                std::vector<PoolDecision> proposals,
                                                signals::ClockState clock = signals::ClockState::kSteady,
                                                std::vector<std::uint32_t> needed = {});
  // Replicas that each pool gave to its partner in the last apply().
  [[nodiscard]] const std::vector<std::uint32_t>& given() const { return given_; }

  // The targets in force instead of those that apply() returned, because a later stage limited them.
  void revise(std::span<const std::uint32_t> targets) {
    for (std::size_t i = 0; i < std::min(targets.size(), pools_.size()); ++i) pools_[i].revise(targets[i]);
  }

  void archive(core::StateArchive& state) {
    std::uint64_t pools = pools_.size();
    state("fleet_guardrails", pools);
    if (state.reading()) pools_.assign(std::min<std::uint64_t>(pools, kPoolsMax), Guardrails{options_});
    for (Guardrails& pool : pools_) pool.archive(state);
  }

 private:
  static constexpr std::uint64_t kPoolsMax = 64;  // Limit for a restored state.
  // Targets of the proposals, lowered if the current fleet exceeds the budget.
  [[nodiscard]] std::vector<std::uint32_t> affordable(const signals::Observation& observation,
                                                      const std::vector<PoolDecision>& proposals) const;
  // Lets pools give replicas beyond their need to partners that grow.
  void give(const signals::Observation& observation, std::vector<std::uint32_t> needed,
            std::vector<PoolDecision>& decisions);
  void cut_growth(const signals::Observation& observation, const std::vector<std::uint32_t>& proposals,
                  std::vector<PoolDecision>& decisions);

  GuardrailOptions options_;
  std::vector<Guardrails> pools_;
  std::vector<std::uint32_t> given_;
};

}  // namespace penstock::planner
