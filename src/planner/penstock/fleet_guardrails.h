// The guardrails of a whole fleet: those of each pool, and the GPUs that all pools share.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/penstock/guardrails.h"
#include "planner/policy.h"
#include "signals/observation.h"
#include "signals/sanitize.h"

namespace penstock::planner {

// Holds what Guardrails hold for each pool, and with a `gpu_budget`, over all of them:
//  - no pool grows while the fleet would then hold more GPUs than the budget. A pool holds those of its target, of replicas
//    that start or serve beyond it, and of those that drain: what was given up is free only once it has stopped;
//  - where growth must be cut, the pools keep the ratio that was proposed as well as whole replicas allow: each gets the
//    same share of its proposal, rounded by largest remainder, but never less than it has;
//  - no pool shrinks because another grows. Where the targets there are exceed the budget, because it was lowered, nothing
//    grows and proposals are lowered to it; they come true by the rules of shrinking;
//  - min_replicas come before the budget.
class FleetGuardrails {
 public:
  explicit FleetGuardrails(const GuardrailOptions& options = {}) : options_(options) {}

  // One proposal for each pool of the observation, in its order, which must stay the same from tick to tick. While the
  // clock is not steady everything holds.
  [[nodiscard]] std::vector<PoolDecision> apply(const signals::Observation& observation,
                                                std::vector<PoolDecision> proposals,
                                                signals::ClockState clock = signals::ClockState::kSteady);

  void archive(core::StateArchive& state) {
    std::uint64_t pools = pools_.size();
    state("fleet_guardrails", pools);
    if (state.reading()) pools_.assign(std::min<std::uint64_t>(pools, kPoolsMax), Guardrails{options_});
    for (Guardrails& pool : pools_) pool.archive(state);
  }

 private:
  static constexpr std::uint64_t kPoolsMax = 64;  // in a state that is read
  // Targets of the proposals, lowered where the fleet there is exceeds the budget.
  [[nodiscard]] std::vector<std::uint32_t> affordable(const signals::Observation& observation,
                                                      const std::vector<PoolDecision>& proposals) const;
  void cut_growth(const signals::Observation& observation, const std::vector<std::uint32_t>& proposals,
                  std::vector<PoolDecision>& decisions);

  GuardrailOptions options_;
  std::vector<Guardrails> pools_;
};

}  // namespace penstock::planner
