// The gateway in the simulated world: tenants, classes, limits, refusals and the ledger.
#include <gtest/gtest.h>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using testing::at_s;
using testing::failures;
using testing::options;
using testing::pool;
using testing::random_workload;
using testing::requests_at;
using testing::run_ok;
using testing::steps;

const decision::TenantResult& tenant(const decision::RunResult& result, const std::string& name) {
  for (const auto& each : result.tenants)
    if (each.name == name) return each;
  static const decision::TenantResult kNone;
  ADD_FAILURE() << "no tenant " << name;
  return kNone;
}

RunOptions live(std::uint32_t replicas) {
  RunOptions run_options = options(pool(replicas));
  run_options.router = routing::Strategy::kLive;
  run_options.check_each_event = true;
  return run_options;
}

workload::Workload two_tenants(std::uint32_t requests, double rate) {
  workload::Workload made = random_workload(requests, rate);
  made.tenants = {"paid", "free"};
  for (std::size_t i = 0; i < made.requests.size(); ++i) made.requests[i].tenant = i % 2;
  return made;
}

TEST(SimulatedGateway, ABudgetRefusesItsTenantOnly) {
  RunOptions run_options = live(2);
  run_options.dispatch.emplace();
  run_options.dispatch->tenants.resize(2);
  run_options.dispatch->tenants[0].name = "paid";
  run_options.dispatch->tenants[1].name = "free";
  run_options.dispatch->tenants[1].budget = {20'000.0, 0.0};
  run_options.dispatch->models.push_back({"model", {1.0, 0.5, 2.0}});
  const auto result = run_ok(two_tenants(1000, 5.0), run_options);
  EXPECT_EQ(tenant(result, "paid").completed, 500U);
  EXPECT_EQ(tenant(result, "paid").refused, 0U);
  const auto& free = tenant(result, "free");
  EXPECT_GT(free.refused, 50U);
  EXPECT_EQ(free.refused, failures(result, "token_budget_exceeded"));
  EXPECT_EQ(free.requests, 500U);
  ASSERT_TRUE(free.budget_share);
  EXPECT_GT(*free.budget_share, 0.8);
  EXPECT_LT(*free.budget_share, 1.2);
  EXPECT_GT(free.token_cost, 0.0);
  EXPECT_GT(tenant(result, "paid").token_cost, free.token_cost);
  EXPECT_EQ(result.completed + result.failed, 1000U);
}

RunOptions with_budget(double tokens_per_minute, double burst) {
  RunOptions run_options = live(1);
  dispatch::Tenant& tenant = run_options.dispatch.emplace().tenants.emplace_back();
  tenant.name = "default";
  tenant.budget = {tokens_per_minute, burst};
  return run_options;
}

// A trace does not have the max_tokens of its requests, which was below the default of the gateway.
TEST(SimulatedGateway, ABudgetReservesPromptAndAnswerOfATraceWithoutReservations) {
  const auto workload = requests_at({1, 1, 1, 21.5, 21.5, 21.5}, 4, 300);
  EXPECT_EQ(run_ok(workload, with_budget(6000, 3000)).completed, 6U);
  EXPECT_EQ(run_ok(workload, with_budget(6000, 911)).completed, 4U) << "three requests reserve 912 tokens";
  EXPECT_EQ(run_ok(workload, with_budget(6000, 912)).completed, 6U);
}

TEST(SimulatedGateway, ABudgetReservesWhatWasRecorded) {
  auto workload = requests_at({1, 1, 1, 21.5, 21.5, 21.5}, 4, 300);
  for (workload::Request& request : workload.requests) request.reserved_tokens = 1000;
  EXPECT_EQ(run_ok(workload, with_budget(6000, 3000)).completed, 6U);
  EXPECT_EQ(run_ok(workload, with_budget(6000, 2999)).completed, 4U);
  for (workload::Request& request : workload.requests) request.reserved_tokens = 1;  // Estimated, and too low.
  EXPECT_EQ(run_ok(workload, with_budget(6000, 911)).completed, 4U);
}

TEST(SimulatedGateway, ABudgetCutsOnlyAnswersThatExceedItsBurst) {
  const auto output_of = [](const RunOptions& run_options) {
    const auto result = run_ok(requests_at({1}, 4, 5000), run_options);  // Above the default max_tokens.
    EXPECT_EQ(result.completed, 1U);
    return tenant(result, "default").output_tokens;
  };
  EXPECT_EQ(output_of(with_budget(6000, 0)), 5000U);
  EXPECT_EQ(output_of(with_budget(6000, 1004)), 1000U);
}

TEST(SimulatedGateway, BatchRequestsWaitWhereInteractiveOnesAreRefused) {
  RunOptions run_options = live(1);
  run_options.dispatch.emplace();
  run_options.dispatch->interactive.queue_time = std::chrono::seconds{1};
  run_options.dispatch->batch.queue_time = std::chrono::minutes{10};
  run_options.dispatch->pressure.prefill_tokens_per_replica = 600;
  workload::Workload workload = random_workload(600, 60.0);
  for (std::size_t i = 0; i < workload.requests.size(); i += 2)
    workload.requests[i].traffic_class = workload::TrafficClass::kBatch;
  const auto result = run_ok(workload, run_options);
  EXPECT_GT(failures(result, "queue_timeout"), 10U);
  EXPECT_GT(result.waited, 100U);
  EXPECT_GT(result.queue_wait_ms.max, 1000.0);  // those of batch requests
  for (const auto& segment : result.segments) {
    if (segment.label == "batch") {
      EXPECT_EQ(segment.failed, 0U);
    }
    if (segment.label == "interactive") {
      EXPECT_EQ(segment.failed, result.failed);
    }
  }
}

// Loads are reported once a second; what was sent since counts as well.
TEST(SimulatedGateway, NoBurstBetweenTwoReportsFillsTheKvCache) {
  RunOptions run_options = live(2);
  run_options.pools[0].engine.max_batched_tokens = 8192;
  std::vector<double> seconds;
  for (int i = 0; i < 20; ++i) seconds.push_back(20.0 * i);  // The gateway learns how long answers are.
  for (int i = 0; i < 14; ++i) seconds.push_back(500.0 + 0.25 * i);
  const workload::Workload workload = requests_at(seconds, 3400, 1500);  // A KV cache has room for 16,000 tokens.
  run_options.dispatch.emplace();
  run_options.dispatch->interactive.queue_time = std::chrono::minutes{10};
  const auto result = run_ok(workload, run_options);
  EXPECT_EQ(result.completed, 34U);
  EXPECT_EQ(result.preemptions, 0U);
  EXPECT_GT(result.waited, 6U);
}

// After the first wait, the next time that the dispatcher names is the end of the longest hold of KV, 8 minutes later.
TEST(SimulatedGateway, PromptsAreSentAsSoonAsThereIsRoomWhileKvIsHeld) {
  RunOptions run_options = testing::disaggregated(1, 1);
  run_options.router = routing::Strategy::kLive;
  run_options.check_each_event = true;
  run_options.kv_transfer_bytes_per_s = 300.0 * run_options.kv_bytes_per_token / 0.5;  // A prompt in 0.5 s.
  run_options.dispatch.emplace().pressure.prefill_tokens_per_replica = 400;
  const auto result = run_ok(requests_at({1, 1, 1, 5, 5, 5}, 300, 1000), run_options);
  EXPECT_EQ(result.completed, 6U);
  EXPECT_EQ(result.waited, 4U);
  EXPECT_LT(result.queue_wait_ms.max, 250.0) << "two prompts of 13 ms are ahead; an answer takes 10 s";
}

TEST(SimulatedGateway, TheRoutersOfPeersHaveNoLimits) {
  for (const auto router : {routing::Strategy::kKv, routing::Strategy::kRoundRobin, routing::Strategy::kPowerOfTwo}) {
    RunOptions run_options = live(1);
    run_options.router = router;
    const auto result = run_ok(two_tenants(500, 200.0), run_options);
    EXPECT_EQ(result.completed, 500U);
    EXPECT_EQ(result.waited, 0U);
    ASSERT_TRUE(result.tenants.empty());
  }
}

TEST(SimulatedGateway, ARequestThatItsReplicaLostBeforeTheFirstTokenIsTriedElsewhere) {
  RunOptions run_options = live(4);
  run_options.faults.crashes_per_replica_hour = 60.0;
  std::uint64_t retried = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    run_options.seed = seed;
    const auto result = run_ok(random_workload(1500, 20.0, seed), run_options);
    EXPECT_EQ(result.completed + result.failed, 1500U);
    EXPECT_GT(result.completed, 1300U);
    retried += result.retried;
  }
  EXPECT_GT(retried, 0U);
}

TEST(SimulatedGateway, ATruncatedPromptIsComputedAndChargedInPart) {
  const auto run_with = [](dispatch::OverContext policy) {
    RunOptions run_options = live(2);
    run_options.dispatch.emplace();
    run_options.dispatch->tenants.resize(1);
    run_options.dispatch->tenants[0].name = "all";
    run_options.dispatch->tenants[0].context_tokens = 300;
    run_options.dispatch->tenants[0].over_context = policy;
    workload::Workload made = random_workload(400, 5.0);
    made.tenants = {"all"};
    for (workload::Request& request : made.requests) request.tenant = 0;
    std::uint64_t longer = 0;
    for (const workload::Request& request : made.requests) longer += request.input_tokens > 300 ? 1 : 0;
    EXPECT_GT(longer, 50U);
    EXPECT_LT(longer, 400U);
    auto result = run_ok(made, run_options);
    EXPECT_EQ(policy == dispatch::OverContext::kTruncate ? result.truncated_prompts
                                                         : failures(result, "context_length_exceeded"),
              longer);
    return result;
  };
  const auto rejected = run_with(dispatch::OverContext::kReject);
  EXPECT_EQ(rejected.truncated_prompts, 0U);
  const auto truncated = run_with(dispatch::OverContext::kTruncate);
  EXPECT_EQ(truncated.completed, 400U);
  EXPECT_LE(tenant(truncated, "all").prompt_tokens, 400U * 300U);
  EXPECT_GT(tenant(truncated, "all").prompt_tokens, tenant(rejected, "all").prompt_tokens);
}

TEST(SimulatedGateway, CapsShortenPromptsAndAnswersApart) {
  RunOptions run_options = live(2);
  run_options.dispatch.emplace();
  run_options.dispatch->tenants.resize(1);
  run_options.dispatch->tenants[0].name = "all";
  run_options.dispatch->tenants[0].caps = {300, 0};
  run_options.dispatch->tenants[0].over_context = dispatch::OverContext::kTruncate;
  run_options.dispatch->models.push_back({"model", {1.0, 0.5, 2.0}});
  run_options.dispatch->models[0].caps = {0, 40};
  workload::Workload made = random_workload(400, 5.0);
  made.tenants = {"all"};
  std::uint64_t prompt_tokens = 0, output_tokens = 0, longer = 0;
  for (workload::Request& request : made.requests) {
    request.tenant = 0;
    prompt_tokens += std::min(request.input_tokens, 300U);
    output_tokens += std::min(request.output_tokens, 40U);
    longer += request.input_tokens > 300 ? 1 : 0;
  }
  const auto result = run_ok(made, run_options);
  EXPECT_EQ(result.completed, 400U);
  EXPECT_EQ(result.truncated_prompts, longer);
  EXPECT_EQ(tenant(result, "all").prompt_tokens, prompt_tokens);
  EXPECT_EQ(tenant(result, "all").output_tokens, output_tokens);
}

}  // namespace
}  // namespace penstock::simulation
