// A platform that refuses to scale, replicas that die while they start, and what a policy sees of both.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "planner/penstock/fleet_guardrails.h"
#include "signals/sanitize.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using testing::options;
using testing::pool;
using testing::random_workload;
using testing::run_ok;
using testing::Scripted;

TEST(RefusedActions, LeaveFleetAndTargetAsTheyWere) {
  RunOptions run_options = options(pool(2));
  run_options.faults.refused_actions = 1.0;
  std::uint64_t ticks = 0, failed = 0;
  Scripted growing{[&](const signals::Observation& seen, std::size_t) {
    EXPECT_EQ(seen.pools[0].target_replicas, 2U);
    EXPECT_EQ(seen.pools[0].actions_failed_total, ticks++);
    failed = seen.pools[0].actions_failed_total;
    return 4U;
  }};
  const auto result = run_ok(random_workload(200, 10.0), growing, run_options);
  EXPECT_GT(failed, 10U);
  EXPECT_EQ(result.peak_replicas, 2U);
  EXPECT_EQ(result.scaling_actions, 0U);
  ASSERT_EQ(result.holds.size(), 1U);  // what lasts is noted once
  EXPECT_EQ(result.holds[0].limited_by, decision::Limit::kRefused);
  EXPECT_EQ(result.holds[0].target, 2U);
}

TEST(RefusedActions, OccurAtTheConfiguredShare) {
  RunOptions run_options = options(pool(2));
  run_options.faults.refused_actions = 0.3;
  std::uint64_t asked = 0, failed = 0;
  Scripted restless{[&](const signals::Observation& seen, std::size_t) {
    failed = seen.pools[0].actions_failed_total;
    ++asked;
    return seen.pools[0].target_replicas == 2 ? 3U : 2U;
  }};
  const auto result = run_ok(random_workload(5000, 10.0), restless, run_options);
  EXPECT_NEAR(static_cast<double>(failed), 0.3 * static_cast<double>(asked), 0.1 * static_cast<double>(asked));
  EXPECT_EQ(result.failed, 0U);
}

TEST(RefusedActions, DoNotCountOtherChanges) {
  RunOptions run_options = options(pool(2));
  run_options.faults.refused_actions = 1.0;
  Scripted still{[](const signals::Observation& seen, std::size_t) {
    EXPECT_EQ(seen.pools[0].actions_failed_total, 0U);
    return 2U;
  }};
  const auto result = run_ok(random_workload(100, 10.0), still, run_options);
  EXPECT_EQ(result.completed, 100U);
}

TEST(RefusedActions, CountReplicasThatDieWhileTheyStart) {
  RunOptions run_options = options(pool(2));
  run_options.pools[0].start_up = std::chrono::seconds{40};
  run_options.faults.crashes_per_replica_hour = 30.0;
  std::uint64_t failed = 0, died_starting = 0;
  std::set<std::uint32_t> seen_alive, served;
  Scripted still{[&](const signals::Observation& seen, std::size_t) {
    for (const auto& replica : seen.pools[0].replicas) {
      seen_alive.insert(replica.replica);
      if (replica.state != signals::ReplicaState::kStarting) served.insert(replica.replica);
    }
    failed = seen.pools[0].actions_failed_total;
    died_starting = seen_alive.size() - served.size() - seen.pools[0].starting;
    return 8U;
  }};
  static_cast<void>(run_ok(random_workload(6000, 10.0), still, run_options));
  EXPECT_GT(failed, 5U);
  EXPECT_GT(served.size(), 10U);
  EXPECT_GE(failed, died_starting);
  EXPECT_LE(failed, died_starting + 3);  // those that lived for less than a tick
}

// Asks for the fleet that the guardrails make of a proposal that goes up and down.
class Guarded final : public decision::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "guarded"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{5}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& seen) override {
    signals::Observation cleaned = seen;
    const signals::Findings& findings = sanitizer_.clean(cleaned);
    issues += findings.issues.size();
    for (const signals::Issue& issue : findings.issues) kinds.insert(to_string(issue.what));
    EXPECT_EQ(findings.clock, signals::ClockState::kSteady);
    std::vector<decision::PoolDecision> proposals(seen.pools.size());
    for (auto& proposal : proposals)
      proposal.target = 2 + 6 * static_cast<std::uint32_t>(core::to_seconds(seen.now) / 600.0) % 12;
    decision::Decision decision;
    decision.pools = guardrails_.apply(cleaned, std::move(proposals), findings.clock);
    for (const auto& pool : decision.pools) limits.insert(to_string(pool.limited_by));
    return decision;
  }
  std::uint64_t issues = 0;
  std::set<std::string> kinds, limits;

 private:
  signals::Sanitizer sanitizer_;
  planner::FleetGuardrails guardrails_;
};

TEST(SanitizedRun, FindsNoContradictionInHonestTelemetry) {
  for (const bool split : {false, true}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(seed);
      RunOptions run_options = split ? testing::disaggregated(2, 2) : options(pool(2));
      for (PoolSpec& spec : run_options.pools) spec.engine.kv_blocks = 300;  // so that requests are preempted
      run_options.seed = seed;
      run_options.faults.crashes_per_replica_hour = 3.0;
      run_options.faults.telemetry_loss = 0.2;
      run_options.faults.telemetry_delay = std::chrono::seconds{7};
      Guarded guarded;
      static_cast<void>(run_ok(random_workload(20'000, 12.0, seed), guarded, run_options));
      EXPECT_EQ(guarded.issues, 0U) << (guarded.kinds.empty() ? "" : *guarded.kinds.begin());
      EXPECT_EQ(guarded.limits.count("manual_change"), 0U);
    }
  }
}

TEST(SanitizedRun, FindsFalseTelemetryOfBusyEngines) {
  RunOptions run_options = options(pool(2));
  run_options.faults.telemetry_lie = 0.2;
  Guarded guarded;
  static_cast<void>(run_ok(random_workload(20'000, 12.0), guarded, run_options));
  EXPECT_EQ(guarded.kinds, (std::set<std::string>{"running_disagrees"}));
}

TEST(SanitizedRun, RefusedActionsCauseACooldownAndNoManualHold) {
  RunOptions run_options = options(pool(2));
  run_options.faults.refused_actions = 0.5;
  Guarded guarded;
  const auto result = run_ok(random_workload(20'000, 12.0), guarded, run_options);
  EXPECT_EQ(guarded.limits.count("cooldown"), 1U);
  EXPECT_EQ(guarded.limits.count("manual_change"), 0U);
  EXPECT_GT(result.scaling_actions, 1U);
}

}  // namespace
}  // namespace penstock::simulation
