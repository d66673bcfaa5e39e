// The control loop of a fleet: observe, decide, record, act. The simulator and the planner daemon run the same loop.
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

// The result of one tick.
struct Tick {
  Decision decision;
  // Every change of a target, and every hold that differs from the last record of its pool, in the order of pools. A
  // change that the fleet has not followed, as one that is only observed, is not recorded again.
  // After record_every_hold(), and at the first tick after restore(): one for each pool.
  std::vector<DecisionRecord> records;
};

// Calls a policy at each tick and applies its decision. The loop has no clock: time comes with the observation.
class DecisionLoop {
 public:
  // Requests a target for the pool with this index. Returns false if the platform refused the change.
  using SetTarget = std::function<bool(std::size_t pool, std::uint32_t target)>;

  // `policy` must outlive the loop; prices as DecisionTotals takes them.
  explicit DecisionLoop(Policy& policy, std::vector<double> prices_per_gpu_hour = {})
      : policy_(&policy), totals_(std::move(prices_per_gpu_hour)) {}

  // Keeps targets within the bounds of the observation's pools. `set_target` is called for each pool whose target
  // changes, in their order. A refused change is recorded as a hold with Limit::kRefused. The replicas to keep asleep
  // are those of the result, in Decision::pools.
  [[nodiscard]] Tick tick(const signals::Observation& observation, const SetTarget& set_target);

  // A tick without data: the policy is not asked, and every pool holds with Reason::kNoData and Cause::kUnknown.
  [[nodiscard]] Tick hold(const signals::Observation& observation, std::string because);

  // A tick while another planner leads: the policy is not asked, and every pool holds with Reason::kFollower.
  [[nodiscard]] Tick follow(const signals::Observation& observation, std::string because);

  void record_every_hold() { records_every_hold_ = true; }

  // The next tick sets the targets of all pools, because another planner has led until now, and shrinks none.
  void take_over() { takes_over_ = true; }

  // The state of the policy and of this loop; empty before the first tick.
  [[nodiscard]] std::optional<PolicyState> save();
  // Continues from a state that another loop saved `passed` ago; to be called before the first tick. The policy then
  // uses the clock of the saved state, independent of the time `now` of this process. Errors: a state of another
  // version, policy or pools, a state that is too old, or invalid values; the policy is then unchanged.
  [[nodiscard]] core::Result<void> restore(const PolicyState& state, const std::vector<std::string>& pools,
                                           core::Instant now, core::Duration passed);

  // What policy and loop know now. reset() returns to it; then a state can be restored as before the first tick.
  [[nodiscard]] std::string snapshot();
  void reset(const std::string& snapshot);

  // Continues with another policy of the same pools, in the state of this one. An error: the state does not fit the
  // other policy, which then begins anew.
  [[nodiscard]] core::Result<void> replace(Policy& policy);

  // Of the GPU time from the last tick on.
  void set_prices(std::vector<double> per_gpu_hour) { totals_.set_prices(std::move(per_gpu_hour)); }

  // Over all ticks so far.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  // Growth after shrinking of the same pool, or the reverse.
  [[nodiscard]] std::uint64_t direction_changes() const { return direction_changes_; }
  [[nodiscard]] const DecisionTotals& totals() const { return totals_; }

 private:
  // A decision is recorded when one of these changes.
  struct LastDecision {
    Reason reason = Reason::kFixed;
    Limit limited_by = Limit::kNone;
    std::optional<Cause> cause;
    std::optional<std::uint32_t> next_phase_target;
    std::uint32_t asleep = 0;  // Not saved.
    std::uint32_t target = 0;
    bool operator==(const LastDecision&) const = default;
    void archive(core::StateArchive& state) { state.values_of(reason, limited_by, cause, next_phase_target, target); }
  };
  struct PoolState {
    std::optional<LastDecision> last;
    std::uint32_t seen_target = 0;  // The target of the fleet at the last tick.
    int direction = 0;              // Of the last change: 1 for growth, -1 for shrinking, 0 before the first.
    bool is_restored = false;       // Until the next tick. Not saved.
    void archive(core::StateArchive& state) { state.values_of(last, seen_target, direction); }
  };
  void archive(core::StateArchive& state) {
    state("loop", pools_);
    policy_->archive(state);
  }
  // Reads the state, or leaves everything as it was.
  [[nodiscard]] core::Result<void> read_state(const std::string& text);
  [[nodiscard]] Decision decide(const signals::Observation& observation);
  [[nodiscard]] Tick hold_all(const signals::Observation& observation, Reason reason, std::optional<Cause> cause,
                              std::string because);
  // Whether the decision changes the target, and is not the one of the last tick once more.
  [[nodiscard]] static bool is_change(const PoolState& state, const PoolDecision& pool);
  void record(Tick& tick, const signals::Observation& observation, std::size_t index, const PoolDecision& pool,
              bool changes);

  Policy* policy_;
  DecisionTotals totals_;
  std::vector<PoolState> pools_;
  std::uint64_t changes_ = 0, direction_changes_ = 0;
  bool takes_over_ = false, records_every_hold_ = false;
  core::Duration ahead_{};                  // Lead of the policy's clock over that of the observations.
  std::optional<core::Instant> last_tick_;  // On the policy's clock.
  std::vector<std::string> pool_names_;     // Pools of the last tick.
};

}  // namespace penstock::decision
