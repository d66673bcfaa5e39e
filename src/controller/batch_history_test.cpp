#include "controller/batch_history.h"

#include <gtest/gtest.h>

#include <chrono>

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;

void run(BatchHistory& history, int from_minute, int minutes, double efficiency, double tokens_per_s) {
  for (int minute = from_minute; minute < from_minute + minutes; ++minute)
    for (const auto second : {0s, 30s})
      history.observe(core::kStart + std::chrono::minutes{minute} + second, efficiency, tokens_per_s);
}

TEST(BatchHistory, ComparesTenMinutesWithThoseOfAnHourAgo) {
  BatchHistory history;
  EXPECT_FALSE(history.at_no_less_load());
  run(history, 0, 30, 0.5, 100.0);
  EXPECT_FALSE(history.at_no_less_load()) << "nothing is known of an hour ago";
  run(history, 30, 40, 0.25, 95.0);
  const auto seen = history.at_no_less_load();
  ASSERT_TRUE(seen);
  EXPECT_DOUBLE_EQ(seen->now, 0.25);
  EXPECT_DOUBLE_EQ(seen->before, 0.5);
  run(history, 70, 60, 0.25, 95.0);
  EXPECT_DOUBLE_EQ(history.at_no_less_load()->before, 0.25) << "older minutes are forgotten";
}

TEST(BatchHistory, BatchesThatShrinkWithTheLoadAreNotCompared) {
  BatchHistory history;
  run(history, 0, 60, 0.5, 100.0);
  run(history, 60, 10, 0.25, 50.0);
  EXPECT_FALSE(history.at_no_less_load());
}

TEST(BatchHistory, UnknownIsNotZero) {
  BatchHistory history;
  run(history, 0, 10, 0.5, 100.0);
  history.observe(core::kStart + 65min, {}, 100.0);
  history.observe(core::kStart + 65min, 0.1, {});
  EXPECT_FALSE(history.at_no_less_load());
  run(history, 65, 4, 0.1, 100.0);
  EXPECT_FALSE(history.at_no_less_load()) << "four minutes of ten";
}

}  // namespace
}  // namespace penstock::controller
