#include "engine_server/model_clock.h"

#include <gtest/gtest.h>

namespace penstock::engine_server {
namespace {

using namespace std::chrono_literals;

TEST(ModelClock, RunsAtItsRateAndChangesItWithoutAJump) {
  ModelClock clock{core::kStart + 10s, 4.0};
  EXPECT_EQ(clock.at(core::kStart + 11s), core::kStart + 4s);
  clock.set_rate(0.5, core::kStart + 11s);
  EXPECT_EQ(clock.at(core::kStart + 11s), core::kStart + 4s);
  EXPECT_EQ(clock.at(core::kStart + 13s), core::kStart + 5s);
}

TEST(ModelClock, NeverWakesTooEarly) {
  for (const double rate : {0.3, 1.0, 3.7, 100.0, 12'345.6}) {
    const ModelClock clock{core::kStart, rate};
    for (std::int64_t i = 1; i < 2000; ++i) {
      const core::Instant time{core::Duration{i * 7'919}};
      const core::Instant wall{core::Duration{i}};
      ASSERT_GE(clock.at(wall + clock.wait(time, wall)), time) << rate << " " << i;
    }
  }
}

TEST(ModelClock, DoesNotWaitForPastTimes) {
  const ModelClock clock{core::kStart, 2.0};
  EXPECT_EQ(clock.wait(core::kStart + 2s, core::kStart + 1s), core::Duration{});
  EXPECT_EQ(clock.wall_time(10s), 5s);
}

}  // namespace
}  // namespace penstock::engine_server
