#include "report/answer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/json.h"
#include "report/report_testing.h"
#include "report/table.h"

namespace penstock::report {
namespace {

decision::RunResult run_of(const char* policy, std::uint32_t replicas, double attainment, double gpu_hours) {
  decision::RunResult result;
  result.policy = policy;
  result.replicas = replicas;
  result.requests = 100;
  result.slo_attainment = attainment;
  result.gpu_hours = gpu_hours;
  result.cost = 2.0 * gpu_hours;
  return result;
}

Report report_of(std::vector<decision::RunResult> results, decision::RunResult fixed) {
  Report report;
  report.info.requests = 100;
  report.info.pools.resize(1);
  report.info.pools[0].max_replicas = 8;
  report.results = std::move(results);
  report.fixed = FixedFleet{fixed, {fixed.replicas}};
  return report;
}

TEST(Answer, NamesTheCheapestFleetAndTheCheapestRuleThatReachTheGoal) {
  const Report report = report_of(
      {run_of("penstock", 1, 0.997, 4.94), run_of("static", 1, 0.7, 1.0), run_of("hpa-rate", 1, 0.9, 2.0),
       run_of("keda-tokens", 1, 0.995, 3.98), run_of("kpa", 1, 0.999, 6.0), run_of("clairvoyant", 1, 1.0, 0.5)},
      run_of("static", 2, 0.992, 4.0));
  const Answer answer = answer_of(report);
  EXPECT_EQ(answer.fixed.label, "2 replicas");
  EXPECT_EQ(answer.rule.label, "keda-tokens");
  EXPECT_EQ(
      answer.text,
      "keda-tokens is the cheapest that reaches 99.0 %, at 3.98 GPU-hours (7.96 USD); a fixed fleet of 2 replicas "
      "costs 1 % more, penstock costs 24 % more. The size of the fixed fleet was found with this trace itself.");
}

TEST(Answer, SaysThatAFixedFleetDoesOrThatPenstockDoes) {
  const auto fixed = run_of("static", 2, 0.992, 4.0);
  EXPECT_EQ(
      answer_of(report_of({run_of("penstock", 1, 0.98, 3.0), run_of("kpa", 1, 0.999, 6.0)}, fixed)).text,
      "A fixed fleet of 2 replicas is the cheapest that reaches 99.0 %, at 4.00 GPU-hours (8.00 USD); kpa costs 50 % "
      "more, penstock misses the goal with 98.0 %. The size of the fixed fleet was found with this trace itself.");
  EXPECT_TRUE(answer_of(report_of({run_of("penstock", 1, 0.99, 3.0), run_of("kpa", 1, 0.999, 6.0)}, fixed))
                  .text.starts_with("penstock is the cheapest that reaches 99.0 %, at 3.00 GPU-hours"));
}

TEST(Answer, AnEqualCostIsNoDifference) {
  const Report report = report_of({run_of("kpa", 1, 1.0, 4.0)}, run_of("static", 2, 1.0, 4.0));
  EXPECT_NE(answer_of(report).text.find("; kpa costs the same."), std::string::npos) << answer_of(report).text;
}

TEST(Answer, WithoutARunThatReachesTheGoalSaysWhatCameClosest) {
  const Report report =
      report_of({run_of("penstock", 1, 0.6, 3.0), run_of("kpa", 1, 0.5, 1.0)}, run_of("static", 8, 0.7, 9.0));
  EXPECT_FALSE(answer_of(report).rule.reaches);
  EXPECT_EQ(answer_of(report).text,
            "Nothing that was tried reaches 99.0 %: a fixed fleet of 8 replicas has 70.0 % at 9.00 GPU-hours (18.0 "
            "USD). Allow "
            "more than 8 replicas (--max-replicas), a faster engine, or choose a looser SLO.");
}

TEST(Answer, NoFleetIsAdvisedAgainstRefusalsOfBudgets) {
  Report report = report_of({}, run_of("static", 8, 0.7, 9.0));
  report.fixed->result.failures = {{"queue_timeout", 1}, {"token_budget_exceeded", 29}};
  const std::string budgets =
      "Budgets refused 29 of 100 requests (token_budget_exceeded), and more replicas do not change that: raise "
      "tokens_per_minute and burst of the tenants or classes.";
  EXPECT_TRUE(answer_of(report).text.ends_with(" USD). " + budgets)) << answer_of(report).text;
  // Without the one that a budget refused, the goal could be reached.
  report.fixed->result.failures = {{"queue_timeout", 29}, {"token_budget_exceeded", 1}};
  EXPECT_NE(answer_of(report).text.find("Budgets refused 1 of 100 requests"), std::string::npos);
  EXPECT_NE(answer_of(report).text.find("Allow more than 8 replicas"), std::string::npos);
}

TEST(Answer, NoFleetIsAdvisedAgainstPromptsThatNoKvCacheHolds) {
  Report report = report_of({}, run_of("static", 8, 0.0, 9.0));
  report.fixed->result.failures = {{"prompt_exceeds_kv_cache", 100}};
  EXPECT_TRUE(answer_of(report).text.ends_with(
      " USD). 100 of 100 requests do not fit into the KV cache of a replica (prompt_exceeds_kv_cache), and more "
      "replicas do not change that: raise kv_blocks."))
      << answer_of(report).text;
}

TEST(Answer, WithSegmentsEveryTargetMustReachItsGoal) {
  decision::RunResult result = run_of("kpa", 1, 0.995, 1.0);
  result.targets = {{"general", {}, 0.99, 100, 100, 100, 100}, {"chat", {}, 0.95, 10, 9, 9, 9}};
  EXPECT_FALSE(reaches_goal(result, 0.99));
  result.targets[1].met = 10;
  EXPECT_TRUE(reaches_goal(result, 0.99));
}

TEST(Answer, NamesTheFleetByItsPools) {
  Report report = report_of({}, run_of("static", 5, 1.0, 5.0));
  report.info.pools.resize(2);
  report.info.pools[0].name = "prefill";
  report.info.pools[1].name = "decode";
  report.fixed->replicas = {2, 3};
  EXPECT_EQ(answer_of(report).fixed.label, "2 prefill + 3 decode");
}

TEST(Answer, EndsTheTableAndIsInTheJson) {
  Report report = report_of({run_of("penstock", 1, 0.98, 3.0)}, run_of("static", 2, 0.992, 4.0));
  const std::string table = render_table(report, {});
  EXPECT_NE(table.find("\ncheapest fixed fleet  2 replicas      99.2 %   4.00  8.00\n"
                       "Penstock              penstock        98.0 %   3.00  6.00  misses the goal\n"),
            std::string::npos)
      << table;
  const auto json = nlohmann::json::parse(to_json(report))["answer"];
  EXPECT_EQ(json["cheapest_fixed"]["replicas"], 2);
  EXPECT_EQ(json["cheapest_fixed"]["replicas_by_pool"], nlohmann::json::array({2}));
  EXPECT_EQ(json["penstock"]["reaches_goal"], false);
  EXPECT_TRUE(json["cheapest_rule"].is_null());
  report.fixed.reset();
  EXPECT_TRUE(answer_of(report).text.empty());
  EXPECT_TRUE(nlohmann::json::parse(to_json(report))["answer"].is_null());
}

}  // namespace
}  // namespace penstock::report
