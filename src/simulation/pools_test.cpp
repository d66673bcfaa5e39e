// Several aggregated pools of one model: rules, engines and prices of their own, what policies see, and trials.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "planner/penstock/penstock_planner.h"
#include "simulation/trials.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using namespace std::chrono_literals;
using testing::at_s;
using testing::pool;
using testing::run_ok;

// Prompts of 200 tokens at 12 a second, and of 20,000 tokens, of which each takes 0.3 s, at 5 a second.
workload::Workload short_and_long(std::uint32_t requests, std::uint64_t seed) {
  core::RandomStream random{seed};
  workload::Workload made;
  made.block_tokens = 16;
  made.tenants = {"anonymous"};
  double at = 0.0;
  for (std::uint32_t i = 0; i < requests; ++i) {
    at += random.exponential(1.0 / 17.0);
    workload::Request request;
    request.arrival = at_s(at);
    request.input_tokens = random.uniform() < 5.0 / 17.0 ? 20'000 : 200;
    request.output_tokens = 20;
    made.requests.push_back(request);
  }
  return made;
}

PoolSpec pool_of(const char* name, std::uint32_t replicas, std::uint32_t kv_blocks = 8000) {
  PoolSpec spec = pool(replicas);
  spec.name = name;
  spec.engine.kv_blocks = kv_blocks;
  return spec;
}

RunOptions live_options(std::vector<PoolSpec> pools) {
  RunOptions made;
  made.pools = std::move(pools);
  made.router = routing::Strategy::kLive;
  made.slo = {2s, 1s};
  made.check_each_event = true;
  signals::SegmentSlo brief;
  brief.name = "short";
  brief.prompt_max = 1000;
  brief.target = {60ms, 1s, {}};
  made.slo_segments = {brief};
  return made;
}

std::vector<PoolSpec> split_pools(std::uint32_t brief, std::uint32_t lengthy) {
  std::vector<PoolSpec> pools = {pool_of("short", brief), pool_of("long", lengthy)};
  pools[0].serves.prompt_max = 1000;
  return pools;
}

TEST(Pools, SeparateShortPromptsKeepATtftThatOnePoolOfTheSameSizeMisses) {
  const workload::Workload workload = short_and_long(3000, 3);
  const decision::RunResult mixed = run_ok(workload, live_options({pool_of("all", 3)}));
  const decision::RunResult split = run_ok(workload, live_options(split_pools(1, 2)));
  ASSERT_EQ(mixed.targets.size(), 2U);
  const double mixed_short = mixed.targets[1].attainment(), split_short = split.targets[1].attainment();
  EXPECT_GT(split_short, 0.995);
  EXPECT_LT(mixed_short, 0.95);
  EXPECT_EQ(split.completed, 3000U);
  EXPECT_DOUBLE_EQ(split.mean_replicas, 3.0);
}

TEST(Pools, EachPoolHasItsOwnEngineAndPrice) {
  std::vector<PoolSpec> pools = split_pools(2, 3);
  pools[0].price_per_gpu_hour = 1.0;
  pools[1].price_per_gpu_hour = 4.0;
  pools[1].gpus_per_replica = 2;
  pools[0].engine.kv_blocks = 1000;  // 16,000 tokens: no long prompt could ever be there.
  const decision::RunResult result = run_ok(short_and_long(500, 5), live_options(pools));
  EXPECT_EQ(result.completed, 500U);
  const double hours = result.duration_s / 3600.0;
  EXPECT_NEAR(result.gpu_hours, hours * (2 + 6), 1e-9);
  EXPECT_NEAR(result.cost, hours * (2 * 1.0 + 6 * 4.0), 1e-9);
}

// Equal pools cost what one pool of their size costs, and a pool of long prompts spends more on prompts.
TEST(Pools, PromptTokensBearTheirPartOfTheCostOfEachPool) {
  const workload::Workload workload = short_and_long(2000, 9);
  const auto share = [&](std::vector<PoolSpec> pools, double price_of_last = 1.0) {
    for (PoolSpec& each : pools) each.price_per_gpu_hour = 1.0;
    pools.back().price_per_gpu_hour = price_of_last;
    return run_ok(workload, live_options(std::move(pools))).input_cost_share;
  };
  const double one = share({pool_of("all", 4)});
  EXPECT_GT(one, 0.1);
  EXPECT_NEAR(share({pool_of("first", 2), pool_of("second", 2)}), one, 0.15 * one);
  const double split = share(split_pools(2, 2));
  EXPECT_GT(split, 0.1);
  EXPECT_GT(share(split_pools(2, 2), 10.0), split) << "the engines of long prompts are dear";
  EXPECT_LT(share(split_pools(2, 2), 0.1), split);
}

// 1,600 tokens of KV cache: what a pool cannot hold goes to the next one, or nowhere.
TEST(Pools, ARequestThatItsPoolCannotHoldIsServedByAnother) {
  std::vector<PoolSpec> pools = {pool_of("small", 1, 100), pool_of("large", 1, 200)};
  pools[0].serves.prompt_max = 2000;
  const auto completed = [&](std::uint32_t input, std::uint32_t output) {
    return run_ok(testing::requests_at({0.0, 1.0}, input, output), live_options(pools)).completed;
  };
  EXPECT_EQ(completed(1500, 50), 2U);
  EXPECT_EQ(completed(1500, 400), 2U) << "the small one lacks the room for the answer";
  EXPECT_EQ(completed(1900, 50), 2U);
  const decision::RunResult none = run_ok(testing::requests_at({0.0}, 1900, 2000), live_options(pools));
  EXPECT_EQ(none.completed, 0U);
  EXPECT_EQ(testing::failures(none, "prompt_exceeds_kv_cache"), 1U);
}

TEST(Pools, APolicySeesTheRequestsOfEachPool) {
  workload::Workload workload = short_and_long(1000, 7);
  for (std::size_t i = 0; i < workload.requests.size(); i += 4)
    workload.requests[i].traffic_class = workload::TrafficClass::kBatch;
  std::vector<PoolSpec> pools = split_pools(2, 2);
  pools.insert(pools.begin(), pool_of("nightly", 2));
  pools[0].serves.traffic_class = "batch";
  std::array<std::uint64_t, 3> arrivals{}, completed{};
  testing::Scripted policy{[&](const signals::Observation& seen, std::size_t index) {
    arrivals[index] = seen.pools[index].arrivals_total;
    completed[index] = seen.pools[index].completed_total;
    return seen.pools[index].target_replicas;
  }};
  RunOptions run_options = live_options(pools);
  run_ok(workload, policy, run_options);
  std::array<std::uint64_t, 3> expected{};
  for (const workload::Request& request : workload.requests) {
    const bool batch = request.traffic_class == workload::TrafficClass::kBatch;
    ++expected[batch ? 0 : request.input_tokens > 1000 ? 2 : 1];
  }
  // The last tick comes before the last arrivals.
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LE(arrivals[i], expected[i]);
    EXPECT_GE(arrivals[i] + 20, expected[i]);
    EXPECT_LE(completed[i], arrivals[i]);
    EXPECT_GE(completed[i] + 30, expected[i]);
  }
}

TEST(Pools, WhileAPoolIsGoneItsRequestsGoToOneThatCanHoldThem) {
  std::vector<PoolSpec> pools = split_pools(1, 1);
  RunOptions run_options = live_options(pools);
  FaultEvent crash;
  crash.kind = FaultKind::kCrash;
  crash.at = 10s;
  crash.pool = "short";
  run_options.faults.events = {crash};
  std::vector<double> times;
  for (int i = 0; i < 100; ++i) times.push_back(5.0 + 0.1 * i);
  const decision::RunResult result = run_ok(testing::requests_at(times, 100, 5), run_options);
  EXPECT_EQ(result.completed, 100U);
  EXPECT_LT(result.ttft_ms.max, 1000.0) << "the start-up takes 10 s";
}

// Without overflow, so that each pool is judged by its own requests.
TEST(Pools, TrialsServeEachPoolsRequestsWithItsReplicas) {
  RunOptions run_options = live_options(split_pools(1, 1));
  run_options.slo_segments.clear();
  run_options.slo = {300ms, 1s};
  std::vector<signals::RecentRequest> requests;
  // 1,000 tokens take 20 ms, so that 90 a second need two replicas.
  for (int i = 0; i < 900; ++i) requests.push_back({at_s(100.0 + i / 90.0), 1000, 2, 50.0F, 10.0F, {}});
  for (int i = 0; i < 10; ++i) {
    requests.push_back({at_s(100.05 + i), 10'000, 2, 50.0F, 10.0F, {}});
    requests.back().pool = 1;
  }
  std::ranges::stable_sort(requests, {}, &signals::RecentRequest::arrival);
  const auto trials = make_trials(run_options);
  trials->load({requests, 1.0});
  const auto attainment = [&](std::uint32_t brief, std::uint32_t lengthy) {
    return trials->attempt(std::array{brief, lengthy}).all.attainment();
  };
  EXPECT_LT(attainment(1, 4), 0.5);
  EXPECT_GT(attainment(3, 1), 0.99);
  for (signals::RecentRequest& request : requests) request.pool = 1;
  trials->load({requests, 1.0});
  EXPECT_LT(attainment(3, 1), 0.5) << "the pool that a request had counts";
  EXPECT_GT(attainment(1, 4), 0.99);
  trials->load({requests, 1.5});
  EXPECT_LT(attainment(4, 1), 0.5) << "at another rate, too";
  EXPECT_GT(attainment(1, 6), 0.99);
}

TEST(Pools, ThePlannerScalesEachPoolByItsOwnRequests) {
  std::vector<PoolSpec> pools = split_pools(1, 1);
  pools[0].serves.prompt_max = 4000;
  for (PoolSpec& spec : pools) spec.max_replicas = 8;
  RunOptions run_options = live_options(pools);
  run_options.check_each_event = false;
  run_options.slo_segments.clear();
  run_options.slo = {300ms, 1s};
  workload::Workload workload;
  workload.block_tokens = 16;
  workload.tenants = {"anonymous"};
  core::RandomStream random{11};
  for (double at = 0.0; at < 400.0; at += random.exponential(1.0 / 60.0)) {
    workload::Request request;
    request.arrival = at_s(at);
    request.input_tokens = random.below(100) == 0 ? 5000 : 2000;
    request.output_tokens = 3;
    workload.requests.push_back(request);
  }
  const auto policy = planner::make_penstock_planner(make_trials(run_options), {run_options.slo, 0.95, {}}, {});
  const decision::RunResult result = run_ok(workload, *policy, run_options);
  ASSERT_FALSE(result.series.empty());
  const std::vector<std::uint32_t>& ready = result.series.back().ready_by_pool;
  ASSERT_EQ(ready.size(), 2U);
  EXPECT_GE(ready[0], 3U) << "60 requests a second of 30 ms each";
  EXPECT_LE(ready[1], 2U) << "less than one request a second";
}

}  // namespace
}  // namespace penstock::simulation
