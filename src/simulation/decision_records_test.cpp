// What a run keeps of its policy's decisions.
#include <gtest/gtest.h>

#include "simulation/run.h"
#include "simulation/world.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using testing::options;
using testing::pool;
using testing::random_workload;

// Once a second: the first decision grows to 2, the next three hold for one reason, all after that for another.
class Talkative final : public decision::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "talkative"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{1}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    ++asked_;
    decision::PoolDecision pool_decision;
    pool_decision.current = observation.pools[0].target_replicas;
    pool_decision.target = 2;
    pool_decision.reason = asked_ == 1  ? decision::Reason::kSloAtRisk
                           : asked_ < 5 ? decision::Reason::kScalingInProgress
                                        : decision::Reason::kSloMet;
    pool_decision.evidence = {{"asked", static_cast<double>(asked_), "times"}};
    decision::Decision decision;
    decision.pools = {pool_decision};
    decision.candidates = {{{1}, 0.5, 0.6, 0.7, false}, {{2}, 1.0, 1.0, 1.0, true}};
    return decision;
  }

 private:
  int asked_ = 0;
};

TEST(DecisionRecords, ChangesAndHoldsKeepEvidenceAndCandidates) {
  const auto workload = random_workload(60, 5.0);
  Talkative policy;
  const auto result = run(workload, policy, options(pool(1)));
  ASSERT_TRUE(result);
  ASSERT_EQ(result->decisions.size(), 1U);
  const decision::DecisionRecord& change = result->decisions.front();
  EXPECT_EQ(change.target, 2U);
  EXPECT_EQ(change.reason, decision::Reason::kSloAtRisk);
  ASSERT_EQ(change.evidence.size(), 1U);
  EXPECT_EQ(change.evidence[0].name, "asked");
  EXPECT_EQ(change.evidence[0].value, 1.0);
  ASSERT_EQ(change.candidates.size(), 2U);
  EXPECT_EQ(change.candidates[0].replicas, std::vector<std::uint32_t>{1});
  EXPECT_EQ(change.candidates[0].ttft_attainment, 0.6);
  EXPECT_TRUE(change.candidates[1].chosen);
}

TEST(DecisionRecords, AReasonThatLastsIsRecordedOnce) {
  const auto workload = random_workload(60, 5.0);
  Talkative policy;
  const auto result = run(workload, policy, options(pool(1)));
  ASSERT_TRUE(result);
  ASSERT_EQ(result->holds.size(), 2U);
  EXPECT_EQ(result->holds[0].reason, decision::Reason::kScalingInProgress);
  EXPECT_EQ(result->holds[0].current, result->holds[0].target);
  EXPECT_EQ(result->holds[0].evidence[0].value, 2.0);
  EXPECT_EQ(result->holds[1].reason, decision::Reason::kSloMet);
  EXPECT_EQ(result->holds[1].evidence[0].value, 5.0);
  EXPECT_EQ(result->scaling_actions, 1U);
}

// Once a second, and always a hold for the same reason; at the third tick the diagnosis changes, at the fifth the
// proposal of the next phase, at the seventh its words alone.
class Diagnosing final : public decision::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "diagnosing"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{1}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    ++asked_;
    decision::PoolDecision pool_decision;
    pool_decision.current = pool_decision.target = observation.pools[0].target_replicas;
    pool_decision.reason = decision::Reason::kSloMet;
    pool_decision.evidence = {{"estimated_itl", 20.0 + asked_, "ms"}};
    pool_decision.next_phase_target = asked_ < 5 ? 3 : 4;
    decision::Decision decision;
    decision.pools = {pool_decision};
    decision.cause = asked_ < 3 ? decision::Cause::kNone : decision::Cause::kQueue;
    decision.diagnosis = asked_ < 7 ? "in words" : "in other words";
    decision.phase = decision::RolloutPhase::kObserve;
    decision.forecast = decision::Forecast{static_cast<double>(asked_), 100.0, {}, 0.5, {}};
    return decision;
  }

 private:
  int asked_ = 0;
};

TEST(DecisionRecords, ANewDiagnosisOrANewProposalOfTheNextPhaseIsRecorded) {
  const auto workload = random_workload(60, 5.0);
  Diagnosing policy;
  const auto result = run(workload, policy, options(pool(1)));
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->decisions.empty());
  ASSERT_EQ(result->holds.size(), 3U);
  EXPECT_EQ(result->holds[0].cause, decision::Cause::kNone);
  EXPECT_EQ(result->holds[1].cause, decision::Cause::kQueue);
  EXPECT_EQ(result->holds[1].diagnosis, "in words");
  EXPECT_EQ(result->holds[1].phase, decision::RolloutPhase::kObserve);
  EXPECT_EQ(result->holds[1].next_phase_target, 3U);
  EXPECT_EQ(result->holds[2].next_phase_target, 4U);
  ASSERT_TRUE(result->holds[1].forecast);
  EXPECT_EQ(result->holds[1].forecast->requests_per_s, 3.0);
  EXPECT_EQ(result->holds[1].forecast->input_tokens, 100.0);
  EXPECT_FALSE(result->holds[1].forecast->output_tokens);
  EXPECT_EQ(result->holds[1].forecast->error, 0.5);
}

TEST(DecisionRecords, ForecastsComeAsOftenAsTheSeriesHasPoints) {
  const auto workload = random_workload(60, 5.0);
  Diagnosing policy;
  auto setup = options(pool(1));
  setup.series_points = 4;
  const auto result = run(workload, policy, setup);
  ASSERT_TRUE(result);
  ASSERT_GE(result->forecasts.size(), 2U);
  EXPECT_LE(result->forecasts.size(), result->series.size() + 1);
  EXPECT_EQ(result->forecasts[0].expected.requests_per_s, 1.0);
  EXPECT_EQ(result->forecasts[0].itl_ms, 21.0);
  EXPECT_FALSE(result->forecasts[0].ttft_ms);
  for (std::size_t i = 1; i < result->forecasts.size(); ++i)
    EXPECT_GE(result->forecasts[i].at - result->forecasts[i - 1].at, series_width(workload, setup));
  Talkative silent;
  EXPECT_TRUE(run(workload, silent, options(pool(1)))->forecasts.empty());
}

}  // namespace
}  // namespace penstock::simulation
