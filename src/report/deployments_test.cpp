#include "report/deployments.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/csv.h"
#include "report/format.h"
#include "report/html.h"
#include "report/json.h"
#include "report/report_testing.h"

namespace penstock::report {
namespace {

decision::RunResult shared_result(std::uint64_t requests, std::uint64_t met, double gpu_hours,
                                  decision::BudgetUse use) {
  decision::RunResult result;
  result.requests = requests;
  result.completed = requests - 2;
  result.failed = 2;
  result.slo_attainment = static_cast<double>(met) / static_cast<double>(requests);
  result.targets = {{"general", {}, 0.99, requests, met, met, met}};
  result.gpu_hours = gpu_hours;
  result.cost = 2.5 * gpu_hours;
  result.goodput_rps = 0.5;
  result.replicas = 1;
  result.peak_replicas = 5;
  result.mean_replicas = 2.25;
  result.ttft_ms = result.itl_ms = testing::sample_summary(64.0);
  result.budget_use = use;
  return result;
}

// `keda-tokens` keeps the SLO for 350 of 400 requests, `penstock` for 360.
DeploymentsReport sample_deployments() {
  DeploymentsReport report;
  report.version = "0.1.0";
  report.command = "penstock replay --config deployments.yaml";
  report.deployments = {{"chat", "chat-8b", 1, 1.0, {}}, {"mail", "mail-8b", 0, 2.0, {}}};
  report.deployments[0].report.info.workload = "built-in";
  report.deployments[0].report.info.requests = 300;
  report.deployments[1].report.info.workload = "day.csv";
  report.deployments[1].report.info.requests = 100;
  report.deployments[0].report.results = {shared_result(300, 280, 1.0, {6, 0, 0.0, 0.0}),
                                          shared_result(300, 270, 1.5, {5, 1, 60.0, 0.25})};
  report.deployments[1].report.results = {shared_result(100, 70, 2.0, {6, 0, 0.0, 0.0}),
                                          shared_result(100, 90, 2.5, {4, 3, 720.0, 0.5})};
  for (DeploymentReport& deployment : report.deployments) {
    deployment.report.results[0].policy = "keda-tokens";
    deployment.report.results[1].policy = "penstock";
  }
  report.policies = {{"keda-tokens", false, 12, {{"GPUs", 12.0, 8.0}}}, {"penstock", true, 8, {{"GPUs", 8.0, 8.0}}}};
  report.notes = {"the budget limits the policy penstock only; the rules of others do not know it"};
  return report;
}

std::vector<std::string> words_of(const std::string& text, const std::string& start) {
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream stream{line};
    std::string first, second;
    stream >> first >> second;
    if (first + " " + second != start) continue;
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
  }
  return {};
}

TEST(DeploymentsReport, SumsAreThoseOfAllDeployments) {
  const DeploymentsReport report = sample_deployments();
  const SharedTotals sum = totals_of(report, 1);
  EXPECT_EQ(sum.requests, 400U);
  EXPECT_EQ(sum.failed, 4U);
  EXPECT_DOUBLE_EQ(sum.slo_attainment, 0.9);
  EXPECT_DOUBLE_EQ(sum.gpu_hours, 4.0);
  EXPECT_DOUBLE_EQ(sum.cost, 10.0);
  EXPECT_DOUBLE_EQ(sum.goodput_rps, 1.0);
  EXPECT_DOUBLE_EQ(totals_of(report, 0).slo_attainment, 0.875);
}

TEST(DeploymentsReport, TheTableHasARowForEachPolicyAndDeploymentAndTheirSum) {
  const std::string text = render_table(sample_deployments(), {});
  EXPECT_LT(text.find("penstock"), text.find("keda-tokens")) << "best first\n" << text;
  EXPECT_EQ(words_of(text, "penstock mail"),
            (std::vector<std::string>{"1→5", "~2.25", "90.0", "%", "192", "ms", "192", "ms", "0.50", "2.50", "6.25",
                                      "2", "4", "12", "min", "3"}))
      << text;
  EXPECT_EQ(words_of(text, "penstock all"), (std::vector<std::string>{"90.0", "%", "1.00", "4.00", "10.0", "4", "8"}))
      << text;
  EXPECT_EQ(words_of(text, "keda-tokens chat").back(), "–") << "not limited by the budget\n" << text;
  EXPECT_EQ(words_of(text, "penstock GPUs"), (std::vector<std::string>{"8", "8"})) << text;
  EXPECT_EQ(words_of(text, "keda-tokens GPUs"), (std::vector<std::string>{"12", "8", "exceeds", "the", "budget"}))
      << text;
  EXPECT_NE(text.find("chat (priority 1): built-in: 300 requests"), std::string::npos) << text;
  EXPECT_NE(text.find("the rules of others do not know it"), std::string::npos) << text;
}

TEST(DeploymentsReport, FitsTheTerminalAndIsSafeToPrint) {
  DeploymentsReport report = sample_deployments();
  report.policies[0].policy = testing::kHostileName;
  report.deployments[0].report.info.workload = testing::kHostileName;
  const std::string text = render_table(report, {.width = 80});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80U) << line;
}

TEST(DeploymentsReport, JsonHasTheSumsAndAReportOfEachDeployment) {
  const auto json = nlohmann::json::parse(to_json(sample_deployments()));
  ASSERT_EQ(json["policies"].size(), 2U);
  const auto& best = json["policies"][0];
  EXPECT_EQ(best["policy"], "penstock");
  EXPECT_EQ(best["limited_by_budget"], true);
  EXPECT_EQ(best["peak_gpus"], 8);
  EXPECT_EQ(best["gpu_hours"], 4.0);
  EXPECT_EQ(best["resources"], nlohmann::json::parse(R"([{"name": "GPUs", "peak": 8.0, "available": 8.0}])"));
  ASSERT_EQ(json["deployments"].size(), 2U);
  const auto& mail = json["deployments"][1];
  EXPECT_EQ(mail["name"], "mail");
  EXPECT_EQ(mail["model"], "mail-8b");
  EXPECT_EQ(mail["weight"], 2.0);
  EXPECT_EQ(mail["workload"]["name"], "day.csv");
  ASSERT_EQ(mail["results"].size(), 2U);
  EXPECT_EQ(
      mail["results"][0]["budget_use"],
      nlohmann::json::parse(R"({"peak_gpus": 4, "limited_times": 3, "limited_s": 720.0, "withheld_gpu_hours": 0.5})"));
  EXPECT_FALSE(mail["results"][0].contains("simulated_requests_per_s")) << "equal runs give equal bytes";
}

TEST(DeploymentsReport, TheHeadlineComparesTheBestTwo) {
  DeploymentsReport report = sample_deployments();
  EXPECT_EQ(
      headline(report),
      "penstock has an SLO attainment of 90.0 % over 400 requests of 2 deployments at 4.00 GPU-hours; keda-tokens "
      "has 87.5 % at 3.00.");
  for (DeploymentReport& deployment : report.deployments) deployment.report.results.resize(1);
  report.policies.resize(1);
  EXPECT_EQ(headline(report),
            "keda-tokens has an SLO attainment of 87.5 % over 400 requests of 2 deployments at 3.00 GPU-hours.");
}

TEST(DeploymentsReport, CsvNamesTheDeploymentOfEachRow) {
  std::istringstream lines{to_csv(sample_deployments())};
  std::vector<std::string> begins;
  for (std::string line; std::getline(lines, line);) begins.push_back(line.substr(0, line.find(",,")));
  EXPECT_EQ(begins.front().substr(0, 22), "deployment,set,policy,");
  begins.erase(begins.begin());
  EXPECT_EQ(begins, (std::vector<std::string>{"chat,policy,keda-tokens", "chat,policy,penstock", "mail,policy,penstock",
                                              "mail,policy,keda-tokens"}));
}

TEST(DeploymentsReport, ThePageHasTheDocumentsOfAllDeploymentsAndTheTableWithoutScripts) {
  const std::string page = to_html(sample_deployments());
  EXPECT_NE(page.find("<title>Penstock replay: chat, mail</title>"), std::string::npos);
  EXPECT_NE(page.find(R"("policies":[{"policy":"penstock")"), std::string::npos);
  for (const char* name : {R"({"name":"chat","model":"chat-8b")", R"({"name":"mail","model":"mail-8b")"})
    EXPECT_NE(page.find(name), std::string::npos) << name;
  const std::string table = page.substr(page.find("<noscript>"), page.find("</noscript>") - page.find("<noscript>"));
  EXPECT_NE(table.find("exceeds the budget"), std::string::npos) << table;
}

TEST(DeploymentsReport, AReplayOfOneDeploymentHasNoUseOfABudget) {
  EXPECT_EQ(to_json(testing::sample_report(12)).find("budget_use"), std::string::npos);
}

}  // namespace
}  // namespace penstock::report
