// Requests that are judged by the targets of their segments.
#include <gtest/gtest.h>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using testing::options;
using testing::pool;
using testing::random_workload;

decision::RunResult run_static(const workload::Workload& workload, const RunOptions& options) {
  auto still = planner::make_policy("static", {});
  const auto result = run(workload, **still, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return result.value_or(decision::RunResult{});
}

signals::SegmentSlo segment(std::string name, core::Duration ttft, core::Duration itl) {
  signals::SegmentSlo made;
  made.name = std::move(name);
  made.target = {ttft, itl};
  return made;
}

constexpr core::Duration kNever = std::chrono::hours{1}, kAtOnce = core::Duration{1};

// Of two tenants and two classes, on a fleet that is too small for some of them.
workload::Workload mixed_workload() {
  workload::Workload made = random_workload(600, 12.0);
  made.tenants = {"search", "acme"};
  for (std::size_t i = 0; i < made.requests.size(); ++i) {
    made.requests[i].tenant = i % 3 == 0 ? 1 : 0;
    made.requests[i].traffic_class = i % 5 == 0 ? workload::TrafficClass::kBatch : workload::TrafficClass::kInteractive;
  }
  return made;
}

RunOptions tight_options() {
  RunOptions made = options(pool(2));
  made.slo = {std::chrono::milliseconds{20}, std::chrono::milliseconds{12}};
  return made;
}

TEST(Targets, WithoutSegmentsTheGeneralOneHasAllRequests) {
  RunOptions run_options = tight_options();
  run_options.slo_goal = 0.9;
  const decision::RunResult result = run_static(mixed_workload(), run_options);
  ASSERT_EQ(result.targets.size(), 1U);
  const decision::TargetResult& general = result.targets[0];
  EXPECT_EQ(general.name, "general");
  EXPECT_EQ(general.target.ttft, run_options.slo.ttft);
  EXPECT_EQ(general.goal, 0.9);
  EXPECT_EQ(general.requests, 600U);
  EXPECT_GT(general.met, 0U);
  EXPECT_LT(general.met, 600U);
  EXPECT_EQ(general.attainment(), result.slo_attainment);
  EXPECT_EQ(static_cast<double>(general.ttft_met) / 600.0, result.ttft_attainment);
  EXPECT_EQ(static_cast<double>(general.itl_met) / 600.0, result.itl_attainment);
}

TEST(Targets, AWholeAnswerIsJudgedByItsEndOnly) {
  workload::Workload workload = mixed_workload();
  for (std::size_t i = 0; i < workload.requests.size(); ++i) workload.requests[i].streamed = i % 2 == 0;
  RunOptions run_options = tight_options();
  const decision::RunResult without = run_static(workload, run_options);
  EXPECT_EQ(without.requests, 600U);
  EXPECT_EQ(without.targets[0].requests, 300U) << "without an objective it is not judged";
  EXPECT_EQ(without.slo_attainment, without.targets[0].attainment());
  EXPECT_LT(without.slo_attainment, 1.0);
  EXPECT_GT(without.goodput_rps * without.duration_s, static_cast<double>(without.targets[0].met) + 299.0);
  std::uint64_t judged = 0, met = 0;
  for (const decision::SeriesPoint& point : without.series) {
    judged += point.judged;
    met += point.met_slo;
  }
  EXPECT_EQ(judged, 300U);
  EXPECT_EQ(met, without.targets[0].met);
  run_options.slo.e2e = core::Duration{1};
  const decision::RunResult with = run_static(workload, run_options);
  EXPECT_EQ(with.targets[0].requests, 600U);
  EXPECT_EQ(with.targets[0].met, 0U);
}

TEST(Targets, AWholeAnswerHasNeitherTtftNorItl) {
  workload::Workload workload = mixed_workload();
  const decision::RunResult streamed = run_static(workload, tight_options());
  EXPECT_GT(streamed.ttft_ms.p50, 0.0);
  for (workload::Request& request : workload.requests) request.streamed = false;
  const decision::RunResult whole = run_static(workload, tight_options());
  EXPECT_EQ(whole.ttft_ms.max, 0.0);
  EXPECT_EQ(whole.tpot_ms.max, 0.0);
  EXPECT_EQ(whole.e2e_ms.max, streamed.e2e_ms.max);
  for (const decision::SegmentResult& part : whole.segments) {
    EXPECT_EQ(part.ttft_ms.max, 0.0) << part.label;
    EXPECT_EQ(part.itl_ms.max, 0.0) << part.label;
  }
  for (const decision::SeriesPoint& point : whole.series) {
    EXPECT_EQ(point.first_tokens, 0U);
    EXPECT_EQ(point.itl_p95_ms, 0.0);
  }
}

TEST(Targets, SegmentsWithTheGeneralTargetChangeNoOtherFigure) {
  const workload::Workload workload = mixed_workload();
  RunOptions run_options = tight_options();
  const decision::RunResult plain = run_static(workload, run_options);
  run_options.slo_segments = {segment("acme", run_options.slo.ttft, run_options.slo.itl),
                              segment("long", run_options.slo.ttft, run_options.slo.itl)};
  run_options.slo_segments[0].tenant = "acme";
  run_options.slo_segments[1].prompt_min = 300;
  const decision::RunResult parted = run_static(workload, run_options);
  EXPECT_EQ(parted.slo_attainment, plain.slo_attainment);
  EXPECT_EQ(parted.goodput_rps, plain.goodput_rps);
  ASSERT_EQ(parted.targets.size(), 3U);
  EXPECT_EQ(parted.targets[1].requests, 200U);
  std::uint64_t requests = 0, met = 0, ttft_met = 0, itl_met = 0;
  for (const decision::TargetResult& target : parted.targets) {
    requests += target.requests;
    met += target.met;
    ttft_met += target.ttft_met;
    itl_met += target.itl_met;
  }
  EXPECT_EQ(requests, plain.targets[0].requests);
  EXPECT_EQ(met, plain.targets[0].met);
  EXPECT_EQ(ttft_met, plain.targets[0].ttft_met);
  EXPECT_EQ(itl_met, plain.targets[0].itl_met);
  for (std::size_t i = 0; i < plain.segments.size(); ++i)
    EXPECT_EQ(parted.segments[i].slo_attainment, plain.segments[i].slo_attainment) << plain.segments[i].label;
}

TEST(Targets, EachRequestIsJudgedByItsOwn) {
  RunOptions run_options = tight_options();
  run_options.slo = {kNever, kNever};
  run_options.slo_segments = {segment("patient", kNever, kAtOnce), segment("strict", kAtOnce, kNever)};
  run_options.slo_segments[0].traffic_class = "batch";
  run_options.slo_segments[0].tenant = "acme";
  run_options.slo_segments[1].tenant = "acme";
  const workload::Workload workload = mixed_workload();
  const decision::RunResult result = run_static(workload, run_options);
  ASSERT_EQ(result.targets.size(), 3U);
  EXPECT_EQ(result.targets[0].met, result.targets[0].requests);
  EXPECT_EQ(result.targets[1].requests, 40U);  // one in fifteen
  EXPECT_EQ(result.targets[1].ttft_met, 40U);
  EXPECT_LT(result.targets[1].itl_met, 10U);  // those with one output token
  EXPECT_EQ(result.targets[2].requests, 160U);
  EXPECT_EQ(result.targets[2].ttft_met, 0U);
  EXPECT_EQ(result.targets[2].itl_met, 160U);
  EXPECT_EQ(result.targets[2].met, 0U);
  const std::uint64_t met = 400 + result.targets[1].met;
  EXPECT_EQ(result.slo_attainment, static_cast<double>(met) / 600.0);
  // The report's segments and the series are of the same verdicts.
  std::uint64_t in_series = 0;
  for (const decision::SeriesPoint& point : result.series) in_series += point.met_slo;
  EXPECT_EQ(in_series, met);
  for (const decision::SegmentResult& part : result.segments) {
    if (part.dimension != "tenant") continue;
    const double acme = static_cast<double>(result.targets[1].met) / 200.0;
    EXPECT_DOUBLE_EQ(part.slo_attainment, part.label == "search" ? 1.0 : acme);
  }
}

TEST(Targets, TheModelOfTheDeploymentDecidesWhereItIsNamed) {
  RunOptions run_options = tight_options();
  run_options.slo_segments = {segment("llama", kNever, kNever)};
  run_options.slo_segments[0].model = "llama";
  const workload::Workload workload = mixed_workload();
  EXPECT_EQ(run_static(workload, run_options).targets[1].requests, 600U);
  run_options.model = "llama";
  EXPECT_EQ(run_static(workload, run_options).targets[1].requests, 600U);
  run_options.model = "qwen";
  EXPECT_EQ(run_static(workload, run_options).targets[1].requests, 0U);
}

TEST(Targets, CountsAloneTellThemApartToo) {
  RunOptions run_options = tight_options();
  run_options.slo_segments = {segment("acme", kNever, kNever)};
  run_options.slo_segments[0].tenant = "acme";
  const workload::Workload workload = mixed_workload();
  const decision::RunResult whole = run_static(workload, run_options);
  run_options.details = false;
  const decision::RunResult counts = run_static(workload, run_options);
  ASSERT_EQ(counts.targets.size(), 2U);
  EXPECT_EQ(counts.targets[1].name, "acme");
  EXPECT_EQ(counts.targets[1].requests, 200U);
  EXPECT_LT(counts.targets[0].met, counts.targets[0].requests);
  EXPECT_EQ(counts.targets[0].met, whole.targets[0].met);
  EXPECT_EQ(counts.targets[1].met, whole.targets[1].met);
  run_options.judged_from = workload.requests[300].arrival;
  const decision::RunResult later = run_static(workload, run_options);
  EXPECT_EQ(later.targets[0].requests + later.targets[1].requests, 300U);
  EXPECT_EQ(later.targets[1].requests, 100U);
}

// Keeps what it was shown of the requests of late.
class Onlooker final : public decision::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "onlooker"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{5}; }
  [[nodiscard]] core::Duration memory() const override { return std::chrono::hours{1}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    targets.clear();
    for (const signals::RecentRequest& request : observation.recent) targets.push_back(request.target);
    decision::Decision decision;
    for (const signals::PoolObservation& seen : observation.pools) {
      decision::PoolDecision kept;
      kept.current = kept.target = seen.target_replicas;
      decision.pools.push_back(kept);
    }
    return decision;
  }
  std::vector<std::uint8_t> targets;
};

TEST(Targets, PoliciesReceiveTheTargetOfARequest) {
  RunOptions run_options = tight_options();
  run_options.slo_segments = {segment("batch", kNever, kNever), segment("acme", kNever, kNever)};
  run_options.slo_segments[0].traffic_class = "batch";
  run_options.slo_segments[1].tenant = "acme";
  Onlooker onlooker;
  ASSERT_TRUE(run(mixed_workload(), onlooker, run_options));
  ASSERT_GT(onlooker.targets.size(), 300U);
  for (std::size_t i = 0; i < onlooker.targets.size(); ++i)
    ASSERT_EQ(onlooker.targets[i], i % 5 == 0 ? 1 : i % 3 == 0 ? 2 : 0) << i;
}

TEST(Targets, MatchByNameGivesTheSameResult) {
  RunOptions run_options = tight_options();
  run_options.slo_segments = {segment("acme", std::chrono::milliseconds{25}, std::chrono::milliseconds{13}),
                              segment("long", std::chrono::milliseconds{18}, std::chrono::milliseconds{14})};
  run_options.slo_segments[0].tenant = "acme";
  run_options.slo_segments[1].prompt_min = 300;
  const workload::Workload workload = mixed_workload();
  const decision::RunResult whole = run_static(workload, run_options);
  workload::Workload by_name = workload;
  by_name.tenants = {"general", "acme", "long"};
  for (workload::Request& request : by_name.requests) {
    const bool batch = request.traffic_class == workload::TrafficClass::kBatch;
    request.tenant = signals::target_index(
        run_options.slo_segments,
        {"", batch ? "batch" : "interactive", workload.tenants[request.tenant], request.input_tokens});
  }
  run_options.slo_segments = signals::segments_by_name(run_options.slo_segments);
  const decision::RunResult named = run_static(by_name, run_options);
  ASSERT_EQ(named.targets.size(), whole.targets.size());
  for (std::size_t i = 0; i < whole.targets.size(); ++i) {
    EXPECT_EQ(named.targets[i].requests, whole.targets[i].requests);
    EXPECT_EQ(named.targets[i].met, whole.targets[i].met);
    EXPECT_GT(named.targets[i].met, 0U);
    EXPECT_LT(named.targets[i].met, named.targets[i].requests);
  }
}

}  // namespace
}  // namespace penstock::simulation
