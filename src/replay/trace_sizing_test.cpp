#include "replay/trace_sizing.h"

#include <gtest/gtest.h>

#include "planner/policy.h"
#include "replay/fixed_fleet_run.h"
#include "replay/setup.h"

namespace penstock::replay {
namespace {

workload::Workload traffic(core::Duration length, core::Duration gap) {
  workload::Workload made;
  made.name = "steady";
  for (core::Duration at{}; at < length; at += gap) {
    workload::Request request;
    request.arrival = core::kStart + at;
    request.input_tokens = 2000;
    request.output_tokens = 200;
    made.requests.push_back(request);
  }
  return made;
}

simulation::RunOptions options_of(const std::string& engine) {
  simulation::RunOptions options;
  options.router = routing::Strategy::kLeastLoaded;
  options.pools.front().step_time_model = engine;
  auto made = make_run_options(options);
  EXPECT_TRUE(made) << made.error().message();
  return *made;
}

TraceSizing size(const workload::Workload& workload, const simulation::RunOptions& options) {
  const auto peak = busiest_hour(workload, {});
  EXPECT_TRUE(peak);
  auto sizing = size_for_trace(workload, *peak, options, {});
  EXPECT_TRUE(sizing) << sizing.error().message();
  return sizing ? *std::move(sizing) : TraceSizing{};
}

// The attainment of a fixed fleet, run apart from any search.
double attainment_of(const workload::Workload& workload, const simulation::RunOptions& options,
                     std::uint32_t replicas) {
  auto fixed = planner::make_policy("static", {});
  const auto done = simulation::run(workload, **fixed, fixed_at(options, {replicas}));
  return done->slo_attainment;
}

TEST(TraceSizing, TheFleetReachesTheGoalAndOneFewerDoesNot) {
  const workload::Workload workload = traffic(std::chrono::minutes{5}, std::chrono::milliseconds{50});
  const simulation::RunOptions options = options_of("polynomial");
  const TraceSizing sizing = size(workload, options);
  ASSERT_TRUE(sizing.reaches_goal()) << sizing.why;
  const std::uint32_t replicas = sizing.result->replicas;
  ASSERT_GT(replicas, 1U);
  EXPECT_GE(attainment_of(workload, options, replicas), options.slo_goal);
  EXPECT_LT(attainment_of(workload, options, replicas - 1), options.slo_goal);
  ASSERT_TRUE(sizing.one_fewer);
  EXPECT_EQ(sizing.one_fewer->replicas, replicas - 1);
  EXPECT_EQ(sizing.peak_replicas, replicas);  // The trace is shorter than an hour.
  ASSERT_TRUE(sizing.busy);
  EXPECT_GT(*sizing.busy, 0.1);
  EXPECT_LE(*sizing.busy, 1.0);
}

TEST(TraceSizing, TheBusiestHourAloneMayNeedMoreThanAGoalOverAllHours) {
  workload::Workload workload = traffic(std::chrono::hours{6}, std::chrono::seconds{1});
  // Less than 3 % of all requests, which the goal of 97 % allows to miss.
  workload::Workload busy = traffic(std::chrono::seconds{30}, std::chrono::milliseconds{50});
  for (workload::Request& request : busy.requests) request.arrival += std::chrono::hours{8};
  workload.requests.insert(workload.requests.end(), busy.requests.begin(), busy.requests.end());
  simulation::RunOptions options = options_of("polynomial");
  options.slo_goal = 0.97;
  const auto cropped = busiest_hour(workload, std::chrono::hours{7});
  ASSERT_TRUE(cropped);
  const auto sizing = size_for_trace(workload, *cropped, options, {});
  ASSERT_TRUE(sizing && sizing->reaches_goal() && sizing->peak_replicas);
  EXPECT_GT(*sizing->peak_replicas, sizing->result->replicas);
}

TEST(TraceSizing, TheBusiestHourHasTheMostTokens) {
  workload::Workload workload = traffic(std::chrono::hours{5}, std::chrono::seconds{10});
  for (workload::Request& request : workload.requests)
    if (request.arrival >= core::kStart + std::chrono::minutes{130} &&
        request.arrival < core::kStart + std::chrono::minutes{190})
      request.input_tokens = 3000;
  const auto peak = busiest_hour(workload, {});
  ASSERT_TRUE(peak);
  EXPECT_EQ(peak->from, std::chrono::minutes{130});
  EXPECT_EQ(peak->requests, 360U);
  EXPECT_EQ(busiest_hour(workload, std::chrono::minutes{200})->from, std::chrono::minutes{200});
}

TEST(TraceSizing, AnEngineWhoseCacheHoldsTooFewRequestsIsRuledOutWithoutARun) {
  simulation::RunOptions options = options_of("polynomial");
  options.pools.front().engine.kv_blocks = 3;  // 1,536 tokens, and the last one of an answer is not kept.
  const TraceSizing sizing = size(traffic(std::chrono::minutes{1}, std::chrono::seconds{1}), options);
  EXPECT_EQ(sizing.ruled_out, RuledOut::kKvCache);
  EXPECT_FALSE(sizing.result);
  EXPECT_EQ(sizing.too_long, 60U);
  EXPECT_NE(
      sizing.why.find("holds 1,537 tokens, and 60 of 60 requests (100.0 %) do not fit; the longest has 2,200 tokens"),
      std::string::npos)
      << sizing.why;
}

TEST(TraceSizing, TheLimitThatNoFleetKeepsIsNamedWithTheBestFigure) {
  const workload::Workload workload = traffic(std::chrono::minutes{1}, std::chrono::seconds{1});
  const TraceSizing slow_decode = size(workload, options_of("linear:80,0,0.01,0"));
  EXPECT_EQ(slow_decode.ruled_out, RuledOut::kItl);
  EXPECT_NE(slow_decode.why.find("0.0 % of the requests keep it at best"), std::string::npos) << slow_decode.why;
  const TraceSizing slow_prefill = size(workload, options_of("linear:1,0,3,0"));
  EXPECT_EQ(slow_prefill.ruled_out, RuledOut::kTtft);
  ASSERT_TRUE(slow_prefill.result);
  EXPECT_FALSE(slow_prefill.trials.empty());
}

TEST(TraceSizing, TheReasonNamesTheMaximumThatLimitsTheFleet) {
  simulation::RunOptions options = options_of("polynomial");
  options.pools.front().max_replicas = 1;
  const TraceSizing sizing = size(traffic(std::chrono::minutes{5}, std::chrono::milliseconds{50}), options);
  EXPECT_FALSE(sizing.reaches_goal());
  EXPECT_NE(sizing.why.find("1 replica (--max-replicas)"), std::string::npos) << sizing.why;
}

}  // namespace
}  // namespace penstock::replay
