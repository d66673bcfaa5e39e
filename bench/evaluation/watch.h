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

// Passes everything on to a policy and back, and counts the decisions that break an invariant:
//  - a target outside its pool's bounds, or evidence that is no finite number;
//  - growth beyond the allowed factor a minute, or beyond the GPU budget;
//  - shrinking while a ready replica was not heard of lately, replicas start or drain, the KV cache is hot, a queue waits,
//    or a request failed within the last minute;
//  - shrinking to fewer ready replicas than must be, or than can carry the load;
//  - any change after an action failed, before a replica became ready or the shortest cooldown has passed; for the time
//    that a target which somebody else set is left alone; or when the clock goes back. After a jump of the clock, windows
//    begin anew.
// `policy` must outlive it. Thresholds are those of the guardrails; how they are applied is written a second time here,
// so that a fault there shows.
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
  [[nodiscard]] const std::string& first_broken() const { return first_broken_; }  // in words; empty: none

 private:
  struct Target {
    core::Instant at;
    std::uint32_t replicas;
  };
  // Of one pool.
  struct Past {
    std::deque<Target> targets;                // of the last minute
    std::optional<std::uint32_t> asked, seen;  // what was decided last, and the target then
    std::optional<std::uint64_t> actions_failed;
    std::vector<std::uint32_t> ready;                    // ids
    std::optional<core::Instant> failed_at, changed_at;  // an action; by somebody else
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
