// Looks over a policy's shoulder: what no decision may ever do, checked decision by decision, by rules of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "decision/policy.h"
#include "planner/penstock/guardrails.h"

namespace penstock::evaluation {

// Wraps a policy and counts the decisions that break an invariant:
//  - a target outside its pool's bounds, or evidence that is not finite;
//  - growth beyond the allowed factor a minute, or beyond the GPU budget;
//  - scale-down while a ready replica has no recent telemetry, replicas start or drain, the KV cache is hot, requests
//    wait, or a request failed within the last minute;
//  - scale-down to fewer ready replicas than required, or than can carry the load;
//  - any change after a failed action, before a replica became ready or the shortest cooldown has passed; during the
//    hold after another actor set the target; or when the clock goes back. After a clock jump, windows start again.
// `policy` must outlive it. Thresholds are those of the guardrails; their application is implemented a second time
// here, so that an error there is found.
class WatchedPolicy final : public decision::Policy {
 public:
  explicit WatchedPolicy(decision::Policy& policy, const planner::GuardrailOptions& limits = {})
      : policy_(policy), limits_(limits) {}

  [[nodiscard]] std::string_view name() const override { return policy_.name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_.interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_.memory(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override;
  void archive(core::StateArchive& state) override { policy_.archive(state); }

  [[nodiscard]] std::uint64_t broken() const { return broken_; }
  [[nodiscard]] const std::string& first_broken() const { return first_broken_; }  // Text; empty if there is none.

 private:
  struct Target {
    core::Instant at;
    std::uint32_t replicas;
  };
  // The history of one pool.
  struct Past {
    std::deque<Target> targets;                // Targets of the last minute.
    std::optional<std::uint32_t> asked, seen;  // The last decision, and the target at that time.
    std::optional<std::uint64_t> actions_failed;
    std::vector<std::uint32_t> ready;                    // Ids.
    std::optional<core::Instant> failed_at, changed_at;  // Last failed action; last change by another actor.
  };
  void check(core::Instant now, const signals::PoolObservation& pool, const decision::PoolDecision& decision,
             Past& past);
  void check_change(core::Instant now, const signals::PoolObservation& pool, const decision::PoolDecision& decision,
                    Past& past);
  void check_budget(const signals::Observation& observation, const decision::Decision& decision);
  void expect(bool held, core::Instant now, const char* invariant);

  decision::Policy& policy_;
  planner::GuardrailOptions limits_;
  std::vector<Past> pasts_;  // by pool
  std::optional<core::Instant> last_now_;
  std::uint64_t broken_ = 0;
  std::string first_broken_;
};

}  // namespace penstock::evaluation
