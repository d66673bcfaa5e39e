#include "core/result.h"

#include <gtest/gtest.h>

#include "core/time.h"

namespace penstock::core {
namespace {

TEST(Error, ReadsAsPlaceFaultAndHintOnOneLine) {
  EXPECT_EQ(invalid_input("trace.csv:17", "time goes back", "sort it").value().message(),
            "trace.csv:17: time goes back; sort it");
  EXPECT_EQ(environment_error("", "disk full").value().message(), "disk full");
  EXPECT_EQ(environment_error("", "disk full").value().code, ErrorCode::kEnvironment);
}

TEST(Assertion, NamesTheBugAndStops) {
  EXPECT_DEATH(PENSTOCK_ASSERT(1 + 1 == 3, "sums hold"), "penstock: bug at .*result_test.cpp:[0-9]+: sums hold");
}

TEST(Time, ConvertsToTheNearestNanosecond) {
  EXPECT_EQ(from_milliseconds(1.5).count(), 1'500'000);
  EXPECT_EQ(from_seconds(0.1).count(), 100'000'000);
  EXPECT_DOUBLE_EQ(to_milliseconds(Duration{2'500'000}), 2.5);
  EXPECT_DOUBLE_EQ(to_hours(std::chrono::minutes{90}), 1.5);
}

}  // namespace
}  // namespace penstock::core
