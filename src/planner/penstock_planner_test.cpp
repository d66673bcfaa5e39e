#include "planner/penstock_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::at_s;
using testing::engine;
using testing::pool_of;

// A world in which one replica carries `per_replica` requests a second: attainment is what fits, to a bit over all of it.
class FormulaTrials final : public FleetTrials {
 public:
  explicit FormulaTrials(double per_replica) : per_replica_(per_replica) {}

  void load(const TrialTraffic& traffic) override {
    ++loads;
    const auto& requests = traffic.requests;
    const double seconds = std::max(1.0, core::to_seconds(requests.back().arrival - requests.front().arrival));
    rate_ = static_cast<double>(requests.size()) / seconds * traffic.rate_factor;
    requests_ = requests.size();
  }
  TrialOutcome attempt(std::span<const std::uint32_t> replicas) override {
    ++attempts;
    TrialOutcome outcome;
    outcome.requests = requests_;
    for (const std::uint32_t count : replicas)
      outcome.slo_attainment = std::min(outcome.slo_attainment, std::min(1.0, count * per_replica_ / rate_));
    return outcome;
  }

  int loads = 0, attempts = 0;

 private:
  double per_replica_, rate_ = 1.0;
  std::uint64_t requests_ = 0;
};

struct Moment {
  double at_s;
  double rate_per_s;
};

// Lets a planner run for a while: targets are reached at once, engines are idle, every request is answered well.
class Course {
 public:
  explicit Course(double per_replica = 2.0, double stress = 1.0)
      : trials_(std::make_shared<FormulaTrials>(per_replica)) {
    PlannerOptions options;
    options.memory = std::chrono::minutes{5};
    options.stress = stress;
    planner_ = make_penstock_planner(trials_, {}, options);
  }

  // Goes on until `until_s` at a rate, and returns the last decision.
  PoolDecision at_rate(double rate_per_s, double until_s, double ttft_ms = 100.0) {
    PoolDecision last;
    while (now_s_ < until_s) {
      for (int i = 0; i < static_cast<int>(std::lround(5.0 * rate_per_s)); ++i)
        requests_.push_back({at_s(now_s_ + i / rate_per_s), 500, 100, static_cast<float>(ttft_ms), 10.0F, {}});
      now_s_ += 5.0;
      last = decide();
      directions_ += last.target != replicas_ ? 1 : 0;
      replicas_ = last.target;
    }
    return last;
  }
  Decision decide_on(signals::Observation observation) { return planner_->decide(observation); }

  std::uint32_t replicas_ = 4;
  int directions_ = 0;
  std::shared_ptr<FormulaTrials> trials_;
  std::vector<signals::RecentRequest> requests_;
  std::function<void(signals::PoolObservation&)> change_;
  std::unique_ptr<Policy> planner_;

 private:
  PoolDecision decide() {
    signals::Observation observation;
    observation.now = at_s(now_s_);
    observation.pools = {pool_of(replicas_, engine(0))};
    signals::PoolObservation& pool = observation.pools[0];
    for (auto& replica : pool.replicas) replica.sample->sampled_at = observation.now;
    pool.arrivals_total = requests_.size();
    if (change_) change_(pool);
    const auto first = std::find_if(requests_.begin(), requests_.end(), [&](const signals::RecentRequest& request) {
      return request.arrival > observation.now - planner_->memory();
    });
    observation.recent = {first, requests_.end()};
    return planner_->decide(observation).pools.at(0);
  }

  double now_s_ = 0.0;
};

TEST(PenstockPlanner, HoldsUntilThereIsTrafficToTryFleetsOn) {
  Course run;
  EXPECT_DECISION(run.at_rate(0.2, 60), 4, kInsufficientData, kNone);
  EXPECT_EQ(run.trials_->loads, 0);
}

TEST(PenstockPlanner, GrowsToTheCheapestFleetThatKeepsTheGoal) {
  Course run{2.0};
  const PoolDecision decision = run.at_rate(16.0, 120);  // 16 / 2 = 8, of which 99 % are still 8
  EXPECT_DECISION(decision, 8, kCheapestThatKeepsSlo, kNone);
}

TEST(PenstockPlanner, KeepsRoomForARiseWhileReplicasStart) {
  Course run{2.0, 1.5};
  EXPECT_EQ(run.at_rate(16.0, 120).target, 11U);  // 90 % of 1.5 · 16 is 21.6, for which 10 are too few
}

TEST(PenstockPlanner, ShrinksWhenALullHasLasted) {
  Course run{2.0};
  EXPECT_EQ(run.at_rate(16.0, 300).target, 8U);
  EXPECT_EQ(run.at_rate(4.0, 1500).target, 2U);
}

TEST(PenstockPlanner, KeepsTheFleetThatFits) {
  Course run{2.0};
  (void)run.at_rate(15.0, 300);
  run.directions_ = 0;
  (void)run.at_rate(15.0, 1800);
  EXPECT_EQ(run.directions_, 0);
}

TEST(PenstockPlanner, ReactsToTroubleBeforeThePlanDoes) {
  Course run{2.0};
  EXPECT_EQ(run.at_rate(4.0, 600).target, 2U);
  run.change_ = [](signals::PoolObservation& pool) { pool.unrouted_requests = 5; };
  // Over its memory of five minutes the plan sees a mean of 8 a second, the last minute has 24.
  EXPECT_EQ(run.at_rate(24.0, 680).reason, Reason::kSloAtRisk);
  EXPECT_EQ(run.replicas_, 12U);
}

TEST(PenstockPlanner, RaisesPlansWhenTheWorldIsWorseThanTheTrials) {
  Course run{2.0};
  EXPECT_EQ(run.at_rate(15.5, 400).target, 8U);
  const PoolDecision raised = run.at_rate(15.5, 1000, 5000.0);  // every answer is late, which no trial foresaw
  EXPECT_GT(raised.target, 10U);
  EXPECT_EQ(run.at_rate(15.5, 8000, 100.0).target, 8U);
}

TEST(PenstockPlanner, NeverShrinksOnOldTelemetry) {
  Course run{2.0};
  EXPECT_EQ(run.at_rate(16.0, 300).target, 8U);
  run.change_ = [](signals::PoolObservation& pool) {
    for (auto& replica : pool.replicas) replica.sample.reset();
  };
  EXPECT_DECISION(run.at_rate(4.0, 2000), 8, kCheapestThatKeepsSlo, kStaleTelemetry);
}

TEST(PenstockPlanner, ShowsWhatItTried) {
  Course run{2.0};
  (void)run.at_rate(15.5, 100);
  signals::Observation observation;
  observation.now = at_s(200);
  observation.pools = {pool_of(8, engine(0))};
  observation.recent = run.requests_;
  const Decision decision = run.decide_on(observation);
  ASSERT_FALSE(decision.candidates.empty());
  EXPECT_EQ(std::count_if(decision.candidates.begin(), decision.candidates.end(),
                          [](const Candidate& candidate) { return candidate.chosen; }),
            1);
  for (const Candidate& candidate : decision.candidates)
    if (candidate.chosen) {
      EXPECT_EQ(candidate.replicas, std::vector<std::uint32_t>{8});
    }
  const std::string why = sentence(decision.pools[0]);
  EXPECT_NE(why.find("attainment_one_less"), std::string::npos) << why;
}

TEST(PenstockPlanner, SizesEachPoolOfADisaggregatedDeployment) {
  auto trials = std::make_shared<FormulaTrials>(2.0);
  PlannerOptions options;
  options.stress = 1.0;
  const auto planner = make_penstock_planner(trials, {}, options);
  std::vector<signals::RecentRequest> requests;
  for (int i = 0; i < 600; ++i) requests.push_back({at_s(i * 0.1), 500, 100, 100.0F, 10.0F, {}});  // 10 a second
  signals::Observation observation;
  observation.now = at_s(60);
  observation.pools = {pool_of(3, engine(0), signals::Role::kPrefill), pool_of(4, engine(0), signals::Role::kDecode)};
  observation.recent = requests;
  const Decision decision = planner->decide(observation);
  ASSERT_EQ(decision.pools.size(), 2U);
  EXPECT_EQ(decision.pools[0].target, 5U);
  EXPECT_EQ(decision.pools[1].target, 5U);
}

TEST(PenstockPlanner, TriesFewFleetsEvenWhenTheNeedIsFarAway) {
  Course run{0.05};  // 20 a second need 400 replicas, 100 are allowed
  run.change_ = [](signals::PoolObservation& pool) { pool.max_replicas = 1000; };
  (void)run.at_rate(20.0, 10);
  EXPECT_LT(run.trials_->attempts, 40);
}

}  // namespace
}  // namespace penstock::planner
