// Several deployments in one file, and the budget that they share.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "configuration/configuration_testing.h"
#include "core/source_root_testing.h"

namespace penstock::configuration {
namespace {

constexpr const char* kTwo =
    "price: 2\n"
    "max_replicas: 6\n"
    "slo: {ttft: 3s, goal: 0.95}\n"
    "planner: {tick_interval: 5s}\n"
    "budget:\n"
    "  gpus: 16\n"
    "  hardware: [{name: h100, gpus: 12}]\n"
    "deployments:\n"
    "  - name: chat\n"
    "    model: chat-70b\n"
    "    priority: 1\n"
    "    slo: {ttft: 1s}\n"
    "    pools:\n"
    "      - {role: prefill, gpus: 2, hardware: h100}\n"
    "      - {role: decode, gpus: 4, max_replicas: 3, replicas: 2}\n"
    "  - name: mail\n"
    "    model: mail-8b\n"
    "    weight: 2\n"
    "    planner: {tick_interval: 20s}\n";

TEST(Deployments, HaveTheSharedValuesUnlessTheyGiveTheirOwn) {
  const Configuration made = loaded(kTwo);
  ASSERT_EQ(made.deployments.size(), 2U);
  const DeploymentSetup& chat = made.deployments[0];
  EXPECT_EQ(chat.name, "chat");
  EXPECT_EQ(chat.priority, 1);
  EXPECT_EQ(chat.run.model, "chat-70b");
  EXPECT_EQ(chat.run.slo.ttft, std::chrono::seconds{1});
  EXPECT_EQ(chat.run.slo_goal, 0.95);
  EXPECT_EQ(chat.planner.options.interval, std::chrono::seconds{5});
  ASSERT_EQ(chat.run.pools.size(), 2U);
  EXPECT_EQ(chat.run.pools[0].name, "prefill");
  EXPECT_EQ(chat.run.pools[0].hardware, "h100");
  EXPECT_EQ(chat.run.pools[0].max_replicas, 6U);
  EXPECT_EQ(chat.run.pools[0].price_per_gpu_hour, 2.0);
  EXPECT_EQ(chat.run.pools[1].max_replicas, 3U);
  EXPECT_EQ(chat.run.pools[1].replicas, 2U);

  const DeploymentSetup& mail = made.deployments[1];
  EXPECT_EQ(mail.weight, 2.0);
  EXPECT_EQ(mail.run.slo.ttft, std::chrono::seconds{3});
  EXPECT_EQ(mail.planner.options.interval, std::chrono::seconds{20});
  ASSERT_EQ(mail.run.pools.size(), 1U);
  EXPECT_EQ(mail.run.pools[0].name, "default");
  EXPECT_EQ(mail.run.pools[0].max_replicas, 6U);

  EXPECT_EQ(made.budget.budget.gpus, 16U);
  EXPECT_EQ(made.budget.objective, planner::global::Objective::kMaxMin);
  ASSERT_EQ(made.budget.hardware.size(), 1U);
  EXPECT_EQ(made.budget.hardware[0].gpus, 12U);
}

TEST(Deployments, PoolsHaveTheDrainDeadlinesOfTheirPlannerUnlessTheyGiveTheirOwn) {
  const auto deadlines_of = [](const simulation::PoolSpec& pool) {
    return std::pair{pool.drain_deadline, pool.unhealthy_drain_deadline};
  };
  using Deadlines = std::pair<std::optional<core::Duration>, std::optional<core::Duration>>;
  using std::chrono::minutes, std::chrono::seconds;
  EXPECT_EQ(deadlines_of(loaded("").run.pools[0]), (Deadlines{minutes{10}, seconds{30}}));
  const Configuration one = loaded(
      "planner: {drain_deadline: 5m}\n"
      "pools: [{name: a, drain_deadline: 1h, prompt_max: 10}, {name: b, unhealthy_drain_deadline: 5s}]\n");
  EXPECT_EQ(deadlines_of(one.run.pools[0]), (Deadlines{minutes{60}, seconds{30}}));
  EXPECT_EQ(deadlines_of(one.run.pools[1]), (Deadlines{minutes{5}, seconds{5}}));
  const Configuration two = loaded(
      "planner: {drain_deadline: 5m}\n"
      "deployments:\n"
      "  - {name: a, model: m, planner: {drain_deadline: 6m}, pools: [{drain_deadline: 7m}]}\n"
      "  - {name: b, model: n, planner: {drain_deadline: 6m}}\n"
      "  - {name: c, model: o}\n");
  EXPECT_EQ(two.deployments[0].run.pools[0].drain_deadline, minutes{7});
  EXPECT_EQ(two.deployments[1].run.pools[0].drain_deadline, minutes{6});
  EXPECT_EQ(two.deployments[2].run.pools[0].drain_deadline, minutes{5});
}

TEST(Deployments, OneAloneIsAConfigurationWithoutOthers) {
  const Configuration made = loaded(kTwo);
  const Configuration chat = of_deployment(made, 0);
  EXPECT_TRUE(chat.deployments.empty());
  EXPECT_FALSE(chat.budget.is_limited());
  EXPECT_EQ(chat.run.model, "chat-70b");
  EXPECT_EQ(chat.run.pools.size(), 2U);
}

TEST(Deployments, AFlagCountsForAllOfThem) {
  const Configuration made = loaded(kTwo, {{"--min-replicas", "2"}, {"--slo", "itl=70ms"}});
  EXPECT_EQ(made.deployments[0].run.pools[0].min_replicas, 2U);
  EXPECT_EQ(made.deployments[1].run.pools[0].min_replicas, 2U);
  EXPECT_EQ(made.deployments[1].run.slo.itl, std::chrono::milliseconds{70});
}

TEST(Deployments, HaveTheListsThatAllShareWhereverTheseAre) {
  const std::string segments = "slo: {segments: [{name: urgent, tenant: a, ttft: 500ms}]}\n";
  const Configuration shared =
      loaded("deployments: [{name: a, model: x}, {name: b, model: y, slo: {segments: [{name: own, class: batch}]}}]\n" +
             segments);
  ASSERT_EQ(shared.deployments[0].run.slo_segments.size(), 1U);
  EXPECT_EQ(shared.deployments[0].run.slo_segments[0].name, "urgent");
  ASSERT_EQ(shared.deployments[1].run.slo_segments.size(), 1U);
  EXPECT_EQ(shared.deployments[1].run.slo_segments[0].name, "own");
}

TEST(Deployments, EachHasASegmentOfDeferredRequests) {
  const Configuration made = loaded(
      "classes: {batch: {completion_window: 10m}}\n"
      "deployments: [{name: a, model: x}, {name: b, model: y, slo: {goal: 0.95, segments: [{name: vip, tenant: "
      "t}]}}]\n");
  ASSERT_EQ(made.deployments[0].run.slo_segments.size(), 1U);
  ASSERT_EQ(made.deployments[1].run.slo_segments.size(), 2U);
  EXPECT_EQ(made.deployments[1].run.slo_segments[0].name, "vip");
  for (const DeploymentSetup& deployment : made.deployments) {
    const signals::SegmentSlo& deferred = deployment.run.slo_segments.back();
    EXPECT_EQ(deferred.name, "batch");
    EXPECT_EQ(deferred.target.ttft, std::chrono::minutes{10});
  }
  EXPECT_EQ(made.deployments[1].run.slo_segments.back().goal, 0.95);
}

TEST(Deployments, TheGatewayJudgesRequestsByTheSloOfTheirModel) {
  const Configuration made = loaded(
      "slo: {ttft: 3s}\ndeployments:\n"
      "  - {name: a, model: x, slo: {segments: [{name: urgent, tenant: t, ttft: 500ms}]}}\n"
      "  - {name: b, model: y, slo: {ttft: 1s}}\n");
  const auto& segments = made.gateway.options.dispatch.slo.segments;
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_EQ(segments[0].name, "a.urgent");
  EXPECT_EQ(segments[0].model, "x");
  EXPECT_EQ(segments[1].name, "a");
  EXPECT_EQ(segments[1].target.ttft, std::chrono::seconds{3});
  EXPECT_EQ(segments[2].model, "y");
  EXPECT_EQ(segments[2].target.ttft, std::chrono::seconds{1});
}

TEST(Deployments, WithoutTheListThereIsOne) {
  const Configuration made = loaded("model: m\nmax_replicas: 3\n");
  EXPECT_TRUE(made.deployments.empty());
  EXPECT_EQ(made.run.pools.size(), 1U);
}

TEST(Deployments, ErrorsNameTheLineOfTheDeployment) {
  const std::string first = "deployments:\n  - {name: chat, model: a}\n";
  const std::pair<std::string, std::string> cases[] = {
      {"deployments:\n  - {model: a}\n", "p.yaml:2:5: deployments[0]: needs the key name\n"},
      {"deployments:\n  - {name: Chat_1, model: a}\n",
       "p.yaml:2:12: deployments[0].name: 'Chat_1' is no name of a deployment; use at most 40 lower-case letters, "
       "digits "
       "and dashes\n"},
      {first + "  - {name: chat, model: b}\n",
       "p.yaml:3:12: deployments[1].name: 'chat' is used twice; give each a name of its own\n"},
      {first + "  - {name: mail, model: a}\n",
       "p.yaml:3:25: deployments[1].model: deployments 'chat' and 'mail' serve the same model 'a'; give each "
       "deployment "
       "the model that it serves\n"},
      {first + "  - {name: mail}\n",
       "p.yaml:3:5: deployments[1]: needs the key model; name the model that it serves\n"},
      {first + "  - {name: mail, model: b, modle: c}\n",
       "p.yaml:3:28: deployments[1].modle: unknown key; did you mean model?\n"},
      {first + "  - {name: mail, model: b, slo: {goal: 1}}\n",
       "p.yaml:3:40: deployments[1].slo.goal: must be above 0 and below 1, is 1\n"},
      {first + "  - {name: mail, model: b, min_replicas: 3, max_replicas: 2}\n",
       "p.yaml:3:59: deployments[1].max_replicas: must be at least min_replicas (3), is 2\n"},
      {first + "  - {name: mail, model: b, pools: [{role: prefill}]}\n",
       "p.yaml:3:36: deployments[1].pools[0]: a disaggregated deployment has one prefill and one decode pool, this one "
       "has 1 prefill, 0 decode and 0 aggregated; give each pool its role\n"},
      {first + "pools: [{name: x}]\n",
       "p.yaml:3:9: pools[0]: belongs to the deployments where there are several; give each deployment its pools\n"},
      {"from: 10m\n" + first + "  - {name: mail, model: b, to: 5m}\n",
       "p.yaml:4:32: deployments[1].to: must be later than from (600s), is 300s\n"},
      {"model: a\nbudget: {gpus: 4}\n",
       "p.yaml:2:16: budget.gpus: has no effect without deployments; planner.gpu_budget limits the pools of one "
       "model\n"},
      {first + "  - {name: mail, model: b, pools: [{gpus: 4, replicas: 2}]}\nbudget: {gpus: 8}\n",
       "p.yaml:4:16: budget.gpus: must be at least the 9 GPUs of all pools' replicas at the start, is 8; raise it, or "
       "lower replicas and min_replicas\n"},
      {first + "budget: {money_per_hour: 0.5}\n",
       "p.yaml:3:26: budget.money_per_hour: must be at least the 1 USD per hour of all pools' replicas at the start, "
       "is "
       "0.5; raise it, or lower replicas and min_replicas\n"},
      {first + "  - {name: mail, model: b, pools: [{hardware: h10}]}\nbudget: {hardware: [{name: h100, gpus: 4}]}\n",
       "p.yaml:3:47: deployments[1].pools[0].hardware: 'h10' is not in budget.hardware; did you mean h100?\n"},
      {first + "budget: {objective: most-traffic}\n",
       "p.yaml:3:21: budget.objective: has no effect without a limit; give budget.gpus, budget.money_per_hour or "
       "budget.hardware\n"},
      {"deployments:\n  - {name: a, model: a, pools: [{kubernetes: deployment/x}]}\n"
       "  - {name: b, model: b, pools: [{kubernetes: deployment/x}]}\n",
       "p.yaml:3:46: deployments[1].pools[0].kubernetes: two pools have the target deployments.apps \"x\"; give "
       "each pool an object of its own\n"},
      {"min_replicas: 4\nmax_replicas: 2\n" + first + "  - {name: mail, model: b}\n",
       "p.yaml:2:15: max_replicas: must be at least min_replicas (4), is 2\n"},
  };
  for (const auto& [yaml, expected] : cases) EXPECT_EQ(problems(yaml), expected) << yaml;
}

TEST(Deployments, TheExampleIsGood) {
  std::ifstream file{core::testing::source_root() / "docs" / "examples" / "deployments.yaml"};
  ASSERT_TRUE(file);
  std::stringstream text;
  text << file.rdbuf();
  const Configuration made = loaded(text.str());
  EXPECT_EQ(made.deployments.size(), 2U);
  EXPECT_EQ(made.budget.budget.gpus, 8U);
}

TEST(Deployments, HaveTracesOfTheirOwnOrTheSharedOne) {
  const Configuration made = loaded(
      "trace: day.csv\nrate_scale: 2\nto: 1h\ndeployments:\n"
      "  - {name: a, model: x, trace_model: x}\n"
      "  - {name: b, model: y, trace: [built-in, other.csv], rate_scale: 3, from: 5m}\n");
  const TraceOptions& a = made.deployments[0].traces;
  EXPECT_EQ(a.names, std::vector<std::string>{"day.csv"});
  EXPECT_EQ(a.read.model, "x");
  EXPECT_EQ(a.rate_scale.factor, 2.0);
  const Configuration b = of_deployment(made, 1);
  EXPECT_EQ(b.traces.names, (std::vector<std::string>{"built-in", "other.csv"}));
  EXPECT_EQ(b.traces.rate_scale.factor, 3.0);
  EXPECT_EQ(b.traces.read.model, "");
  EXPECT_EQ(b.traces.read.from, std::chrono::minutes{5});
  EXPECT_EQ(b.traces.read.to, std::chrono::hours{1});
}

TEST(Deployments, HaveTheFaultsAndTheGatewayOfTheFile) {
  const Configuration made = loaded(
      "deployments:\n  - {name: a, model: x}\n  - {name: b, model: y}\n"
      "tenants: [{name: t, keys: [sk-t], concurrent: 8}]\n"
      "faults: {events: [{kind: crash, at: 60s, pool: default}]}\n");
  const std::vector<Configuration> all = configurations_of(made);
  for (const Configuration& alone : all) {
    ASSERT_TRUE(alone.run.dispatch);
    EXPECT_EQ(alone.run.dispatch->tenants.size(), 1U);
    ASSERT_EQ(alone.run.faults.events.size(), 1U);
    EXPECT_EQ(alone.run.faults.events[0].pool, alone.run.pools[0].name);
  }
  EXPECT_EQ(all[1].run.faults.events[0].pool, "b");
}

}  // namespace
}  // namespace penstock::configuration
