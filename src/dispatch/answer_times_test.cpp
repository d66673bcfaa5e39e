#include "dispatch/answer_times.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"

namespace penstock::dispatch {
namespace {

using namespace std::chrono_literals;

TEST(AnswerTimes, BeforeAnyAnswerTimesAreAssumedAndFewConcurrentRequestsAreAllowed) {
  const AnswerTimes times;
  EXPECT_EQ(times.answer_time(100), 1s + 3300ms);
  EXPECT_DOUBLE_EQ(times.itl_ms(8.0), 0.0);
  EXPECT_TRUE(std::isinf(times.itl_ms(9.0)));
}

TEST(AnswerTimes, TheItlIsALineOverConcurrentRequests) {
  AnswerTimes times;
  core::RandomStream random{1};
  for (int i = 0; i < 2'000; ++i) {
    const double concurrent = 1.0 + static_cast<double>(random.below(40));
    times.ended(concurrent, 10.0 + 0.5 * concurrent + random.uniform() - 0.5);
  }
  EXPECT_NEAR(times.itl_ms(10.0), 15.0, 0.3);
  EXPECT_NEAR(times.itl_ms(40.0), 30.0, 0.5);
  EXPECT_TRUE(std::isinf(times.itl_ms(60.0))) << "a quarter more than the most that were seen";
}

TEST(AnswerTimes, EqualLoadsKeepTheSlopeOfThePrior) {
  AnswerTimes times;
  for (int i = 0; i < 100; ++i) times.ended(20.0, 30.0);
  EXPECT_NEAR(times.itl_ms(20.0), 30.0, 1e-9);
  EXPECT_NEAR(times.itl_ms(24.0), 30.6, 1e-9);
}

TEST(AnswerTimes, AnAnswerTakesItsTtftAndItsTokens) {
  AnswerTimes times;
  times.first_token(200ms);
  for (int i = 0; i < 10; ++i) times.ended(4.0, 20.0);
  EXPECT_EQ(times.answer_time(100), 2200ms);
}

TEST(AnswerTimes, FiguresThatAreNoTimesChangeNothing) {
  AnswerTimes times;
  times.ended(4.0, 20.0);
  times.ended(4.0, NAN);
  times.ended(4.0, -1.0);
  times.ended(NAN, 20.0);
  times.ended(0.0, 20.0);
  EXPECT_DOUBLE_EQ(times.itl_ms(4.0), 20.0);
}

}  // namespace
}  // namespace penstock::dispatch
