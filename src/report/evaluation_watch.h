// Looks over a policy's shoulder: what no decision may ever do, checked decision by decision, by rules of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "planner/guardrails.h"
#include "planner/policy.h"

namespace penstock::report {

// Passes everything on to a policy and back, and counts the decisions that break an invariant:
//  - a target outside its pool's bounds, or evidence that is no finite number;
//  - growth beyond the allowed factor a minute;
//  - shrinking while a ready replica was not heard of lately, replicas start or drain, the KV cache is hot, a queue waits,
//    or a request failed within the last minute.
// `policy` must outlive it. Thresholds are those of the guardrails; how they are applied is written a second time here,
// so that a fault there shows.
class WatchedPolicy final : public planner::Policy {
 public:
  explicit WatchedPolicy(planner::Policy& policy, const planner::GuardrailOptions& limits = {})
      : policy_(policy), limits_(limits) {}

  [[nodiscard]] std::string_view name() const override { return policy_.name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_.interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_.memory(); }
  [[nodiscard]] planner::Decision decide(const signals::Observation& observation) override;

  [[nodiscard]] std::uint64_t broken() const { return broken_; }
  [[nodiscard]] const std::string& first_broken() const { return first_broken_; }  // in words; empty: none

 private:
  struct Target {
    core::Instant at;
    std::uint32_t replicas;
  };
  void check(core::Instant now, const signals::PoolObservation& pool, const planner::PoolDecision& decision,
             std::deque<Target>& targets);
  void expect(bool held, core::Instant now, const char* invariant);

  planner::Policy& policy_;
  planner::GuardrailOptions limits_;
  std::vector<std::deque<Target>> targets_;  // of the last minute, by pool
  std::uint64_t broken_ = 0;
  std::string first_broken_;
};

}  // namespace penstock::report
