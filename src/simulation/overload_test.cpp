// Overload policies in the simulated world: the protected class keeps its SLO while batch traffic exceeds the fleet.
#include <gtest/gtest.h>

#include <algorithm>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using admission::OverloadAction;
using testing::failures;
using testing::options;
using testing::pool;
using testing::random_workload;
using testing::run_ok;

constexpr std::uint32_t kRequests = 1500;
constexpr double kBatchRate = 60.0;  // They alone nearly fill two replicas.
constexpr double kBound = 0.05;      // Of the attainment that batch requests may cost the class interactive.

RunOptions gateway(OverloadAction batch, std::uint64_t seed) {
  RunOptions made = options(pool(2));
  made.pools[0].engine.max_sequences = 64;
  made.router = routing::Strategy::kLive;
  made.check_each_event = true;
  made.seed = seed;
  made.slo = {std::chrono::milliseconds{200}, std::chrono::milliseconds{100}, {}};
  dispatch::DispatchOptions& dispatch = made.dispatch.emplace();
  dispatch.batch.overload = batch;
  dispatch.batch.degrade = {5'000, 16};
  return made;
}

// Interactive requests, and batch requests among them that do not change them.
workload::Workload mixed(std::uint64_t seed, bool with_batch) {
  const double rate = 20.0 + 25.0 * core::RandomStream{seed}.fork("rate").uniform();
  workload::Workload made = random_workload(kRequests, rate, seed);
  if (!with_batch) return made;
  workload::Workload batch =
      random_workload(static_cast<std::uint32_t>(kRequests * kBatchRate / rate), kBatchRate, seed + 1000);
  const auto offset = static_cast<std::uint32_t>(made.block_ids.size());
  // Other prompts than those of the interactive requests.
  for (const std::uint32_t block : batch.block_ids) made.block_ids.push_back(block + 1'000'000);
  for (workload::Request& request : batch.requests) {
    request.first_block += offset;
    request.traffic_class = workload::TrafficClass::kBatch;
    made.requests.push_back(request);
  }
  std::stable_sort(made.requests.begin(), made.requests.end(),
                   [](const auto& a, const auto& b) { return a.arrival < b.arrival; });
  return made;
}

double attainment(const decision::RunResult& result, const std::string& traffic_class) {
  for (const auto& segment : result.segments)
    if (segment.label == traffic_class) return segment.slo_attainment;
  return -1.0;
}

TEST(SimulatedOverload, TheProtectedClassKeepsItsSloBesideBatchRequestsThatShedOrDrop) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const double alone = attainment(run_ok(mixed(seed, false), gateway(OverloadAction::kQueue, seed)), "interactive");
    for (const auto action : {OverloadAction::kDrop, OverloadAction::kShed}) {
      const auto both = run_ok(mixed(seed, true), gateway(action, seed));
      EXPECT_GE(attainment(both, "interactive"), alone - kBound) << "seed " << seed << ", " << to_string(action);
      // What the interactive requests leave is used.
      EXPECT_GE(attainment(both, "batch"), 0.2) << "seed " << seed << ", " << to_string(action);
    }
  }
}

TEST(SimulatedOverload, EachPolicyRefusesOrShortensAndNothingElse) {
  const auto run_with = [](OverloadAction action) { return run_ok(mixed(1, true), gateway(action, 1)); };
  const auto shed = run_with(OverloadAction::kShed), drop = run_with(OverloadAction::kDrop),
             degrade = run_with(OverloadAction::kDegrade), queue = run_with(OverloadAction::kQueue);
  EXPECT_GT(failures(shed, "engines_full"), 100U);
  EXPECT_EQ(failures(shed, "engines_full"), shed.failed);
  EXPECT_EQ(shed.clamped, 0U);
  EXPECT_GT(failures(drop, "dropped"), 100U);
  EXPECT_EQ(failures(drop, "dropped"), drop.failed);
  EXPECT_EQ(drop.clamped, 0U);
  EXPECT_GT(degrade.clamped, 100U);
  EXPECT_EQ(degrade.failed, 0U);
  EXPECT_EQ(queue.failed, 0U);
  EXPECT_EQ(queue.clamped, 0U);
  // Shorter answers leave more for others.
  EXPECT_GT(degrade.slo_attainment, queue.slo_attainment);
  EXPECT_GE(attainment(degrade, "interactive"), attainment(queue, "interactive") - 0.01);
}

}  // namespace
}  // namespace penstock::simulation
