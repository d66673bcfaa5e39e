// Faults at given times, clients that leave, and the limits by which the gateway ends what takes too long.
#include "simulation/faults.h"

#include <gtest/gtest.h>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using testing::disaggregated;
using testing::failures;
using testing::options;
using testing::pool;
using testing::random_workload;
using testing::requests_at;
using testing::run_ok;
using testing::Scripted;
using namespace std::chrono_literals;

std::uint64_t delivered(const decision::RunResult& result) {
  std::uint64_t tokens = 0;
  for (const auto& tenant : result.tenants) tokens += tenant.output_tokens;
  return tokens;
}

// The gateway in front of replicas whose steps take 10 ms, and 10 µs more for each prompt token.
RunOptions live(std::uint32_t replicas) {
  RunOptions made = options(pool(replicas));
  made.router = routing::Strategy::kLive;
  made.dispatch.emplace();
  made.check_each_event = true;
  return made;
}

// ---- crash ----------------------------------------------------------------------------------------------------------

TEST(Faults, AnEngineThatDiesDuringAStreamCutsItAndItsTokensAreCounted) {
  RunOptions run_options = live(1);
  run_options.faults.events = {{FaultKind::kCrash, 516ms}};
  // First token at 11 ms, then one each 10 ms: 51 tokens until 511 ms.
  const auto result = run_ok(requests_at({0.0}, 100, 400), run_options);
  EXPECT_EQ(failures(result, "replica_crashed"), 1U);
  EXPECT_EQ(delivered(result), 51U);
}

TEST(Faults, AnEngineThatDiesBeforeTheFirstTokenLosesNoRequest) {
  RunOptions run_options = live(2);
  run_options.faults.events = {{FaultKind::kCrash, 5ms, {}, 1}};
  const auto result = run_ok(requests_at({0.0, 0.0}, 100, 11), run_options);
  EXPECT_EQ(result.completed, 2U);
  EXPECT_EQ(result.retried, 1U);
}

// ---- hang -----------------------------------------------------------------------------------------------------------

TEST(Faults, AnEngineThatHangsContinuesWhereItStopped) {
  RunOptions run_options = live(1);
  run_options.faults.events = {{FaultKind::kHang, 55ms, 3s}};
  // The iteration in progress ends at 61 ms with the sixth token; the other five follow from 3,055 ms on.
  const auto result = run_ok(requests_at({0.0}, 100, 11), run_options);
  EXPECT_NEAR(result.e2e_ms.mean, 3055.0 + 50.0, 1e-3);
  EXPECT_NEAR(result.itl_ms.max, 3055.0 - 61.0 + 10.0, 40.0);
}

TEST(Faults, ARequestThatHangsBeforeItsFirstTokenIsTriedElsewhereAfterTheTimeout) {
  RunOptions run_options = live(2);
  run_options.dispatch->first_byte_timeout = 4s;
  run_options.faults.events = {{FaultKind::kHang, {}, 60s, 1}};
  const auto result = run_ok(requests_at({0.0, 0.0}, 100, 11), run_options);
  EXPECT_EQ(result.completed, 2U);
  EXPECT_EQ(result.retried, 1U);
  EXPECT_NEAR(result.ttft_ms.max, 4011.0, 1e-3);
  EXPECT_NEAR(result.duration_s, 4.111, 1e-6);
}

TEST(Faults, ARequestWithoutAByteLeavesAHungEngineOnceThatIsUnresponsive) {
  RunOptions run_options = live(2);
  run_options.faults.events = {{FaultKind::kHang, {}, 600s, 1}};
  const auto result = run_ok(requests_at({0.0, 0.0}, 100, 11), run_options);
  EXPECT_EQ(result.completed, 2U);
  EXPECT_EQ(result.retried, 1U);
  EXPECT_NEAR(result.ttft_ms.max, 10'011.0, 1e-3);
}

TEST(Faults, ARequestWaitsAtAnUnresponsiveEngineUntilThereIsAnother) {
  RunOptions run_options = live(1);
  run_options.faults.events = {{FaultKind::kHang, {}, 40s, 1}};
  const auto result = run_ok(requests_at({0.0}, 100, 11), run_options);
  EXPECT_EQ(result.completed, 1U);
  EXPECT_EQ(result.retried, 0U);
}

TEST(Faults, AStreamOfAnUnresponsiveEngineIsCutAfterItsOwnLimit) {
  RunOptions run_options = live(1);
  run_options.dispatch->unresponsive_idle_timeout = 30s;
  run_options.faults.events = {{FaultKind::kHang, 516ms, 600s}};
  const auto result = run_ok(requests_at({0.0}, 100, 400), run_options);
  EXPECT_EQ(failures(result, "replica_timeout"), 1U);
  EXPECT_NEAR(result.duration_s, 30.516, 1e-6);
}

TEST(Faults, WhereAllEnginesHangARequestFailsAfterItsAttempts) {
  RunOptions run_options = live(2);
  run_options.dispatch->first_byte_timeout = 2s;
  run_options.faults.events = {{FaultKind::kHang, {}, 600s}};
  const auto result = run_ok(requests_at({0.0}, 100, 11), run_options);
  EXPECT_EQ(failures(result, "replica_timeout"), 1U);
  EXPECT_EQ(result.retried, 1U);
  EXPECT_NEAR(result.duration_s, 4.0, 1e-6);
}

TEST(Faults, AStreamThatIsSilentForTooLongIsCut) {
  RunOptions run_options = live(1);
  run_options.dispatch->stream_idle_timeout = 20s;
  run_options.faults.events = {{FaultKind::kHang, 516ms, 600s}};
  const auto result = run_ok(requests_at({0.0}, 100, 400), run_options);
  EXPECT_EQ(failures(result, "replica_timeout"), 1U);
  EXPECT_EQ(delivered(result), 52U);  // One more comes at the end of the iteration in progress.
  EXPECT_NEAR(result.duration_s, 20.516, 1e-6);
}

TEST(Faults, AHungReplicaGetsNoRequestsOnceItsHealthChecksFailAndIsReplaced) {
  RunOptions run_options = live(2);
  run_options.dispatch->first_byte_timeout = 10s;
  run_options.faults.events = {{FaultKind::kHang, 1s, 0s, 1}};
  std::vector<double> times;
  times.reserve(100);
  for (int i = 0; i < 100; ++i) times.push_back(10.0 + i);  // After the failed health checks.
  std::uint32_t stopped = 0;
  Scripted policy{[&](const signals::Observation& seen, std::size_t) {
    stopped += seen.pools[0].replicas.front().replica != 1 ? 1 : 0;
    return 2U;
  }};
  const auto result = run_ok(requests_at(times, 100, 11), policy, run_options);
  EXPECT_EQ(result.completed, 100U);
  EXPECT_NEAR(result.ttft_ms.max, 11.0, 1e-3);
  EXPECT_EQ(result.peak_replicas, 3U);
  EXPECT_NEAR(stopped, 62.0, 2.0);  // Unhealthy at 7 s, replaced from 37 s on, and the replacement starts for 10 s.
}

// ---- truncate -------------------------------------------------------------------------------------------------------

TEST(Faults, AReplicaThatTruncatesEveryStreamIsEjected) {
  RunOptions run_options = live(4);
  run_options.faults.events = {{FaultKind::kTruncate, {}, {}, 4}};
  std::vector<double> times;
  times.reserve(1200);
  for (int i = 0; i < 1200; ++i) times.push_back(0.05 * i);  // 20 a second for 60 s, of 2 s each.
  const auto result = run_ok(requests_at(times, 100, 200), run_options);
  EXPECT_GT(failures(result, "truncated"), 0U);
  EXPECT_LE(failures(result, "truncated"), 1200U * 2 / 100);
  EXPECT_EQ(result.completed + failures(result, "truncated"), 1200U);
}

TEST(Faults, AReplicaThatRecoversServesAgain) {
  RunOptions run_options = live(2);
  run_options.faults.events = {{FaultKind::kTruncate, {}, 10s, 2}};
  std::vector<double> times;
  times.reserve(2000);
  for (int i = 0; i < 2000; ++i) times.push_back(0.1 * i);
  const auto result = run_ok(requests_at(times, 100, 50), run_options);
  EXPECT_GT(failures(result, "truncated"), 0U);
  EXPECT_LE(failures(result, "truncated"), 20U);
}

// ---- slow -----------------------------------------------------------------------------------------------------------

TEST(Faults, AnEngineIsSlowForAsLongAsTheFaultLasts) {
  RunOptions run_options = live(1);
  run_options.faults.events = {{FaultKind::kSlow, 45ms, 110ms, 0, {}, 5.0}};
  // Steps end at 11, 21, 31, 41 and 51 ms, then at 101, 151 and 201 ms, then each takes 10 ms again.
  const auto result = run_ok(requests_at({0.0}, 100, 11), run_options);
  EXPECT_NEAR(result.e2e_ms.mean, 51.0 + 3 * 50.0 + 3 * 10.0, 1e-3);
}

TEST(Faults, OnePoolIsSlow) {
  RunOptions run_options = disaggregated(1, 1);
  run_options.kv_bytes_per_token = 1e6;
  run_options.kv_transfer_bytes_per_s = 1e9;
  run_options.faults.events = {{FaultKind::kSlow, {}, {}, 0, "decode", 2.0}};
  const auto result = run_ok(requests_at({0.0}, 100, 11), run_options);
  EXPECT_NEAR(result.ttft_ms.mean, 11.0 + 100.0, 1e-3);
  EXPECT_NEAR(result.e2e_ms.mean, 111.0 + 10 * 20.0, 1e-3);
}

TEST(Faults, FactorsOfEventsAtTheSameTimeMultiply) {
  Faults faults;
  faults.events = {{FaultKind::kSlow, 1s, 2s, 0, {}, 2.0}, {FaultKind::kSlow, 2s, {}, 3, {}, 5.0}};
  const auto at = [&](double second, std::uint32_t replica) {
    return slow_factor(faults, replica, "default", testing::at_s(second));
  };
  EXPECT_EQ(at(0.5, 3), 1.0);
  EXPECT_EQ(at(1.0, 3), 2.0);
  EXPECT_EQ(at(2.5, 3), 10.0);
  EXPECT_EQ(at(2.5, 4), 2.0);
  EXPECT_EQ(at(3.0, 3), 5.0);
}

// ---- clients that leave, time budgets -------------------------------------------------------------------------------

TEST(Faults, AClientThatLeavesGivesItsSlotAndItsBudgetBackAtOnce) {
  RunOptions run_options = live(1);
  run_options.dispatch->tenants.resize(1);
  run_options.dispatch->tenants[0].name = "default";
  run_options.dispatch->tenants[0].concurrent = 1;
  run_options.dispatch->tenants[0].over_budget = dispatch::OverBudget::kQueue;
  run_options.dispatch->interactive.queue_time = 100s;
  run_options.faults.cancelled_requests = 1.0;
  run_options.faults.cancelled_after = 1s;
  // Each request would take 10 s; its client leaves long before, and the next one starts at once.
  const auto result = run_ok(requests_at(std::vector<double>(5, 0.0), 100, 1000), run_options);
  EXPECT_EQ(failures(result, "cancelled"), 5U);
  EXPECT_LT(result.duration_s, 9.0);
  EXPECT_EQ(result.slo_attainment, 1.0);  // Clients that left are not judged.
  EXPECT_GT(delivered(result), 10U);
}

TEST(Faults, TheShareOfClientsThatLeaveIsTheGivenOne) {
  RunOptions run_options = live(4);
  run_options.faults.cancelled_requests = 0.2;
  run_options.faults.cancelled_after = 1ms;
  const auto result = run_ok(random_workload(2000, 10.0), run_options);
  EXPECT_NEAR(static_cast<double>(failures(result, "cancelled")), 400.0, 60.0);
  EXPECT_EQ(result.completed + failures(result, "cancelled"), 2000U);
}

TEST(Faults, ATimeBudgetEndsARequestWithWhatItHas) {
  RunOptions run_options = live(1);
  run_options.dispatch->interactive.time_budget = 516ms;
  const auto result = run_ok(requests_at({0.0}, 100, 400), run_options);
  EXPECT_EQ(failures(result, "time_budget_exceeded"), 1U);
  EXPECT_EQ(delivered(result), 52U);
  EXPECT_NEAR(result.duration_s, 0.516, 1e-6);
}

// ---- the gateway ----------------------------------------------------------------------------------------------------

TEST(Faults, ARestartOfTheGatewayCutsStreamsAndClientsWithoutATokenSendTheirsAgain) {
  RunOptions run_options = live(1);
  run_options.dispatch->tenants.resize(1);
  run_options.dispatch->tenants[0].name = "default";
  run_options.faults.events = {{FaultKind::kGatewayRestart, 516ms, 2s}};
  // The first has 51 tokens when the gateway stops, the second none, and the third comes while it is away.
  const auto result = run_ok(requests_at({0.0, 0.515, 1.0}, 100, 400), run_options);
  EXPECT_EQ(failures(result, "gateway_restarted"), 1U);
  EXPECT_EQ(result.completed, 2U);
  EXPECT_NEAR(result.ttft_ms.max, 2516.0 - 515.0 + 12.0, 1e-3);  // Both prompts are computed in one step.
  ASSERT_EQ(result.tenants.size(), 1U);
  EXPECT_EQ(result.tenants[0].requests, 4U);  // Two entries are lost, and two follow.
  EXPECT_EQ(result.tenants[0].completed, 2U);
  EXPECT_EQ(result.tenants[0].prompt_tokens, 400U);  // Lost ones keep the prompt that they were opened with.
  EXPECT_EQ(delivered(result), 800U);
}

TEST(Faults, BudgetsKeepTheirLevelsOverARestart) {
  RunOptions run_options = live(2);
  run_options.dispatch->tenants.resize(1);
  run_options.dispatch->tenants[0].name = "default";
  run_options.dispatch->tenants[0].budget = {9000.0, 0.0};
  // The first leaves too little for the second, and the restart gives nothing to the third.
  run_options.faults.events = {{FaultKind::kGatewayRestart, 3s}};
  const auto result = run_ok(requests_at({0.0, 2.0, 3.5}, 5000, 10), run_options);
  EXPECT_EQ(failures(result, "token_budget_exceeded"), 2U);
  EXPECT_EQ(result.completed, 1U);
}

// ---- KV events ------------------------------------------------------------------------------------------------------

TEST(Faults, DelayedCacheEventsCostPrefixHitsUntilTheyArrive) {
  RunOptions run_options = options(pool(4));
  run_options.router = routing::Strategy::kKv;
  workload::Workload workload = requests_at({0.0, 1.0, 4.0}, 320, 2);
  for (workload::Request& request : workload.requests) request.block_count = 20;
  for (std::uint32_t block = 0; block < 20; ++block) workload.block_ids.push_back(block);
  std::vector<double> hits;
  for (const auto delay : {0s, 2s, 10s}) {
    run_options.faults.cache_event_delay = delay;
    double ratio = 0.0;
    for (std::uint64_t seed = 1; seed <= 32; ++seed) {
      run_options.seed = seed;
      ratio += run_ok(workload, run_options).prefix_hit_ratio / 32.0;
    }
    hits.push_back(ratio);
  }
  EXPECT_NEAR(hits[0], 2.0 / 3.0, 0.05);  // The second and the third request find the prefix of the first.
  EXPECT_GT(hits[0], hits[1]);
  EXPECT_GT(hits[1], hits[2]);  // After 10 s no request knows of it; one in four finds it by chance.
}

// ---- what policies see ----------------------------------------------------------------------------------------------

TEST(Faults, ARequestThatItsTenantHoldsUpIsNoArrivalBeforeItsLimitLetsItGo) {
  RunOptions run_options = live(2);
  run_options.dispatch->tenants.resize(1);
  run_options.dispatch->tenants[0].name = "default";
  run_options.dispatch->tenants[0].concurrent = 1;
  run_options.dispatch->tenants[0].over_budget = dispatch::OverBudget::kQueue;
  std::vector<std::uint64_t> arrivals;
  std::vector<double> ttft_ms;
  Scripted policy{[&](const signals::Observation& seen, std::size_t) {
    arrivals.push_back(seen.pools[0].arrivals_total);
    ttft_ms.push_back(seen.pools[0].last_minute.ttft.p99_ms);
    return 2U;
  }};
  // Each takes 2.001 s, one after the other.
  const auto result = run_ok(requests_at({0.0, 0.0, 0.0}, 100, 200), policy, run_options);
  EXPECT_EQ(result.completed, 3U);
  ASSERT_GE(arrivals.size(), 5U);
  EXPECT_EQ(arrivals[0], 1U);
  EXPECT_EQ(arrivals[2], 2U);
  EXPECT_EQ(arrivals[4], 3U);
  EXPECT_GT(result.ttft_ms.max, 3900.0);  // Users waited for it …
  EXPECT_LT(ttft_ms.back(), 20.0);        // … and more replicas would not have helped.
}

}  // namespace
}  // namespace penstock::simulation
