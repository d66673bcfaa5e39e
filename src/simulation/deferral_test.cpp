// Deferral in the simulated world: batch fills what interactive traffic leaves.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/policy.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using testing::at_s;
using testing::options;
using testing::pool;
using testing::random_workload;
using testing::run_ok;

constexpr core::Duration kCompletionWindow = std::chrono::minutes{4};
constexpr std::uint32_t kFleetMost = 8;

// Ten interactive requests per second, and a third as many batch requests, which arrive in bursts of ten seconds.
workload::Workload with_bursts_of_batch(std::uint64_t seed) {
  workload::Workload made = random_workload(6'000, 10.0, seed);
  const auto own_blocks = static_cast<std::uint32_t>(made.block_ids.size());
  workload::Workload batch = random_workload(2'000, 100.0, seed + 1'000);
  for (const std::uint32_t block : batch.block_ids) made.block_ids.push_back(block + 1'000'000);
  for (std::size_t i = 0; i < batch.requests.size(); ++i) {
    workload::Request request = batch.requests[i];
    request.first_block += own_blocks;
    request.arrival += i < 1'000 ? std::chrono::seconds{60} : std::chrono::seconds{300};
    request.traffic_class = workload::TrafficClass::kBatch;
    made.requests.push_back(request);
  }
  std::stable_sort(made.requests.begin(), made.requests.end(),
                   [](const auto& a, const auto& b) { return a.arrival < b.arrival; });
  return made;
}

RunOptions deferring_gateway(std::uint32_t replicas, core::Duration window) {
  RunOptions made = options(pool(replicas));
  made.router = routing::Strategy::kLive;
  made.check_each_event = true;
  made.slo = {std::chrono::milliseconds{500}, std::chrono::milliseconds{50}, {}};
  dispatch::DispatchOptions& dispatch = made.dispatch.emplace();
  dispatch.batch.completion_window = window;
  dispatch.interactive.queue_time = std::chrono::minutes{1};
  signals::add_deferred_segment(made.slo_segments, made.slo_goal, window);
  return made;
}

double attainment_of(const decision::RunResult& result, const std::string& label) {
  for (const auto& segment : result.segments)
    if (segment.label == label) return segment.slo_attainment;
  return -1.0;
}

// The smallest fleet with which interactive requests meet their SLO.
std::uint32_t replicas_for_interactive(const workload::Workload& workload, core::Duration window) {
  for (std::uint32_t replicas = 1; replicas < kFleetMost; ++replicas)
    if (attainment_of(run_ok(workload, deferring_gateway(replicas, window)), "interactive") >= 0.99) return replicas;
  return kFleetMost;
}

TEST(SimulatedDeferral, ASmallerFleetKeepsTheSloOfInteractiveRequestsAndEveryDeadline) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const workload::Workload workload = with_bursts_of_batch(seed);
    const std::uint32_t with = replicas_for_interactive(workload, kCompletionWindow);
    EXPECT_GT(replicas_for_interactive(workload, {}), with) << "seed " << seed;
    const auto result = run_ok(workload, deferring_gateway(with, kCompletionWindow));
    EXPECT_EQ(attainment_of(result, "batch"), 1.0);
    EXPECT_EQ(result.deferral.missed, 0U);
    EXPECT_GT(result.deferral.deferred, 1'000U);
    EXPECT_EQ(result.deferral.sent_spare + result.deferral.sent_due, 2'000U);
    EXPECT_EQ(result.failed, 0U);
  }
}

TEST(SimulatedDeferral, WithoutRoomEveryRequestIsStillAnsweredOrRefusedByItsDeadline) {
  workload::Workload workload = random_workload(1'500, 50.0, 3);
  for (workload::Request& request : workload.requests) request.traffic_class = workload::TrafficClass::kBatch;
  RunOptions made = deferring_gateway(1, std::chrono::seconds{20});
  made.dispatch->pressure.prefill_tokens_per_replica = 1;  // One prompt at a time.
  const auto result = run_ok(workload, made);
  EXPECT_EQ(result.completed + result.failed, 1'500U);
  EXPECT_GE(result.deferral.missed, result.failed);
}

}  // namespace
}  // namespace penstock::simulation
