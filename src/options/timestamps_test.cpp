#include "options/timestamps.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace penstock::options {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Timestamps, AreCountedFrom1970) {
  EXPECT_EQ(parse_timestamp("1970-01-01T00:00:00Z"), core::Duration{});
  EXPECT_EQ(parse_timestamp("2024-05-13T08:00:00Z"), core::Duration{seconds{1'715'587'200}});
  EXPECT_EQ(parse_timestamp("2024-02-29T23:59:59.25Z"),
            core::Duration{seconds{1'709'251'199}} + std::chrono::milliseconds{250});
}

TEST(Timestamps, AreReadBackAsTheyAreWritten) {
  core::RandomStream random{7};
  for (int i = 0; i < 1000; ++i) {
    const core::Duration moment{static_cast<std::int64_t>(random.below(7'000'000'000)) * 1'000'000'000 +
                                (i % 2 == 0 ? 0 : static_cast<std::int64_t>(random.below(1'000'000'000)))};
    EXPECT_EQ(parse_timestamp(format_timestamp(moment)), moment) << format_timestamp(moment);
  }
}

TEST(Timestamps, NonsenseIsRefused) {
  for (const char* text :
       {"", "yesterday", "2024-05-13", "2024-05-13T08:00:00", "2024-05-13T08:00:00+02:00", "2024-05-13 08:00:00Z",
        "2024-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z", "2024-00-10T00:00:00Z",
        "2024-05-13T24:00:00Z", "2024-05-13T08:60:00Z", "2024-05-13T08:00:60Z", "1969-12-31T23:59:59Z",
        "2200-01-01T00:00:00Z", "2024-05-13T08:00:00.Z", "2024-05-13T08:00:00.1234567890Z", "2024-5-13T08:00:00Z",
        "2024-05-13T08:00:00ZZ"})
    EXPECT_FALSE(parse_timestamp(text)) << text;
}

TEST(Timestamps, ARefusalSaysWhatIsWrong) {
  EXPECT_EQ(
      parse_timestamp("2024-05-13T08:00:00+02:00").error().message(),
      "must be a timestamp such as 2024-05-13T08:00:00Z, is '2024-05-13T08:00:00+02:00'; write it in UTC, with a Z at "
      "the end");
  EXPECT_NE(parse_timestamp("2023-02-29T00:00:00Z").error().message().find("there is no such day"), std::string::npos);
}

TEST(UtcOffsets, HaveASignOrNone) {
  EXPECT_EQ(parse_utc_offset("+02:00"), core::Duration{hours{2}});
  EXPECT_EQ(parse_utc_offset("-03:30"), core::Duration{-hours{3} - minutes{30}});
  EXPECT_EQ(parse_utc_offset("05:45"), core::Duration{hours{5} + minutes{45}});
  EXPECT_EQ(parse_utc_offset("2h"), core::Duration{hours{2}});
  EXPECT_EQ(parse_utc_offset("-1h30m"), core::Duration{-minutes{90}});
  EXPECT_EQ(parse_utc_offset("Z"), core::Duration{});
  EXPECT_EQ(format_utc_offset(-minutes{210}), "-03:30");
  EXPECT_EQ(format_utc_offset({}), "+00:00");
}

TEST(UtcOffsets, EveryOneIsReadBackAsItIsWritten) {
  for (minutes offset{-720}; offset <= minutes{840}; ++offset)
    EXPECT_EQ(parse_utc_offset(format_utc_offset(offset)), core::Duration{offset}) << offset.count();
}

TEST(UtcOffsets, NonsenseIsRefused) {
  for (const char* text :
       {"", "+", "2", "+2:00", "+02:60", "+14:01", "-12:01", "30s", "+02:00:00", "--02:00", "CET", "+02-00", "2h1s"})
    EXPECT_FALSE(parse_utc_offset(text)) << text;
}

}  // namespace
}  // namespace penstock::options
