#include "planner/penstock/burn_rate.h"

#include <gtest/gtest.h>

#include <vector>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::at_s;

// 2 s and 50 ms for 90 % of the requests; 10 s and 50 ms for half of the segment's.
signals::SloPolicy slo() {
  signals::SloPolicy slo;
  slo.goal = 0.9;
  signals::SegmentSlo& batch = slo.segments.emplace_back();
  batch.target = {seconds{10}, std::chrono::milliseconds{50}};
  batch.goal = 0.5;
  return slo;
}

class Course {
 public:
  explicit Course(double best = 1.0) : best_(best) {}

  // A request a second, of which so many in a hundred miss by their TTFT; observed every 5 s.
  void go_on(double until_s, int missed_of_hundred) {
    for (; now_s_ < until_s; now_s_ += 5.0) {
      for (int i = 0; i < 5; ++i, ++count_)
        add(now_s_ + i + 0.5, 37 * count_ % 100 < missed_of_hundred ? 2001.0F : 1999.0F);
      observe(now_s_ + 5.0);
    }
  }
  void add(double at, float ttft_ms, float itl_ms = 10.0F, std::uint8_t target = 0) {
    requests_.push_back({at_s(at), 500, 100, ttft_ms, itl_ms, {}, target});
  }
  void observe(double at) {
    signals::Observation observation;
    observation.now = at_s(at);
    observation.recent = requests_;
    burn.observe(observation, best_);
  }

  BurnRate burn{slo()};

 private:
  double best_;
  std::vector<signals::RecentRequest> requests_;
  double now_s_ = 0.0;
  int count_ = 0;
};

TEST(BurnRate, AnswersThatAreNotStreamedAreJudgedByTheirEndAlone) {
  for (const bool has_objective : {false, true}) {
    signals::SloPolicy policy = slo();
    if (has_objective) policy.target.e2e = seconds{20};
    BurnRate burn{policy};
    std::vector<signals::RecentRequest> requests;
    for (int i = 0; i < 20; ++i) {
      signals::RecentRequest& request = requests.emplace_back();
      request.arrival = at_s(i + 1);
      request.streamed = false;
      if (i != 0) request.e2e_ms = i < 3 ? 20'001.0F : 19'999.0F;  // The first one has no end.
    }
    signals::Observation observation;
    observation.now = at_s(60);
    observation.recent = requests;
    burn.observe(observation, 1.0);
    EXPECT_NEAR(burn.over_short_window(), has_objective ? 1.5 : 0.0, 1e-9);
  }
}

TEST(BurnRate, AFailedAnswerHasMissedAlsoIfItIsNotStreamed) {
  for (const bool streamed : {false, true}) {
    BurnRate burn{slo()};
    std::vector<signals::RecentRequest> requests;
    for (int i = 0; i < 20; ++i) {
      signals::RecentRequest& request = requests.emplace_back();
      request.arrival = at_s(i + 1);
      request.streamed = streamed || i >= 3;
      request.ttft_ms = request.itl_ms = 1.0F;
      if (i < 3) request.end = signals::RequestEnd::kFailed;
    }
    signals::Observation observation;
    observation.now = at_s(60);
    observation.recent = requests;
    burn.observe(observation, 1.0);
    EXPECT_NEAR(burn.over_short_window(), 1.5, 1e-9) << streamed;
  }
}

TEST(BurnRate, IsMissesOverThoseThatAreAllowed) {
  Course run;
  for (int i = 0; i < 20; ++i) run.add(i + 1, i < 3 ? 2001.0F : 2000.0F);
  run.observe(60);
  EXPECT_NEAR(run.burn.over_short_window(), 1.5, 1e-9);  // 3 where 20 · 0.1 are allowed
  EXPECT_NEAR(run.burn.over_long_window(), 1.5, 1e-9);
}

TEST(BurnRate, WithoutRequestsNothingBurns) {
  Course run;
  run.observe(60);
  EXPECT_EQ(run.burn.over_short_window(), 0.0);
  EXPECT_FALSE(run.burn.burning());
}

TEST(BurnRate, MissesByTtftByItlAndByNoAnswer) {
  const std::pair<float, float> misses[] = {{2001.0F, 10.0F}, {100.0F, 51.0F}, {-1.0F, -1.0F}};
  for (const auto& [ttft_ms, itl_ms] : misses) {
    Course run;
    run.add(1, ttft_ms, itl_ms);
    run.observe(60);
    EXPECT_NEAR(run.burn.over_short_window(), 10.0, 1e-9) << ttft_ms << ' ' << itl_ms;
  }
  Course run;
  run.add(1, 2000.0F, 50.0F);
  run.add(2, 100.0F, -1.0F);  // still being answered
  run.observe(60);
  EXPECT_EQ(run.burn.over_short_window(), 0.0);
}

TEST(BurnRate, EachTargetHasItsOwnLatencyAndGoal) {
  Course run;
  for (int i = 0; i < 10; ++i) run.add(i + 1, i < 6 ? 9000.0F : 10001.0F, 10.0F, 1);
  for (int i = 0; i < 10; ++i) run.add(i + 11, 1000.0F);
  run.observe(60);
  EXPECT_NEAR(run.burn.over_short_window(), 4.0 / (10 * 0.5 + 10 * 0.1), 1e-9);
}

TEST(BurnRate, UnavoidableMissesAreAllowed) {
  Course run{0.5};
  for (int i = 0; i < 20; ++i) run.add(i + 1, i < 11 ? 2001.0F : 100.0F);
  run.observe(60);
  EXPECT_NEAR(run.burn.over_short_window(), 11 / (20 * (0.5 + 0.5 * 0.5 * 0.1)), 1e-9);
}

TEST(BurnRate, JudgesEachRequestOnceAndNotBeforeItsTime) {
  Course run;
  run.add(1, 2001.0F);
  run.add(40, 100.0F);
  run.observe(30);
  EXPECT_EQ(run.burn.over_short_window(), 0.0);  // it may still be answered
  run.observe(31);
  EXPECT_NEAR(run.burn.over_short_window(), 10.0, 1e-9);
  for (double at = 32; at < 70; at += 1) run.observe(at);
  EXPECT_NEAR(run.burn.over_short_window(), 10.0, 1e-9);
  run.observe(70);
  EXPECT_NEAR(run.burn.over_short_window(), 5.0, 1e-9);
}

TEST(BurnRate, WindowsForgetWhatIsOlder) {
  Course run;
  for (int i = 0; i < 10; ++i) run.add(i + 1, 2001.0F);
  run.observe(60);
  run.add(100, 100.0F);
  run.observe(60 + 299);
  EXPECT_NEAR(run.burn.over_short_window(), 10 / 1.1, 1e-9);
  run.observe(60 + 300);
  EXPECT_EQ(run.burn.over_short_window(), 0.0);
  EXPECT_NEAR(run.burn.over_long_window(), 10 / 1.1, 1e-9);
  run.observe(60 + 3599);
  EXPECT_NEAR(run.burn.over_long_window(), 10 / 1.1, 1e-9);
  run.observe(60 + 3600);
  EXPECT_EQ(run.burn.over_long_window(), 0.0);
}

TEST(BurnRate, BurnsWhenBothWindowsDo) {
  Course moment;  // 4 times what is allowed, for five minutes after an hour without misses
  moment.go_on(3600, 0);
  moment.go_on(3900, 40);
  EXPECT_GT(moment.burn.over_short_window(), 3.0);
  EXPECT_LT(moment.burn.over_long_window(), 1.0);
  EXPECT_FALSE(moment.burn.burning());
  moment.go_on(5400, 40);  // half an hour of it is too much of an hour's
  EXPECT_GT(moment.burn.over_long_window(), 1.0);
  EXPECT_TRUE(moment.burn.burning());
  moment.go_on(5820, 0);  // long enough over, though the hour has not forgotten it
  EXPECT_GT(moment.burn.over_long_window(), 1.0);
  EXPECT_FALSE(moment.burn.burning());
}

TEST(BurnRate, OverALongTimeTheRateIsThatOfTheMisses) {
  Course run;
  run.go_on(7200, 15);
  EXPECT_NEAR(run.burn.over_short_window(), 1.5, 0.1);
  EXPECT_NEAR(run.burn.over_long_window(), 1.5, 0.05);
  EXPECT_FALSE(run.burn.burning());  // not fast enough for the short window
}

// 45 s at an ITL above the objective: known at the end only.
TEST(BurnRate, MissesOfLongAnswersCountAtTheirEnd) {
  BurnRate burn{slo()};
  std::vector<signals::RecentRequest> requests;
  for (int i = 0; i < 20; ++i) {
    signals::RecentRequest& request = requests.emplace_back();
    request.arrival = at_s(i < 10 ? 1 : 2);  // Several arrive at the same time.
    request.ttft_ms = 100.0F;
  }
  const auto observe = [&](double at) {
    signals::Observation observation;
    observation.now = at_s(at);
    observation.recent = requests;
    burn.observe(observation, 1.0);
  };
  observe(40);
  EXPECT_EQ(burn.over_short_window(), 0.0);
  for (const std::size_t late : {3U, 4U, 15U}) requests[late].itl_ms = 51.0F;
  for (const std::size_t kept : {5U, 16U}) requests[kept].itl_ms = 49.0F;
  requests[17].end = signals::RequestEnd::kFailed;
  observe(45);
  EXPECT_NEAR(burn.over_short_window(), 4.0 / (20 * 0.1), 1e-9);
  observe(50);
  EXPECT_NEAR(burn.over_short_window(), 4.0 / (20 * 0.1), 1e-9) << "each is counted once";
  const std::vector<BudgetUse> uses = burn.take_uses();
  ASSERT_EQ(uses.size(), 1U);
  EXPECT_EQ(uses[0].requests, 20.0);
  EXPECT_EQ(uses[0].missed, 4.0);
  EXPECT_NEAR(uses[0].allowed, 2.0, 1e-9);
  requests.erase(requests.begin(), requests.begin() + 10);  // Nothing more is known of these.
  for (auto& request : requests) request.itl_ms = 51.0F;
  observe(55);
  EXPECT_EQ(burn.take_uses()[0].missed, 7.0);  // All that had not ended; the failed one has been counted.
}

TEST(BurnRate, StartsAfreshWhenTheClockGoesBack) {
  Course run;
  run.go_on(3600, 50);
  EXPECT_TRUE(run.burn.burning());
  EXPECT_FALSE(run.burn.burning(100.0));
  run.observe(60);
  EXPECT_FALSE(run.burn.burning());
  Course after;  // what comes from then on is judged
  after.observe(3600);
  after.observe(60);
  after.add(45, 2001.0F);
  after.observe(80);
  EXPECT_NEAR(after.burn.over_short_window(), 10.0, 1e-9);
}

}  // namespace
}  // namespace penstock::planner
