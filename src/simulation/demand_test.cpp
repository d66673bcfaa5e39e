// What counts as demand for replicas, and how fast it reaches the planner.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "planner/penstock/penstock_planner.h"
#include "simulation/trials.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using testing::at_s;
using testing::options;
using testing::pool;
using testing::run_ok;

// Asks another policy, and keeps what it decided.
class Watched final : public decision::Policy {
 public:
  explicit Watched(decision::Policy& policy) : policy_(policy) {}
  [[nodiscard]] std::string_view name() const override { return policy_.name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_.interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_.memory(); }
  [[nodiscard]] bool wants_segments() const override { return policy_.wants_segments(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& seen) override {
    decision::Decision decision = policy_.decide(seen);
    most = std::max(most, decision.pools[0].target);
    if (decision.cause) causes.insert(*decision.cause);
    for (const decision::Evidence& evidence : decision.pools[0].evidence) {
      if (evidence.name == "burn_rate") burn_rate = std::max(burn_rate, evidence.value);
      if (evidence.name == "request_rate" && evidence.value >= rate_awaited && !rate_at) rate_at = seen.now;
    }
    return decision;
  }

  std::uint32_t most = 0;
  std::set<decision::Cause> causes;
  double burn_rate = 0.0, rate_awaited = 1e9;
  std::optional<core::Instant> rate_at;

 private:
  decision::Policy& policy_;
};

std::unique_ptr<decision::Policy> planner_of(const RunOptions& run_options) {
  return planner::make_penstock_planner(make_trials(run_options), {run_options.slo, run_options.slo_goal, {}});
}

// Poisson arrivals from the end of the workload on.
void add(workload::Workload& work, double until_s, double rate, std::uint32_t input, std::uint32_t output,
         std::uint64_t seed) {
  core::RandomStream random{seed};
  double at = work.requests.empty() ? 0.0 : core::to_seconds(work.requests.back().arrival.time_since_epoch());
  while ((at += random.exponential(1.0 / rate)) < until_s) {
    workload::Request& request = work.requests.emplace_back();
    request.arrival = at_s(at);
    request.input_tokens = input;
    request.output_tokens = output;
  }
}

RunOptions live_options() {
  RunOptions run_options = options(pool(1, 8));
  run_options.router = routing::Strategy::kLive;
  run_options.dispatch.emplace();
  return run_options;
}

// Three of five requests are batch, and need more than the budget of their class; the replica is nearly idle.
TEST(Demand, ABudgetOfAClassOnAnIdleFleetBurnsNothingAndBuysNoReplica) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    RunOptions run_options = live_options();
    run_options.dispatch->batch.queue_time = std::chrono::seconds{6};
    run_options.dispatch->batch.budget = {60'000.0, 0.0};
    workload::Workload work;
    work.block_tokens = 16;
    add(work, 180.0, 5.0, 400, 50, seed);
    core::RandomStream random{seed + 100};
    for (workload::Request& request : work.requests) {
      request.input_tokens = static_cast<std::uint32_t>(100 + random.below(800));
      if (random.uniform() < 0.6) request.traffic_class = workload::TrafficClass::kBatch;
    }
    const auto policy = planner_of(run_options);
    Watched watched{*policy};
    const auto result = run_ok(work, watched, run_options);
    EXPECT_GT(testing::failures(result, "queue_timeout") + testing::failures(result, "token_budget_exceeded"), 10U);
    EXPECT_GT(result.waited, 100U);
    EXPECT_EQ(watched.most, 1U);
    EXPECT_EQ(watched.burn_rate, 0.0);
    EXPECT_FALSE(watched.causes.contains(decision::Cause::kColdStart));
    EXPECT_FALSE(watched.causes.contains(decision::Cause::kQueue));
    EXPECT_TRUE(watched.causes.contains(decision::Cause::kAdmission)) << "the wait has a cause of its own";
  }
}

TEST(Demand, ALimitOfATenantIsNone) {
  RunOptions run_options = live_options();
  run_options.dispatch->tenants.resize(2);
  run_options.dispatch->tenants[0].name = "a";
  run_options.dispatch->tenants[1].name = "b";
  run_options.dispatch->tenants[0].concurrent = 1;
  run_options.dispatch->tenants[0].over_budget = dispatch::OverBudget::kQueue;
  workload::Workload work;
  work.block_tokens = 16;
  work.tenants = {"a", "b"};
  add(work, 300.0, 6.0, 400, 50, 1);
  for (std::size_t i = 0; i < work.requests.size(); ++i) work.requests[i].tenant = i % 2;
  const auto policy = planner_of(run_options);
  Watched watched{*policy};
  const auto result = run_ok(work, watched, run_options);
  EXPECT_GT(result.waited, 100U);
  EXPECT_EQ(watched.most, 1U);
  EXPECT_LT(watched.burn_rate, 0.5);
}

TEST(Demand, AStepReachesTheLoadLoopWithinTenSeconds) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    RunOptions run_options = live_options();
    run_options.pools[0].replicas = 2;
    workload::Workload work;
    work.block_tokens = 16;
    // A replica has room for 32 sequences, which is for six of these requests a second.
    add(work, 142.0, 0.7, 400, 500, seed);
    add(work, 156.0, 12.0, 400, 500, seed + 10);
    const auto policy = planner_of(run_options);
    Watched watched{*policy};
    watched.rate_awaited = 0.75 * 12.0;
    run_ok(work, watched, run_options);
    ASSERT_TRUE(watched.rate_at) << seed;
    EXPECT_LE(*watched.rate_at, at_s(152.0)) << seed;
  }
}

}  // namespace
}  // namespace penstock::simulation
