// The control loop of a fleet: observe, decide, record, act. The simulator and the planner daemon run this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/state_archive.h"
#include "decision/decision.h"
#include "decision/policy.h"
#include "decision/policy_state.h"
#include "decision/totals.h"
#include "signals/observation.h"

namespace penstock::decision {

// What one tick came to.
struct Tick {
  Decision decision;
  // Every change of a target, and every hold that differs from what was recorded last of its pool. In the order of pools.
  std::vector<DecisionRecord> records;
};

// Asks a policy at each tick and follows what it decides. Holds no clock: time comes with the observation.
class DecisionLoop {
 public:
  // Requests a target for the pool with this index. False: the platform refused the change.
  using SetTarget = std::function<bool(std::size_t pool, std::uint32_t target)>;

  // `policy` must outlive the loop; prices as DecisionTotals takes them.
  explicit DecisionLoop(Policy& policy, std::vector<double> prices_per_gpu_hour = {})
      : policy_(policy), totals_(std::move(prices_per_gpu_hour)) {}

  // Keeps targets within the bounds of the observation's pools. `set_target` is called for each pool whose target
  // changes, in their order. A refused change is recorded as a hold that Limit::kRefused holds back.
  [[nodiscard]] Tick tick(const signals::Observation& observation, const SetTarget& set_target);

  // What the policy and this loop have learned; none before the first tick.
  [[nodiscard]] std::optional<PolicyState> save();
  // Goes on from a state that another loop saved `passed` ago, before the first tick. From then on the policy's clock is
  // that of the saved state, whatever the time `now` in this process. Errors: a state of another version, policy or pools,
  // one that is too old, or values that do not fit; then the policy is as it was.
  [[nodiscard]] core::Result<void> restore(const PolicyState& state, const std::vector<std::string>& pools,
                                           core::Instant now, core::Duration passed);

  // Over all ticks so far.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  // Growth after shrinking of the same pool, or the reverse.
  [[nodiscard]] std::uint64_t direction_changes() const { return direction_changes_; }
  [[nodiscard]] const DecisionTotals& totals() const { return totals_; }

 private:
  // What makes a hold worth a record when it changes.
  struct LastDecision {
    Reason reason = Reason::kFixed;
    Limit limited_by = Limit::kNone;
    std::optional<Cause> cause;
    std::optional<std::uint32_t> next_phase_target;
    bool operator==(const LastDecision&) const = default;
    void archive(core::StateArchive& state) { state.values_of(reason, limited_by, cause, next_phase_target); }
  };
  struct PoolState {
    std::optional<LastDecision> last;
    int direction = 0;  // of the last change: 1 for growth, -1 for shrinking, 0 before the first
    void archive(core::StateArchive& state) { state.values_of(last, direction); }
  };
  void archive(core::StateArchive& state) {
    state("loop", pools_);
    policy_.archive(state);
  }
  [[nodiscard]] Decision decide(const signals::Observation& observation);

  Policy& policy_;
  DecisionTotals totals_;
  std::vector<PoolState> pools_;
  std::uint64_t changes_ = 0, direction_changes_ = 0;
  core::Duration ahead_{};                  // the policy's clock, of that of the observations
  std::optional<core::Instant> last_tick_;  // by the policy's clock
  std::vector<std::string> pool_names_;     // of the last tick
};

}  // namespace penstock::decision
