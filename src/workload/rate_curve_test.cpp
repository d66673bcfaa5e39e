#include "workload/rate_curve.h"

#include <gtest/gtest.h>

namespace penstock::workload {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(RateCurve, EachShapeByHand) {
  struct Point {
    core::Duration at;
    double rate;
  };
  struct Row {
    RateCurve curve;
    std::vector<Point> points;
  };
  const std::vector<Row> rows = {
      {{RateShape::kConstant, 3.0, 9.0, {}, {}}, {{seconds{0}, 3.0}, {hours{1}, 3.0}}},
      {{RateShape::kRamp, 2.0, 12.0, minutes{1}, minutes{10}},
       {{seconds{0}, 2.0}, {minutes{1}, 2.0}, {minutes{6}, 7.0}, {minutes{11}, 12.0}, {hours{1}, 12.0}}},
      {{RateShape::kStep, 2.0, 12.0, minutes{5}, {}}, {{seconds{299}, 2.0}, {minutes{5}, 12.0}, {hours{1}, 12.0}}},
      {{RateShape::kBurst, 2.0, 12.0, minutes{5}, minutes{1}},
       {{seconds{299}, 2.0}, {minutes{5}, 12.0}, {seconds{359}, 12.0}, {minutes{6}, 2.0}}},
      {{RateShape::kDiurnal, 2.0, 12.0, {}, hours{24}},
       {{seconds{0}, 2.0}, {hours{6}, 7.0}, {hours{12}, 12.0}, {hours{18}, 7.0}, {hours{24}, 2.0}}},
      {{RateShape::kDiurnal, 2.0, 12.0, hours{4}, hours{24}}, {{hours{4}, 2.0}, {hours{16}, 12.0}, {hours{10}, 7.0}}},
  };
  for (const Row& row : rows)
    for (const Point& point : row.points)
      EXPECT_NEAR(row.curve.at_time(point.at), point.rate, 1e-9)
          << static_cast<int>(row.curve.shape) << " at " << core::to_seconds(point.at);
}

TEST(ExpectedArrivals, AddUpToTheAreaUnderTheCurve) {
  EXPECT_NEAR((ExpectedArrivals{{RateShape::kConstant, 3.0, 3.0, {}, {}}, minutes{1}}.all()), 180.0, 1e-9);
  EXPECT_NEAR((ExpectedArrivals{{RateShape::kRamp, 0.0, 6.0, seconds{10}, seconds{20}}, seconds{40}}.all()), 120.0,
              1e-9);
  EXPECT_NEAR((ExpectedArrivals{{RateShape::kStep, 1.0, 6.0, seconds{10}, {}}, seconds{40}}.all()), 190.0, 1e-9);
  EXPECT_NEAR((ExpectedArrivals{{RateShape::kBurst, 1.0, 6.0, seconds{10}, seconds{5}}, seconds{40}}.all()), 65.0,
              1e-9);
  EXPECT_NEAR((ExpectedArrivals{{RateShape::kDiurnal, 2.0, 6.0, hours{3}, hours{24}}, hours{24}}.all()), 4.0 * 86400.0,
              1e-6);
}

TEST(ExpectedArrivals, TimesAreTheInverseOfTheSumAndNeverGoBack) {
  const RateCurve curves[] = {
      {RateShape::kConstant, 3.0, 3.0, {}, {}},
      {RateShape::kRamp, 0.0, 20.0, minutes{5}, minutes{30}},
      {RateShape::kRamp, 20.0, 0.0, {}, hours{1}},
      {RateShape::kStep, 0.0, 6.0, minutes{10}, {}},
      {RateShape::kBurst, 0.0, 6.0, minutes{10}, minutes{5}},
      {RateShape::kBurst, 0.01, 600.0, minutes{10}, seconds{5}},
      {RateShape::kDiurnal, 0.0, 6.0, minutes{7}, minutes{20}},
  };
  for (const RateCurve& curve : curves) {
    ExpectedArrivals expected{curve, hours{1}};
    double last_s = 0.0;
    for (int step = 0; step < 1000; ++step) {
      const double count = expected.all() * step / 1000.0;
      const auto time_s = expected.time_s_of(count);
      ASSERT_TRUE(time_s.has_value());
      EXPECT_GE(*time_s, last_s);
      EXPECT_LE(*time_s, 3600.0);
      EXPECT_NEAR(expected.until(*time_s), count, 1e-6 * std::max(count, 1.0)) << static_cast<int>(curve.shape);
      last_s = *time_s;
    }
    EXPECT_FALSE(expected.time_s_of(expected.all()).has_value());
  }
}

TEST(ExpectedArrivals, AYearWithoutArrivalsIsSkipped) {
  ExpectedArrivals expected{{RateShape::kStep, 0.0, 1.0, hours{365 * 24}, {}}, kDurationMax};
  EXPECT_NEAR(*expected.time_s_of(1.0), 365.0 * 86400.0 + 1.0, 1e-3);
}

}  // namespace
}  // namespace penstock::workload
