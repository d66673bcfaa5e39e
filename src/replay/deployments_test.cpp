// Replays of several deployments under one budget.
#include "replay/deployments.h"

#include <gtest/gtest.h>

#include <numeric>

#include "configuration/configuration.h"
#include "core/source_root_testing.h"
#include "replay/budget_meter.h"
#include "replay/shared_budget.h"

namespace penstock::replay {
namespace {

using planner::global::DeploymentClaim;
using planner::global::SharedBudget;

// All problems, one per line, of a file that is good in itself.
std::string problems_of(const std::string& yaml, std::vector<options::FlagValue> flags = {}) {
  configuration::Configuration made;
  const options::Table table = configuration::configuration_table(made);
  auto reading = configuration::load(made, table, {"p.yaml", yaml, std::move(flags)});
  if (!reading) return "not good: " + reading.error().front().message();
  check_deployments(made, *reading);
  std::string text;
  for (const core::Error& error : reading->problems()) text += error.message() + "\n";
  return text;
}

report::DeploymentsReport replayed(const std::string& yaml) {
  auto made = configuration::load_configuration({"p.yaml", yaml, {}});
  EXPECT_TRUE(made) << (made ? "" : made.error().front().message());
  auto setup = prepare_deployments(*std::move(made));
  EXPECT_TRUE(setup) << (setup ? "" : setup.error().message());
  auto report = run_deployments(*setup, {});
  EXPECT_TRUE(report) << (report ? "" : report.error().message());
  return *std::move(report);
}

// Two deployments whose waves follow each other; both at their height need more than six GPUs.
constexpr const char* kTwo =
    "policy: [penstock, keda-tokens]\n"
    "start_up: 10s\n"
    "engine: {kv_blocks: 4096, block_size: 16}\n"
    "planner: {throughput_interval: 30s, tick_interval: 5s, memory: 2m, stabilisation: 30s}\n"
    "budget: {gpus: 6}\n"
    "deployments:\n"
    "  - {name: chat, model: a, priority: 1, max_replicas: 5,\n"
    "     trace: \"synthetic:rate=0.5..8,shape=step,at=4m,duration=8m,input=3000,output=200\"}\n"
    "  - {name: mail, model: b, max_replicas: 5, slo: {ttft: 4s},\n"
    "     trace: \"synthetic:rate=6,duration=5m,input=3000,output=200\"}\n";

const report::DeploymentsReport& two() {
  static const report::DeploymentsReport made = replayed(kTwo);
  return made;
}

TEST(Deployments, AreReplayedTogetherUnderTheirBudget) {
  const report::DeploymentsReport& report = two();
  ASSERT_EQ(report.deployments.size(), 2U);
  ASSERT_EQ(report.policies.size(), 2U);
  const report::SharedPolicy& own = report.policies[0];
  EXPECT_EQ(own.policy, "penstock");
  EXPECT_TRUE(own.is_limited);
  EXPECT_LE(own.peak_gpus, 6U);
  ASSERT_EQ(own.resources.size(), 1U);
  EXPECT_EQ(own.resources[0].name, "GPUs");
  EXPECT_EQ(own.resources[0].peak, own.peak_gpus);
  EXPECT_EQ(own.resources[0].available, 6.0);
  EXPECT_FALSE(report.policies[1].is_limited) << "rules of others do not know the budget";
  for (const report::DeploymentReport& deployment : report.deployments) {
    ASSERT_EQ(deployment.report.results.size(), 2U);
    for (const decision::RunResult& result : deployment.report.results) {
      EXPECT_EQ(result.requests, deployment.report.info.requests);
      EXPECT_GE(result.duration_s, 470.0) << "a shorter trace does not end the run";
      ASSERT_TRUE(result.budget_use);
      EXPECT_LE(result.budget_use->peak_gpus, 5U);
    }
  }
}

TEST(Deployments, KnowWhenTheBudgetLimitedThem) {
  const auto use_of = [](std::size_t deployment, std::size_t policy) {
    return *two().deployments[deployment].report.results[policy].budget_use;
  };
  const decision::BudgetUse chat = use_of(0, 0), mail = use_of(1, 0), free = use_of(1, 1);
  EXPECT_GT(chat.limited_s + mail.limited_s, 0.0);
  EXPECT_GT(chat.limited_times + mail.limited_times, 0U);
  for (const decision::BudgetUse& use : {chat, mail}) {
    EXPECT_EQ(use.limited_times > 0, use.limited_s > 0.0);
    EXPECT_GE(use.withheld_gpu_hours * 3600.0, use.limited_s - 1e-6) << "at least one GPU all the time";
    EXPECT_LE(use.limited_s, 480.0);
  }
  EXPECT_EQ(free.limited_s, 0.0);
}

TEST(Deployments, RepeatTheSameBytes) {
  std::string yaml = kTwo;
  EXPECT_EQ(report::to_json(replayed("jobs: 1\n" + yaml)), report::to_json(two()));
}

TEST(Deployments, DrawDifferentRequestsFromEqualTraces) {
  const report::DeploymentsReport report = replayed(
      "policy: static\ntrace: \"synthetic:rate=2,duration=1m,input=500,output=20\"\n"
      "deployments: [{name: a, model: x}, {name: b, model: y}]\n");
  const auto& a = report.deployments[0].report.results[0];
  const auto& b = report.deployments[1].report.results[0];
  EXPECT_NE(a.ttft_ms.mean, b.ttft_ms.mean);
  EXPECT_TRUE(report.policies[0].resources.empty()) << "there is no budget";
  EXPECT_EQ(report.policies[0].peak_gpus, 2U);
}

TEST(Deployments, ErrorsNameTheLine) {
  const std::string both = "deployments:\n  - {name: a, model: x, trace: built-in}\n  - {name: b, model: y}\n";
  const std::string good = "trace: built-in\n" + both;
  EXPECT_EQ(problems_of(good), "");
  EXPECT_EQ(problems_of(both),
            "p.yaml:3:5: deployments[1]: needs the key trace; name a file, synthetic:rate=5,duration=10m or built-in, "
            "here or at the top for all\n");
  const std::string hint =
      " takes one deployment, there are 2; leave it out, or give the values of a deployment at the top of a file of "
      "its own\n";
  EXPECT_EQ(problems_of(good + "policy: [static, clairvoyant]\n"), "p.yaml:5:9: policy: the policy clairvoyant" + hint);
  EXPECT_EQ(problems_of(good, {{"--policy", "schedule:x.csv"}}), "--policy: the policy schedule" + hint);
  EXPECT_EQ(problems_of(good + "frontier: 1..4\n"), "p.yaml:5:11: frontier: a frontier of static fleets" + hint);
  EXPECT_EQ(problems_of(good, {{"--html", "x.html"}, {"--csv", "x.csv"}}), "");
  EXPECT_EQ(problems_of(good + "metrics: m.txt\nreport_dir: r\n"),
            "p.yaml:5:10: metrics: the file of metrics" + hint + "p.yaml:6:13: report_dir: a folder of reports" + hint);
}

TEST(Deployments, ATraceThatCannotBeReadNamesItsDeployment) {
  auto made = configuration::load_configuration(
      {"p.yaml", "deployments: [{name: a, model: x, trace: built-in}, {name: b, model: y, trace: missing.csv}]\n", {}});
  ASSERT_TRUE(made);
  const auto setup = prepare_deployments(*std::move(made));
  ASSERT_FALSE(setup);
  EXPECT_EQ(setup.error().where, "missing.csv");
  EXPECT_TRUE(setup.error().what.ends_with(" (deployment b)")) << setup.error().what;
}

DeploymentClaim claim_of(const std::string& name, std::uint32_t replicas, std::uint32_t gpus) {
  DeploymentClaim claim{name, 0, 1.0, {}};
  planner::global::PoolClaim& pool = claim.pools.emplace_back();
  pool.name = name;
  pool.gpus_per_replica = gpus;
  pool.max_replicas = 20;
  pool.target = pool.proposed = replicas;
  return claim;
}

TEST(UsePeaks, AreTheMostAtOneTime) {
  UsePeaks peaks{{claim_of("chat", 1, 2), claim_of("mail", 1, 1)}, {{8, std::nullopt}, {}}};
  peaks.add({{{1, 1, 0}}, {{4, 4, 0}}});
  peaks.add({{{3, 2, 1}}, {{1, 1, 0}}});
  peaks.add({{{0, 0, 0}}, {{0, 0, 0}}});
  EXPECT_EQ(peaks.gpus(), 7U) << "not the sum of both peaks";
  EXPECT_EQ(peaks.gpus_of(0), 6U);
  EXPECT_EQ(peaks.gpus_of(1), 4U);
  ASSERT_EQ(peaks.resources().size(), 1U);
  EXPECT_EQ(peaks.resources()[0].peak, 7.0);
  EXPECT_EQ(peaks.resources()[0].available, 8.0);
}

// Proposes the numbers one after the other.
class InTurn final : public decision::Policy {
 public:
  explicit InTurn(std::vector<std::uint32_t> proposals) : proposals_(std::move(proposals)) {}
  [[nodiscard]] std::string_view name() const override { return "in turn"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{10}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    decision::Decision decision;
    decision.pools.push_back({observation.pools[0].target_replicas, proposals_.at(next_++), decision::Reason::kSloMet});
    return decision;
  }

 private:
  std::vector<std::uint32_t> proposals_;
  std::size_t next_ = 0;
};

TEST(LimitMeter, MeasuresHowOftenAndHowLongTheBudgetLimited) {
  // Four GPUs, two for each replica: at most two replicas.
  const auto measured = [](core::Instant from) {
    SharedBudget budget{{{4, std::nullopt}, {}}, {}, {claim_of("chat", 1, 2)}};
    LimitMeter meter{budget, 0, budget.limited(0, std::make_unique<InTurn>(std::vector<std::uint32_t>{1, 3, 5, 2, 4})),
                     from};
    std::uint32_t replicas = 1;
    for (int second = 10; second <= 50; second += 10) {
      signals::Observation seen;
      seen.now = core::kStart + std::chrono::seconds{second};
      signals::PoolObservation& pool = seen.pools.emplace_back();
      pool.name = "chat";
      pool.gpus_per_replica = 2;
      pool.max_replicas = 20;
      pool.target_replicas = pool.ready = replicas;
      replicas = meter.decide(seen).pools[0].target;
    }
    return meter.until(core::kStart + std::chrono::seconds{65});
  };
  // Limited from 20 s to 40 s, by one and then by three replicas, and from 50 s to the end by two.
  const decision::BudgetUse all = measured(core::kStart);
  EXPECT_EQ(all.limited_times, 2U);
  EXPECT_DOUBLE_EQ(all.limited_s, 20.0 + 15.0);
  EXPECT_DOUBLE_EQ(all.withheld_gpu_hours * 3600.0, 2 * 10.0 + 6 * 10.0 + 4 * 15.0);
  const decision::BudgetUse late = measured(core::kStart + std::chrono::seconds{35});
  EXPECT_EQ(late.limited_times, 1U) << "the first time began before";
  EXPECT_DOUBLE_EQ(late.limited_s, 5.0 + 15.0);
  EXPECT_DOUBLE_EQ(late.withheld_gpu_hours * 3600.0, 6 * 5.0 + 4 * 15.0);
}

}  // namespace
}  // namespace penstock::replay
