#include "planner/penstock/traffic_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "planner/penstock/trials_testing.h"

namespace penstock::planner {
namespace {

using testing::advance_at;
using testing::at_s;
using testing::kMeanOutput;
using testing::long_tailed;
using testing::observed_at;
using testing::RecordedTrials;

// A memory, the traffic that it is shown, and the trials that it asks.
class Course {
 public:
  explicit Course(
      const MemoryOptions& options = {},
      RecordedTrials::Share share = [](double replicas, core::Instant) { return replicas / 20.0; })
      : trials(std::make_shared<RecordedTrials>(std::move(share))), memory(trials, options) {}

  void arrive(double to_s, double rate_per_s) {
    testing::add_requests(requests_, arrived_s_, to_s, rate_per_s);
    arrived_s_ = to_s;
  }
  void tick(double at) { memory.begin_tick(observed_at(at, requests_)); }
  void advance(double at) {
    tick(at);
    memory.advance();
  }
  // Every half a minute.
  void go_on(double to_s, double rate_per_s) {
    const double from_s = arrived_s_;
    arrive(to_s, rate_per_s);
    for (double at = from_s + 30.0; at <= to_s; at += 30.0) advance(at);
  }
  // When the judged times of the slices begin that a fleet had to be tried on, the newest first.
  std::vector<double> tried_on(const Fleet& fleet) {
    trials->attempts.clear();
    EXPECT_TRUE(memory.outcome(fleet).has_value());
    std::vector<double> begins;
    for (const RecordedTrials::Attempt& attempt : trials->attempts) begins.push_back(attempt.judged_from_s);
    return begins;
  }

  std::shared_ptr<RecordedTrials> trials;
  TrafficMemory memory;

 private:
  std::vector<signals::RecentRequest> requests_;
  double arrived_s_ = 0.0;
};

const MemoryOptions kNoLimit{.slice_least = std::chrono::seconds{60},
                             .slice_most = std::chrono::minutes{5},
                             .slice_requests = 3000,
                             .tick_requests = 100'000'000};
using Begins = std::vector<double>;

TEST(TrafficMemory, ASliceOfManyRequestsClosesAfterTheLeastTime) {
  Course run{kNoLimit};
  run.go_on(90, 100);  // 6000 in a minute
  EXPECT_EQ(run.tried_on({10}), (Begins{60, 0}));
}

TEST(TrafficMemory, ASliceOfFewRequestsClosesAfterTheMostTime) {
  Course run{kNoLimit};
  run.go_on(270, 2);
  EXPECT_EQ(run.tried_on({10}), Begins{0});
  run.go_on(330, 2);
  EXPECT_EQ(run.tried_on({10}), (Begins{300, 0}));
}

TEST(TrafficMemory, AClosedSliceIsTriedOnceWithAFleet) {
  Course run{kNoLimit};
  run.go_on(150, 100);
  EXPECT_EQ(run.tried_on({10}), (Begins{120, 60, 0}));
  EXPECT_EQ(run.tried_on({10}), Begins{});
  run.tick(151);
  EXPECT_EQ(run.tried_on({10}), Begins{});  // without advance() slices stay what they are
  run.advance(165);
  EXPECT_EQ(run.tried_on({10}), Begins{120});  // the open one is another now
  EXPECT_EQ(run.tried_on({12}), (Begins{120, 60, 0}));
}

TEST(TrafficMemory, EverythingIsTriedAgainWhenTrialsChange) {
  Course run{kNoLimit};
  run.go_on(150, 100);
  (void)run.tried_on({10});
  run.memory.forget_outcomes();
  EXPECT_EQ(run.tried_on({10}), (Begins{120, 60, 0}));
}

TEST(TrafficMemory, ARestoredSliceCountsOnlyIfItsRequestsAreRemembered) {
  Course run{kNoLimit};
  run.go_on(150, 100);
  (void)run.tried_on({10});
  core::StateArchive saved;
  run.memory.archive(saved);
  const auto restored_with = [&](double from_s) {
    Course after{kNoLimit};
    core::StateArchive read{saved.text()};
    after.memory.archive(read);
    EXPECT_TRUE(read.finish());
    std::vector<signals::RecentRequest> requests;
    testing::add_requests(requests, from_s, 160, 100);
    after.memory.begin_tick(observed_at(160, requests));
    EXPECT_EQ(after.memory.outcome({10})->all.requests, static_cast<double>(after.memory.requests()));
    return after.tried_on({12});
  };
  EXPECT_EQ(restored_with(0), (Begins{120, 60, 0}));
  EXPECT_EQ(restored_with(70), (Begins{120, 60}));
  EXPECT_EQ(restored_with(155), Begins{});
}

TEST(TrafficMemory, ForgetsWhatIsOlderThanItsLength) {
  Course run{kNoLimit};
  run.go_on(1500, 2);
  EXPECT_EQ(run.tried_on({10}), (Begins{1200, 900, 600, 300}));
  EXPECT_EQ(run.memory.requests(), 2400U);
}

TEST(TrafficMemory, ForgetsEarlierWhereThereAreEnoughRequests) {
  Course run{kNoLimit};
  run.go_on(360, 100);
  EXPECT_EQ(run.tried_on({10}), (Begins{300, 240, 180, 120, 60}));
  // 8000 and the oldest slice's are less than there are in 20 minutes of 10 a second.
  Course fewer{kNoLimit};
  fewer.go_on(1500, 10);
  EXPECT_EQ(fewer.tried_on({10}), (Begins{1200, 900, 600}));  // 9000, of which 6000 would be too few
}

TEST(TrafficMemory, SumsWeighSlicesByTheirRequests) {
  // A slice of 100 a minute of which half are kept, one of 300 a minute of which all are, and an open one of a quarter.
  Course run{kNoLimit, [](double, core::Instant from) {
               return from < at_s(300) ? 0.5 : from < at_s(600) ? 1.0 : 0.25;
             }};
  run.go_on(300, 100.0 / 60);
  run.go_on(600, 300.0 / 60);
  run.go_on(660, 400.0 / 60);
  const TrialOutcome outcome = run.memory.outcome({10}).value();
  EXPECT_NEAR(outcome.all.requests, 500 + 1500 + 400, 1e-6);
  EXPECT_NEAR(outcome.all.met, 250 + 1500 + 100, 1e-6);
  EXPECT_NEAR(outcome.itl.met, 1850, 1e-6);
}

TEST(TrafficMemory, ACutTrialStandsForItsWholeSlice) {
  Course run{kNoLimit, [](double, core::Instant from) { return from < at_s(60) ? 0.5 : 1.0; }};
  run.go_on(60, 1000);
  run.go_on(120, 100);
  const TrialOutcome outcome = run.memory.outcome({10}).value();
  EXPECT_NEAR(outcome.all.requests, 66'000, 1e-6);
  EXPECT_NEAR(outcome.all.met, 36'000, 1e-6);
  for (const RecordedTrials::Attempt& attempt : run.trials->attempts)
    EXPECT_LE(static_cast<double>(attempt.requests) * attempt.rate_factor, 6200.0);  // Twice what a trial serves.
}

TEST(TrafficMemory, AMinuteWithoutRequestsCostsNothing) {
  Course run{kNoLimit};
  run.go_on(300, 0);
  EXPECT_EQ(run.tried_on({10}), Begins{});
  EXPECT_EQ(run.memory.outcome({10})->all.requests, 0.0);
  EXPECT_EQ(run.memory.requests(), 0U);
  EXPECT_EQ(run.memory.rate(), 0.0);
}

TEST(TrafficMemory, TheWorkOfATickIsBounded) {
  Course run{{.slice_least = std::chrono::seconds{60}, .slice_most = std::chrono::minutes{5}, .tick_requests = 5000}};
  run.go_on(300, 50);  // five slices of 3000 requests, with 1500 more to warm up
  run.trials->attempts.clear();
  int ticks = 0;
  std::optional<TrialOutcome> outcome;
  while (!outcome) {
    run.tick(300);
    const std::size_t before = run.trials->attempts.size();
    outcome = run.memory.outcome({3});
    EXPECT_LE(run.trials->attempts.size() - before, 2U);  // 4500, and one that goes over it
    if (!outcome) {
      EXPECT_FALSE(run.memory.outcome({3}).has_value());  // not in this tick
    }
    ASSERT_LT(++ticks, 10);
  }
  EXPECT_EQ(ticks, 3);
  EXPECT_EQ(run.trials->attempts.size(), 5U);  // none twice
  EXPECT_EQ(outcome->all.requests, 15'000.0);
  run.tick(300);
  EXPECT_EQ(run.memory.outcome({3})->all.met, outcome->all.met);
}

TEST(TrafficMemory, KnownOutcomesCostNoWork) {
  Course run{{.slice_least = std::chrono::seconds{60}, .slice_most = std::chrono::minutes{5}, .tick_requests = 1}};
  run.go_on(60, 50);
  EXPECT_TRUE(run.memory.outcome({3}).has_value());
  EXPECT_TRUE(run.memory.outcome({3}).has_value());
  EXPECT_FALSE(run.memory.outcome({10}).has_value());
}

TEST(TrafficMemory, ASmallFleetWithItsShareOfTheTrafficStandsForALargeOne) {
  Course run{kNoLimit};
  run.go_on(120, 100);  // the second slice: 6000 requests and 3000 to warm up, thrice what a trial serves
  struct Case {
    std::uint32_t fleet, serving;
    double rate_factor;
  };
  for (const Case& expected : {Case{30, 10, 1.0 / 3}, Case{31, 10, 10.0 / 31}, Case{10, 3, 0.3}, Case{5, 3, 0.6}}) {
    run.memory.forget_outcomes();
    run.trials->attempts.clear();
    EXPECT_NEAR(run.memory.outcome({expected.fleet})->all.attainment(), std::min(1.0, expected.fleet / 20.0), 1e-9);
    const RecordedTrials::Attempt& attempt = run.trials->attempts.front();
    EXPECT_EQ(attempt.replicas, Fleet{expected.serving}) << expected.fleet;
    EXPECT_NEAR(attempt.rate_factor, expected.rate_factor, 1e-12);
    EXPECT_EQ(attempt.judged_from_s, 60.0);
    EXPECT_NEAR(attempt.first_s, 30.0, 0.1);  // Some that arrived just before wait.
  }
}

TEST(TrafficMemory, AFleetTooSmallToScaleDownServesTheEndOfTheSlice) {
  Course run{kNoLimit};
  run.go_on(120, 100);
  (void)run.memory.outcome({2});
  const RecordedTrials::Attempt& attempt = run.trials->attempts.front();
  EXPECT_EQ(attempt.replicas, Fleet{2});
  EXPECT_EQ(attempt.rate_factor, 1.0);
  EXPECT_NEAR(static_cast<double>(attempt.requests), 6000.0, 100.0);  // The memory has 9000 requests.
  EXPECT_NEAR(attempt.judged_from_s, 80.5, 0.5);                      // A third of a minute warms up.
}

TEST(TrafficMemory, FleetsOfSeveralPoolsServeThemselves) {
  Course run{kNoLimit};
  run.go_on(60, 100);
  (void)run.memory.outcome({30, 40});
  EXPECT_EQ(run.trials->attempts.front().replicas, (Fleet{30, 40}));
  EXPECT_EQ(run.trials->attempts.front().rate_factor, 1.0);
}

TEST(TrafficMemory, AFleetLargerThanAPerfectOneIsNotTried) {
  Course run{kNoLimit};
  run.go_on(60, 5);
  (void)run.tried_on({20});
  EXPECT_EQ(run.tried_on({21}), Begins{});
  EXPECT_EQ(run.memory.outcome({90})->all.attainment(), 1.0);
  EXPECT_EQ(run.tried_on({19}), Begins{0});
}

TEST(TrafficMemory, AFleetSmallerThanAnOverloadedOneIsNotTried) {
  Course run{kNoLimit};
  run.go_on(60, 5);
  (void)run.tried_on({9});
  EXPECT_EQ(run.tried_on({5}), Begins{});
  EXPECT_NEAR(run.memory.outcome({1})->all.attainment(), 0.45, 1e-9);
  EXPECT_EQ(run.tried_on({12}), Begins{0});
  EXPECT_EQ(run.tried_on({11}), Begins{0});  // 12 keeps 60 %
}

TEST(TrafficMemory, NoShortcutIsTakenWithSeveralPools) {
  Course run{kNoLimit};
  run.go_on(60, 5);
  EXPECT_EQ(run.tried_on({20, 20}), Begins{0});
  EXPECT_EQ(run.tried_on({21, 21}), Begins{0});
  EXPECT_EQ(run.tried_on({4, 4}), Begins{0});
  EXPECT_EQ(run.tried_on({3, 30}), Begins{0});
}

TEST(TrafficMemory, ReportsItsRequestsAndTheirRate) {
  Course run{kNoLimit};
  run.go_on(300, 2);
  run.go_on(420, 5);
  EXPECT_EQ(run.memory.requests(), 1200U);
  EXPECT_NEAR(run.memory.rate(), 1200.0 / 420, 1e-9);
}

TEST(TrafficMemory, LooksBackUntilTheRateFell) {
  Course run{kNoLimit};
  run.go_on(300, 10);
  run.go_on(420, 2);
  const auto requests = [&] {
    run.memory.look_back(std::chrono::minutes{2}, 8000);
    return run.memory.requests();
  };
  EXPECT_EQ(requests(), 3240U) << "a fall counts after three minutes";
  run.go_on(480, 2);
  EXPECT_EQ(requests(), 360U);
  EXPECT_EQ(run.memory.used(), std::chrono::minutes{3});
  run.memory.look_back(std::chrono::minutes{4}, 8000);
  EXPECT_GT(run.memory.requests(), 360U) << "at least the time that is asked for";
}

TEST(TrafficMemory, ASmallerFallOrFewRequestsSinceDoNotEndIt) {
  for (const double after : {5.0, 0.5}) {
    Course run{kNoLimit};
    run.go_on(300, 10);
    run.go_on(600, after);
    run.memory.look_back(std::chrono::minutes{2}, 8000);
    EXPECT_EQ(run.memory.used(), std::chrono::minutes{10}) << after;
  }
}

TEST(TrafficMemory, TrafficBeforeTheFirstTickCounts) {
  Course run{kNoLimit};
  run.arrive(3000, 2);
  run.advance(3000);
  EXPECT_EQ(run.memory.requests(), 2400U);
  EXPECT_NEAR(run.memory.rate(), 2.0, 1e-9);
  EXPECT_EQ(run.tried_on({10}).size(), 1U);
}

TEST(TrafficMemory, StartsAfreshWhenTheClockGoesBack) {
  Course run{kNoLimit};
  run.go_on(600, 2);
  run.advance(100);
  EXPECT_EQ(run.memory.requests(), 0U);
  EXPECT_EQ(run.tried_on({10}), Begins{});
  run.advance(160);
  EXPECT_EQ(run.memory.requests(), 120U);
  EXPECT_EQ(run.tried_on({10}), Begins{100});
}

TEST(TrafficMemory, RemembersOutcomesByTheRateTheyAreFor) {
  Course run{kNoLimit};
  run.go_on(60, 10);
  const double once = run.memory.outcome({10})->all.attainment();
  run.trials->attempts.clear();
  EXPECT_EQ(run.memory.outcome_at({10}, 1.0)->all.attainment(), once);
  EXPECT_TRUE(run.trials->attempts.empty());
  (void)run.memory.outcome_at({10}, 1.5);
  (void)run.memory.outcome_at({10}, 1.51);  // the same twentieth
  ASSERT_EQ(run.trials->attempts.size(), 1U);
  EXPECT_NEAR(run.trials->attempts.front().rate_factor, 1.5, 1e-12);
}

TEST(TrafficMemory, OutputLengthsOfOpenRequestsAreNotBiasedTowardsShortOnes) {
  const auto requests = long_tailed(120, 50, 120);
  // In the last 30 s nearly no long output has ended: lengths of the completed ones say a ninth of the truth.
  double completed = 0.0, tokens = 0.0;
  for (const auto& request : requests)
    if (request.arrival > at_s(90) && request.output_tokens > 0) {
      ++completed;
      tokens += request.output_tokens;
    }
  EXPECT_LT(tokens / completed, 0.15 * kMeanOutput);
  signals::Observation observation;
  observation.now = at_s(120);
  observation.recent = requests;
  auto trials = std::make_shared<RecordedTrials>([](double, core::Instant) { return 1.0; });
  TrafficMemory memory{trials, {.slice_least = std::chrono::seconds{30}, .tick_requests = 1'000'000}};
  memory.begin_tick(observation);
  memory.advance();
  ASSERT_TRUE(memory.outcome({1}).has_value());
  const RecordedTrials::Attempt& attempt = trials->attempts.front();
  EXPECT_NEAR(static_cast<double>(attempt.output_tokens) / static_cast<double>(attempt.requests), kMeanOutput,
              0.1 * kMeanOutput);
}

TEST(TrafficMemory, ATrialBeginsWithTheRequestsThatRan) {
  const auto requests = long_tailed(300, 10, 300);
  auto trials = std::make_shared<RecordedTrials>([](double, core::Instant) { return 1.0; });
  TrafficMemory memory{
      trials,
      {.slice_least = std::chrono::seconds{30}, .slice_most = std::chrono::seconds{60}, .tick_requests = 1'000'000}};
  advance_at({175.0, 260.0, 300.0}, requests, memory);
  ASSERT_TRUE(memory.outcome({1}).has_value());
  // By Little's law 2 long ones a second run for 40 s, and 8 short ones for a second.
  const RecordedTrials::Attempt& attempt = trials->attempts.at(1);
  EXPECT_EQ(attempt.judged_from_s, 175.0);
  EXPECT_NEAR(static_cast<double>(attempt.running), 88.0, 20.0);
  EXPECT_LE(attempt.first_s, 175.0 - 39.0);  // 90 % of requests take up to 40 s.
}

TEST(TrafficMemory, ATrialKnowsThePromptsThatWereComputedBefore) {
  auto trials = std::make_shared<RecordedTrials>([](double, core::Instant) { return 0.7; });
  TrafficMemory memory{trials,
                       {.slice_least = std::chrono::seconds{30},
                        .slice_most = std::chrono::seconds{60},
                        .cached_requests = 40,
                        .tick_requests = 1'000'000}};
  const std::vector<std::uint32_t> blocks = {1, 2, 3};
  std::vector<signals::RecentRequest> requests;
  testing::add_requests(requests, 0, 120, 1);
  for (std::size_t i = 0; i < requests.size(); ++i)
    if (i % 2 == 0) requests[i].block_ids = blocks;  // The others share nothing.
  requests[0].ttft_ms = 200'000.0F;                  // It waits all the time.
  advance_at({30.0, 60.0, 90.0, 120.0}, requests, memory);
  ASSERT_TRUE(memory.outcome({3}).has_value());
  std::vector<std::size_t> earlier;
  for (const auto& attempt : trials->attempts) earlier.push_back(attempt.earlier);
  // The slices of 60 to 120 s and of 0 to 60 s, with a warm-up of half their length.
  EXPECT_EQ(earlier, (std::vector<std::size_t>{14, 0}));
}

TEST(TrafficMemory, AClosedSliceIsTriedAgainOnceMostOfItsOpenRequestsHaveEnded) {
  auto trials = std::make_shared<RecordedTrials>([](double, core::Instant) { return 0.7; });
  TrafficMemory memory{trials,
                       {.length = std::chrono::minutes{2},
                        .slice_least = std::chrono::seconds{30},
                        .slice_most = std::chrono::seconds{30},
                        .tick_requests = 1'000'000}};
  std::vector<signals::RecentRequest> requests;
  const auto tries = [&](double now) {
    requests = long_tailed(now, 10, now);
    signals::Observation observation;
    observation.now = at_s(now);
    observation.recent = requests;
    memory.begin_tick(observation);
    memory.advance();
    trials->attempts.clear();
    EXPECT_TRUE(memory.outcome({3}).has_value());
    std::vector<double> begins;
    for (const auto& attempt : trials->attempts) begins.push_back(attempt.judged_from_s);
    return begins;
  };
  EXPECT_EQ(tries(30), Begins{0});
  EXPECT_EQ(tries(35), Begins{30});
  EXPECT_EQ(tries(60), Begins{30});       // A third of its long outputs has not ended.
  EXPECT_EQ(tries(75), (Begins{60, 0}));  // The last third of its long outputs has ended.
}

// Three replicas served it, of which a trial finds a quarter of the attainment each.
std::optional<TrialCheck> check_of_three(double factor, std::vector<Fleet>& tried) {
  auto trials = std::make_shared<RecordedTrials>([](double replicas, core::Instant) { return replicas / 4.0; });
  TrafficMemory memory{trials, {.slice_least = std::chrono::seconds{30}, .slice_most = std::chrono::seconds{60}}};
  std::vector<signals::RecentRequest> requests;
  testing::add_requests(requests, 0, 400, 2);
  for (std::size_t i = 0; i < requests.size(); i += 10) requests[i].ttft_ms = 5000.0F;
  std::optional<TrialCheck> found;
  for (double now = 0.0; now <= 400.0 && !found; now += 5.0) {
    signals::Observation observation = observed_at(now, requests);
    observation.pools = {testing::pool_of(3, {})};
    observation.pools[0].draining = 0;
    memory.begin_tick(observation);
    memory.advance();
    found = memory.check({}, factor);
  }
  for (const RecordedTrials::Attempt& attempt : trials->attempts) tried.push_back(attempt.replicas);
  return found;
}

TEST(TrafficMemory, ChecksAClosedSliceWithTheFleetThatServedIt) {
  std::vector<Fleet> tried;
  const auto found = check_of_three(1.0, tried);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->observed, 0.9, 0.005);
  EXPECT_DOUBLE_EQ(found->trial, 0.75);
  EXPECT_EQ(tried, std::vector<Fleet>{Fleet{3}});
}

TEST(TrafficMemory, ACheckDividesTheFleetByTheCorrection) {
  for (const auto& [factor, trial] :
       {std::pair{1.5, 0.5}, std::pair{1.2, 0.625}, std::pair{0.8, 0.9375}, std::pair{4.0, 0.1875}}) {
    std::vector<Fleet> tried;
    const auto found = check_of_three(factor, tried);
    ASSERT_TRUE(found.has_value());
    EXPECT_NEAR(found->trial, trial, 1e-9) << factor;
  }
}

}  // namespace
}  // namespace penstock::planner
