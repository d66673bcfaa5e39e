#include "forecast/intake.h"

#include <gtest/gtest.h>

#include <limits>

#include "forecast/forecast_testing.h"

namespace penstock::forecast {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

Intake make_intake() { return Intake(seconds{10}, hours{1}); }

TEST(Intake, CountsStepsAndLeavesHolesForMissingIntervals) {
  Intake intake = make_intake();
  EXPECT_EQ(intake.accept({at_s(5), 1.0})->step, 0);
  EXPECT_EQ(intake.accept({at_s(15), 1.0})->step, 1);
  EXPECT_EQ(intake.accept({at_s(45), 1.0})->step, 4);
  EXPECT_EQ(intake.rejections().total(), 0U);
}

TEST(Intake, ToleratesLateTicksWithoutAddingThemUp) {
  Intake intake = make_intake();
  for (int i = 0; i < 100; ++i) {
    const auto point = intake.accept({at_s(10.0 * i + (i % 2 == 0 ? 3.0 : 0.0)), 1.0});
    ASSERT_TRUE(point.has_value());
    EXPECT_EQ(point->step, i);
  }
}

TEST(Intake, RejectsInvalidValues) {
  Intake intake = make_intake();
  EXPECT_FALSE(intake.accept({at_s(10), std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_FALSE(intake.accept({at_s(10), std::numeric_limits<double>::infinity()}));
  EXPECT_FALSE(intake.accept({at_s(10), -1.0}));
  EXPECT_FALSE(intake.accept({at_s(10), 1e13}));
  EXPECT_FALSE(intake.last());
  EXPECT_EQ(intake.rejections().not_finite, 2U);
  EXPECT_EQ(intake.rejections().out_of_range, 2U);
}

TEST(Intake, RefusesTimeThatStandsOrGoesBack) {
  Intake intake = make_intake();
  EXPECT_TRUE(intake.accept({at_s(100), 1.0}));
  EXPECT_FALSE(intake.accept({at_s(100), 2.0}));
  EXPECT_FALSE(intake.accept({at_s(50), 2.0}));
  EXPECT_EQ(intake.rejections().out_of_order, 2U);
  EXPECT_EQ(intake.last()->value, 1.0);
}

TEST(Intake, RefusesOneSampleOfAClockThatJumpsAndReturns) {
  Intake intake = make_intake();
  EXPECT_TRUE(intake.accept({at_s(10), 1.0}));
  EXPECT_FALSE(intake.accept({at_s(90'000), 1.0}));
  EXPECT_EQ(intake.accept({at_s(20), 1.0})->step, 1);
  EXPECT_EQ(intake.rejections().time_jumps, 1U);
}

TEST(Intake, AcceptsALastingClockJump) {
  for (const double jump_s : {90'000.0, -90'000.0}) {
    Intake intake = make_intake();
    EXPECT_TRUE(intake.accept({at_s(10), 1.0}));
    for (int i = 0; i < Intake::kSamplesForJump; ++i)
      EXPECT_FALSE(intake.accept({at_s(jump_s + 10.0 * i), 1.0})) << jump_s;
    const auto point = intake.accept({at_s(jump_s + 10.0 * Intake::kSamplesForJump), 1.0});
    ASSERT_TRUE(point.has_value()) << jump_s;
    EXPECT_EQ(point->step, 1);
    EXPECT_TRUE(point->after_jump);
    EXPECT_EQ(intake.accept({at_s(jump_s + 10.0 * Intake::kSamplesForJump + 20.0), 1.0})->step, 3);
  }
}

TEST(Intake, RejectsTimesWhoseDifferencesOverflow) {
  Intake intake = make_intake();
  EXPECT_FALSE(intake.accept({core::kNever, 1.0}));
  EXPECT_FALSE(intake.accept({core::Instant::min(), 1.0}));
  EXPECT_EQ(intake.rejections().time_jumps, 2U);
}

}  // namespace
}  // namespace penstock::forecast
