#include "planner/penstock/load_outlook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using std::chrono::minutes;
using testing::at_s;

constexpr double kCapacity = 1000.0;  // Weighted tokens per second of a replica.
constexpr std::uint64_t kInput = 500;

constexpr CapacityLags kLags{.start_up = minutes{2}, .soonest = minutes{2}};

// Ticks of 5 s of a pool with eight replicas. Trials of its traffic find that requests miss above the capacity.
class Course {
 public:
  explicit Course(const std::optional<Controller>& fixed = std::nullopt, const CapacityLags& lags = kLags)
      : outlook(0.99, lags, fixed) {
    pool_.min_replicas = 1;
    pool_.max_replicas = 32;
    pool_.target_replicas = pool_.ready = 8;
  }

  // A share of the requests has missed.
  void run(double minutes_long, double rate_per_s, double missed = 0.0, bool trials = true) {
    for (int tick = 0; tick < static_cast<int>(12 * minutes_long); ++tick) {
      const auto requests = static_cast<std::uint64_t>(5 * rate_per_s);
      for (std::uint64_t i = 0; i < requests; ++i) {
        signals::RecentRequest request;
        request.arrival = at_s(now_s + 5.0 * static_cast<double>(i + 1) / static_cast<double>(requests + 1));
        request.ttft_ms = static_cast<double>(count_ % 100) < 100 * missed ? 60'000.0F : 100.0F;
        request.itl_ms = 10.0F;
        recent_.push_back(request);
        ++count_;
      }
      now_s += 5.0;
      std::erase_if(recent_, [&](const auto& request) { return request.arrival < at_s(now_s - 120); });
      pool_.arrivals_total += requests;
      pool_.input_tokens_total += kInput * requests;
      pool_.output_tokens_total += 100 * requests;
      signals::Observation observation;
      observation.now = at_s(now_s);
      observation.pools = {pool_};
      observation.recent = recent_;
      burn_.observe(observation, 1.0);
      outlook.observe(observation, minutes{2}, 1.0, phase, burn_);
      if (trials && tick % 4 == 0) try_fleets(rate_per_s);
    }
  }

  LoadOutlook outlook;
  RolloutPhase phase = RolloutPhase::kCost;
  double now_s = 0.0;

 private:
  void try_fleets(double rate_per_s) {
    for (std::uint32_t replicas = 1; replicas <= 16; replicas *= 2) {
      const double load = rate_per_s * static_cast<double>(kInput + 300) / replicas;
      TrialOutcome outcome;
      outcome.all = {1000.0, load > kCapacity ? 0.0 : 990.0};
      outlook.observe_trial(at_s(now_s - 60), at_s(now_s), {replicas}, 1.0, outcome, 0.99);
    }
  }

  signals::PoolObservation pool_;
  std::vector<signals::RecentRequest> recent_;
  std::size_t count_ = 0;
  BurnRate burn_{signals::SloPolicy{}};
};

bool equal(const Controller& a, const Controller& b) { return a.allowance == b.allowance && a.hold == b.hold; }

TEST(LoadOutlook, FixedControllerIsUsedInAllPhases) {
  const Controller fixed{0.42, minutes{7}};
  Course course{fixed};
  course.run(60, 8.0, 0.1);
  for (const RolloutPhase phase : {RolloutPhase::kLoad, RolloutPhase::kPhaseSpecific, RolloutPhase::kCost})
    EXPECT_TRUE(equal(course.outlook.controller(phase), fixed));
  EXPECT_DOUBLE_EQ(course.outlook.savings(), 1.0);
}

TEST(LoadOutlook, FuturesAreMultipliedByTheUncertainty) {
  const LoadOutlook outlook{0.99, kLags};
  const std::vector<double> once = outlook.futures(), more = outlook.futures(1.25);
  ASSERT_EQ(once.size(), Futures::kCount);
  ASSERT_EQ(more.size(), once.size());
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_DOUBLE_EQ(more[i], 1.25 * once[i]);
  EXPECT_DOUBLE_EQ(outlook.largest_future(), once.back());
}

TEST(LoadOutlook, FlatLoadNarrowsTheFutures) {
  Course course;
  EXPECT_GT(course.outlook.largest_future(), 1.5);
  course.run(10 * 60, 4.0, 0.0, false);
  EXPECT_NEAR(course.outlook.largest_future(), 1.0, 0.03);
}

TEST(LoadOutlook, WithoutTrialsTheFirstControllerStays) {
  Course course;
  const Controller first = course.outlook.controller(RolloutPhase::kCost);
  course.run(10 * 60, 4.0, 0.0, false);
  EXPECT_TRUE(equal(course.outlook.controller(RolloutPhase::kCost), first));
}

TEST(LoadOutlook, OnlyTheLastPhaseIsLessCarefulThanTheFirstChoice) {
  Course course;
  const Controller first = course.outlook.controller(RolloutPhase::kLoad);
  course.run(10 * 60, 4.0);
  EXPECT_GT(course.outlook.controller(RolloutPhase::kCost).allowance, first.allowance);
  EXPECT_TRUE(equal(course.outlook.controller(RolloutPhase::kLoad), first));
  EXPECT_TRUE(equal(course.outlook.controller(RolloutPhase::kPhaseSpecific), first));
  EXPECT_LT(course.outlook.savings(), 1.0);
}

TEST(LoadOutlook, OnlyTheLastPhaseUsesWhatIsLeftOfTheBudget) {
  Course course, fixed{Controller{0.1, minutes{10}}};
  course.run(4 * 60, 4.0);
  EXPECT_GT(course.outlook.misses(RolloutPhase::kCost), 2.0);
  EXPECT_DOUBLE_EQ(course.outlook.misses(RolloutPhase::kPhaseSpecific), 1.0);
  fixed.run(4 * 60, 4.0);
  EXPECT_DOUBLE_EQ(fixed.outlook.misses(RolloutPhase::kCost), 1.0);
}

TEST(LoadOutlook, MissesMakeAllPhasesCareful) {
  Course course;
  const Controller first = course.outlook.controller(RolloutPhase::kLoad);
  course.run(2 * 60, 4.0, 0.05);
  EXPECT_LT(course.outlook.budget_left(), -2.0);
  EXPECT_DOUBLE_EQ(course.outlook.misses(RolloutPhase::kCost), 1.0);
  const Controller careful = course.outlook.controller(RolloutPhase::kLoad);
  EXPECT_LE(careful.allowance, first.allowance);
  EXPECT_GE(careful.hold, first.hold);
  EXPECT_GT(careful.hold, minutes{5});
}

TEST(LoadOutlook, BudgetIsLeftWithoutMisses) {
  Course course;
  EXPECT_DOUBLE_EQ(course.outlook.budget_left(), 1.0);
  course.run(60, 4.0);
  EXPECT_DOUBLE_EQ(course.outlook.budget_left(), 1.0);
}

TEST(LoadOutlook, TheWholePlanIsAwakeBeforeTrialsAndWhereNothingSleeps) {
  Course untried{std::nullopt, {.start_up = minutes{10}, .soonest = std::chrono::seconds{8}}}, sleepless;
  untried.run(120, 4.0, 0.0, false);
  EXPECT_DOUBLE_EQ(untried.outlook.awake_share(RolloutPhase::kCost), 1.0);
  sleepless.run(120, 4.0);
  EXPECT_DOUBLE_EQ(sleepless.outlook.awake_share(RolloutPhase::kCost), 1.0);
}

TEST(LoadOutlook, ASlowRiseCanBeServedByReplicasThatWakeUp) {
  // The load doubles within twenty minutes and falls again: twice as much may come within a start-up time of ten
  // minutes, and little more within seconds.
  const Controller careful{0.01, minutes{15}};
  Course course{careful, {.start_up = minutes{10}, .soonest = std::chrono::seconds{8}}};
  for (int wave = 0; wave < 16; ++wave)
    for (int minute = 0; minute < 40; ++minute)
      course.run(1, 8.0 * (1.0 + (minute < 20 ? minute : 40 - minute) / 20.0));
  const double share = course.outlook.awake_share(RolloutPhase::kCost);
  EXPECT_LT(share, 0.9);
  EXPECT_GT(share, 0.5);
}

TEST(LoadOutlook, ContinuesFromItsArchive) {
  Course course;
  course.run(97, 4.0, 0.02);
  core::StateArchive saved;
  course.outlook.archive(saved);
  Course restored = course;
  restored.outlook = LoadOutlook{0.99, kLags};
  core::StateArchive read{saved.text()};
  restored.outlook.archive(read);
  ASSERT_TRUE(read.finish());
  const auto text = [](Course& of) {
    of.run(40, 9.0, 0.01);
    core::StateArchive state;
    of.outlook.archive(state);
    return state.text();
  };
  EXPECT_EQ(text(course), text(restored));
}

TEST(LoadOutlook, ArchiveOfAnotherStartUpTimeIsRefused) {
  Course course;
  course.run(30, 4.0);
  core::StateArchive saved;
  course.outlook.archive(saved);
  LoadOutlook other{0.99, {.start_up = minutes{5}, .soonest = minutes{5}}};
  core::StateArchive read{saved.text()};
  other.archive(read);
  EXPECT_FALSE(read.finish());
}

}  // namespace
}  // namespace penstock::planner
