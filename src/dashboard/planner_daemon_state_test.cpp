#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "dashboard/planner_daemon_testing.h"

namespace penstock::dashboard {
namespace {

using namespace controller;
using namespace std::chrono_literals;

TEST_F(PlannerDaemonTest, ARestartedPlannerContinuesWhereItStopped) {
  state_file = testing::TempDir() + "penstock-policy.json";
  std::filesystem::remove(state_file);
  open();
  run_until_decided(3);
  EXPECT_EQ(log.count(logging::Event::kPolicyState), 0U) << "there is no state yet";
  std::size_t records = logged.size();
  const core::Instant before = policy.seen.now;
  for (const bool killed : {true, false}) {
    if (killed) std::filesystem::copy_file(state_file, state_file + ".copy");
    daemon.reset();
    if (killed) std::filesystem::rename(state_file + ".copy", state_file);
    const int decided = std::exchange(policy.decided, 0);
    open();
    EXPECT_GE(policy.decided, decided - 1);
    EXPECT_GE(policy.decided, 3);
    run_until_decided();
    EXPECT_GT(policy.seen.now, before);
    EXPECT_EQ(logged.size(), ++records) << "the log of a run begins with the decision in force";
  }
  EXPECT_EQ(log.lines(logging::Event::kPolicyState), (std::vector<std::string>(2, "policy_state message=restored")));
}

TEST_F(PlannerDaemonTest, ARestartedPlannerContinuesTheGpuCosts) {
  state_file = testing::TempDir() + "penstock-costs.json";
  std::filesystem::remove(state_file);
  fleet.views = {view(sample())};
  policy.evidence = {{"input_time_share", 0.25, "share"}};
  // One request ends after the planner started. The gateway reports it to the next planner, too.
  const core::Instant begun = loop.now();
  std::optional<double> ended_s;
  gateway.answer_traffic = [&](std::string_view target) {
    const double now_s = 5.0 + core::to_seconds(loop.now() - begun);
    const bool is_first = target.ends_with("after=0");
    if (!is_first && !ended_s) ended_s = now_s;
    std::string events;
    if (ended_s && (is_first || *ended_s == now_s))
      events = fmt::format(
          R"(["arrival",1,4.5,"m","interactive","shop",900,[]],["end",1,{},"completed","r1",900,12,20.0])", *ended_s);
    return fmt::format(R"({{"boot":"b","now_s":{},"next":{},"lost":0,"events":[{}]}})", now_s, ended_s ? 2 : 1, events);
  };
  open();
  run_until_decided(4);
  EXPECT_TRUE(run_until(loop, [&] { return state()["gpu_cost"]["tenants"].size() == 1; }));
  run_until_decided(3);
  for (const bool killed : {true, false}) {
    if (killed) std::filesystem::copy_file(state_file, state_file + ".copy");
    const nlohmann::json before = state();
    EXPECT_GT(before["gpu_cost"]["tenants"][0]["gpu_cost"], 0.0);
    daemon.reset();
    if (killed) std::filesystem::rename(state_file + ".copy", state_file);
    open();
    run_until_decided(3);
    const nlohmann::json after = state();
    for (const char* figure : {"gpu_hours", "cost"})
      EXPECT_GT(after["pools"][0][figure], before["pools"][0][figure]) << figure;
    EXPECT_GT(after["gpu_cost"]["all"]["gpu_cost"], before["gpu_cost"]["all"]["gpu_cost"]);
    ASSERT_EQ(after["gpu_cost"]["tenants"].size(), 1U);
    EXPECT_EQ(after["gpu_cost"]["tenants"][0]["output_tokens"], 12) << "each request is counted once";
    EXPECT_GE(after["gpu_cost"]["for_s"], before["gpu_cost"]["for_s"]);
    EXPECT_NE(daemon->metrics_text().find("\npenstock_tenant_gpu_cost_usd_total{tenant=\"shop\",model=\"m\"} "),
              std::string::npos);
  }
}

TEST_F(PlannerDaemonTest, ARestartedPlannerContinuesTheStartUpTimesOfTheSameEngines) {
  state_file = testing::TempDir() + "penstock-start-up.json";
  std::filesystem::remove(state_file);
  signals::Pool pool;
  pool.name = "chat";
  pool.start_up = 60s;
  fleet.start_up.add(90s);
  open(true, {}, {pool});
  run_until_decided(2);
  daemon.reset();
  fleet.start_up = {};
  open(true, {}, {pool});
  EXPECT_EQ(fleet.start_up.all(), std::vector<core::Duration>{90s});
  daemon.reset();
  fleet.start_up = {};
  pool.start_up = 30s;
  open(true, {}, {pool});
  EXPECT_FALSE(fleet.start_up.spread()) << "another time is configured";
}

TEST_F(PlannerDaemonTest, GpuCostsContinueWhereThePolicyBeginsAnew) {
  state_file = testing::TempDir() + "penstock-costs-other.json";
  std::filesystem::remove(state_file);
  connect::SavedPolicyState saved;
  saved.state.policy = "another";
  saved.costs.emplace().pools = {{"chat", 2h, 4.0}};
  ASSERT_TRUE(connect::save_policy_state(state_file, saved));
  open();
  EXPECT_EQ(state()["pools"][0]["gpu_hours"], 2.0);
  EXPECT_EQ(state()["pools"][0]["cost"], 4.0);
}

}  // namespace
}  // namespace penstock::dashboard
