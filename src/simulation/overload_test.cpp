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

constexpr std::uint32_t kRequests = 600;
constexpr double kInteractiveRate = 15.0;  // Half of what two replicas serve.
constexpr double kBatchRate = 60.0;

RunOptions gateway(OverloadAction batch, std::uint64_t seed) {
  RunOptions made = options(pool(2));
  made.pools[0].engine.max_sequences = 64;
  made.router = routing::Strategy::kLive;
  made.check_each_event = true;
  made.seed = seed;
  made.slo = {std::chrono::milliseconds{500}, std::chrono::milliseconds{100}, {}};
  dispatch::DispatchOptions& dispatch = made.dispatch.emplace();
  dispatch.batch.overload = batch;
  dispatch.batch.degrade = {5'000, 16};
  return made;
}

// Interactive requests, and batch requests among them that do not change them.
workload::Workload mixed(std::uint64_t seed, bool with_batch) {
  workload::Workload made = random_workload(kRequests, kInteractiveRate, seed);
  if (!with_batch) return made;
  workload::Workload batch = random_workload(kRequests * 4, kBatchRate, seed + 1000);
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

TEST(SimulatedOverload, TheProtectedClassKeepsItsSloBesideBatchTrafficThatExceedsTheFleet) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const auto alone = run_ok(mixed(seed, false), gateway(OverloadAction::kQueue, seed));
    std::printf("seed %d alone %.4f\n", int(seed), attainment(alone, "interactive"));
    for (const auto action :
         {OverloadAction::kQueue, OverloadAction::kDegrade, OverloadAction::kDrop, OverloadAction::kShed}) {
      const auto both = run_ok(mixed(seed, true), gateway(action, seed));
      std::printf("  %s %.4f batch %.4f clamped %d shed %d dropped %d timeout %d\n", to_string(action),
                  attainment(both, "interactive"), attainment(both, "batch"), int(both.clamped),
                  int(failures(both, "engines_full")), int(failures(both, "dropped")),
                  int(failures(both, "queue_timeout")));
    }
  }
}

}  // namespace
}  // namespace penstock::simulation
