#include "cli/up_summary.h"

#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

// 1.5 GPU-hours of a pool that had at most three replicas in half an hour.
RunDocuments run_of(const std::string& head, int judged, int met) {
  return {"{" + head + R"("slo":{"judged":)" + std::to_string(judged) + R"(,"met":)" + std::to_string(met) +
              R"(},"pools":[{"gpus_per_replica":2,"gpu_hours":1.5,"cost":3.75}]})",
          R"([{"at_s":0,"ready":[1],"starting":[0]},{"at_s":900,"ready":[2],"starting":[1]},)"
          R"({"at_s":1800,"ready":[null],"starting":[null]}])"};
}

TEST(UpSummary, OneDeploymentHasTwoLinesAndAFixedFleet) {
  EXPECT_EQ(run_summary({run_of("", 200, 199)}),
            "  requests       200 judged by the SLO, attainment 99.5 %\n"
            "  GPU-hours      1.50, GPU cost 3.75 USD; a fixed fleet of the peak: 3.00\n");
  EXPECT_EQ(run_summary({{run_of("", 0, 0).state, ""}}),
            "  requests       none that the SLO judges\n"
            "  GPU-hours      1.50, GPU cost 3.75 USD\n");
}

TEST(UpSummary, SeveralDeploymentsHaveALineEachAndOneForAll) {
  const std::string names = R"(,"deployments":["chat","mail"],)";
  const RunDocuments chat = run_of(R"("deployment":"chat")" + names, 200, 199);
  const RunDocuments mail = run_of(R"("deployment":"mail")" + names, 100, 90);
  EXPECT_EQ(deployments_in(chat.state), (std::vector<std::string>{"chat", "mail"}));
  EXPECT_EQ(
      run_summary({chat, mail}),
      "  chat           requests: 200 judged by the SLO, attainment 99.5 %; GPU-hours: 1.50, GPU cost 3.75 USD\n"
      "  mail           requests: 100 judged by the SLO, attainment 90.0 %; GPU-hours: 1.50, GPU cost 3.75 USD\n"
      "  all            requests: 300 judged by the SLO, attainment 96.3 %; GPU-hours: 3.00, GPU cost 7.50 USD\n");
}

TEST(UpSummary, WhatCannotBeReadHasNoSummary) {
  EXPECT_EQ(run_summary({}), "");
  EXPECT_EQ(run_summary({run_of("", 1, 1), {"<html>", ""}}), "");
  EXPECT_TRUE(deployments_in("[]").empty());
  EXPECT_TRUE(deployments_in(run_of("", 1, 1).state).empty());
}

}  // namespace
}  // namespace penstock::cli
