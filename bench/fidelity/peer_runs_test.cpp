#include "fidelity/peer_runs.h"

#include <gtest/gtest.h>

#include "simulation/world_testing.h"

namespace penstock::fidelity {

using namespace simulation;
namespace {

constexpr std::string_view kHeader =
    "work,router,replicas,requests,ttft_mean_ms,itl_mean_ms,ttft_p99_ms,prefix_hit_ratio,slo_attainment,requests_per_"
    "s,requests_per_cpu_s\n";

std::string with_header(std::string_view rows) { return std::string{kHeader} + std::string{rows}; }

TEST(PeerRuns, AreReadFromTheirFile) {
  const auto runs = parse_peer_runs("peer.csv", with_header("mooncake,kv,8,12031,284.5,7.3,1711,0.2,0.985,2200,2300\r\n"
                                                            "saturated,round-robin,16,20000,1,2,3,0,,4567,4600\n"));
  ASSERT_TRUE(runs.has_value()) << runs.error().message();
  ASSERT_EQ(runs->size(), 2U);
  EXPECT_EQ((*runs)[0].router, routing::Strategy::kKv);
  EXPECT_EQ((*runs)[0].replicas, 8U);
  EXPECT_DOUBLE_EQ((*runs)[0].ttft_mean_ms, 284.5);
  EXPECT_DOUBLE_EQ((*runs)[0].slo_attainment, 0.985);
  EXPECT_EQ((*runs)[1].router, routing::Strategy::kRoundRobin);
  EXPECT_LT((*runs)[1].slo_attainment, 0.0);
  EXPECT_DOUBLE_EQ((*runs)[1].requests_per_cpu_s, 4600.0);
}

TEST(PeerRuns, NameTheLineThatIsWrong) {
  const auto message = [](std::string_view csv) { return parse_peer_runs("peer.csv", csv).error().message(); };
  EXPECT_EQ(message("a,b\n").substr(0, 37), "peer.csv:1: the header is another one");
  EXPECT_EQ(message(with_header("mooncake,kv,8\n")), "peer.csv:2: has 3 columns instead of 11");
  EXPECT_EQ(message(with_header("mooncake,random,8,1,1,1,1,1,1,1,1\n")), "peer.csv:2: there is no router 'random'");
  EXPECT_EQ(message(with_header("mooncake,kv,8,1,nan,1,1,1,1,1,1\n")),
            "peer.csv:2: ttft_mean_ms is 'nan', not a number");
  EXPECT_EQ(message(with_header("mooncake,kv,0,1,1,1,1,1,1,1,1\n")), "peer.csv:2: 0 replicas");
}

TEST(PeerComparison, ShowsNoDifferenceToItself) {
  const auto workload = simulation::testing::random_workload(200, 10.0);
  RunOptions run_options = simulation::testing::options(simulation::testing::pool(2));
  auto policy = planner::make_policy("static", {});
  const auto ours = run(workload, **policy, run_options);
  PeerRun peer{"mooncake",
               run_options.router,
               2,
               ours->ttft_ms.mean,
               ours->itl_ms.mean,
               ours->ttft_ms.p99,
               ours->prefix_hit_ratio,
               ours->slo_attainment,
               1.0,
               1.0};
  const std::vector<PeerWork> works = {{"mooncake", workload, run_options}};
  const auto same = compare_with_peer(works, {peer});
  ASSERT_TRUE(same.has_value());
  EXPECT_NE(
      same->find("Under round robin the largest difference of a mean is 0.0 %, of the SLO attainment 0.0 points."),
      std::string::npos)
      << *same;
  EXPECT_NE(same->find("Under the KV router the largest difference of a mean is 0.0 %"), std::string::npos) << *same;
  peer.ttft_mean_ms *= 0.8;
  peer.router = routing::Strategy::kRoundRobin;
  const std::string changed = *compare_with_peer(works, {peer});
  EXPECT_NE(changed.find("Under round robin the largest difference of a mean is "), std::string::npos);
  EXPECT_EQ(changed.find("Under round robin the largest difference of a mean is 0.0 %"), std::string::npos) << changed;
  EXPECT_NE(changed.find("Under the KV router the largest difference of a mean is 0.0 %"), std::string::npos);
}

TEST(PeerRuns, ASectionOfAnEarlierPageIsKept) {
  const std::string page = "# Page\n\n## One\n\ntext\n\n## Two\n\n### Part\n\nmore\n";
  EXPECT_EQ(section_of(page, "page.md", "One").value(), "\n## One\n\ntext\n");
  EXPECT_EQ(section_of(page, "page.md", "Two").value(), "\n## Two\n\n### Part\n\nmore");
  EXPECT_EQ(section_of(page, "page.md", "Three").error().message(), "page.md: has no section 'Three'");
}

}  // namespace
}  // namespace penstock::fidelity
