#include "workload/fields.h"

#include <gtest/gtest.h>

namespace penstock::workload {
namespace {

using std::chrono::nanoseconds;

std::string tokens_fault(std::string_view text) {
  const auto tokens = parse_tokens("input_tokens", text);
  return tokens ? std::string{} : tokens.error();
}
std::string time_fault(std::string_view text, TimeUnit unit = TimeUnit::kSeconds) {
  const auto time = parse_time("t", text, unit);
  return time ? std::string{} : time.error();
}
std::int64_t time_ns(std::string_view text, TimeUnit unit = TimeUnit::kSeconds) {
  return parse_time("t", text, unit).value().count();
}
std::int64_t date_ns(std::string_view text) { return parse_date_time("TIMESTAMP", text).value().count(); }

TEST(Fields, TokensAreWholeNumbersFromOneToAHundredMillion) {
  EXPECT_EQ(parse_tokens("input_tokens", "1").value(), 1U);
  EXPECT_EQ(parse_tokens("input_tokens", "100000000").value(), 100'000'000U);
  EXPECT_EQ(parse_tokens("input_tokens", "812.0").value(), 812U);
  EXPECT_EQ(parse_tokens("prefix_tokens", "0", 0).value(), 0U);
}

TEST(Fields, InvalidTokensAreExplained) {
  EXPECT_EQ(tokens_fault(""), "input_tokens is blank");
  EXPECT_EQ(tokens_fault("0"), "input_tokens is 0, must be at least 1");
  EXPECT_EQ(tokens_fault("-5"), "input_tokens is -5, must be at least 1");
  EXPECT_EQ(tokens_fault("10.5"), "input_tokens \"10.5\" is not a whole number");
  EXPECT_EQ(tokens_fault("0.5"), "input_tokens \"0.5\" is not a whole number");
  EXPECT_EQ(tokens_fault("100000001"), "input_tokens is 100000001, must be at most 100000000");
  EXPECT_EQ(tokens_fault("99999999999999999999999"),
            "input_tokens is 99999999999999999999999, must be at most 100000000");
  EXPECT_EQ(tokens_fault("1e999"), "input_tokens is 1e999, must be at most 100000000");
  for (const std::string_view text : {"nan", "inf", "-inf", "abc", "12 3", "+4", "0x10", "1,000", "."})
    EXPECT_EQ(tokens_fault(text), "input_tokens \"" + std::string{text} + "\" is not a whole number");
}

TEST(Fields, TimesAreExactToTheNanosecond) {
  EXPECT_EQ(time_ns("0"), 0);
  EXPECT_EQ(time_ns("0.333"), 333'000'000);
  EXPECT_EQ(time_ns("1760428436.442742001"), 1'760'428'436'442'742'001);
  EXPECT_EQ(time_ns("1760428436442742", TimeUnit::kMicroseconds), 1'760'428'436'442'742'000);
  EXPECT_EQ(time_ns("1760428436442742123", TimeUnit::kNanoseconds), 1'760'428'436'442'742'123);
  EXPECT_EQ(time_ns("27482.5", TimeUnit::kMilliseconds), 27'482'500'000);
  EXPECT_EQ(time_ns("0.1234567899"), 123'456'789);
  EXPECT_EQ(time_ns("1e-05"), 10'000);
  EXPECT_EQ(time_ns("1.5e3"), 1'500'000'000'000);
  EXPECT_EQ(time_ns("1e-999"), 0);
}

TEST(Fields, InvalidTimesAreExplained) {
  EXPECT_EQ(time_fault(""), "t is blank");
  EXPECT_EQ(time_fault("-0.5"), "t is -0.5, must be at least 0");
  EXPECT_EQ(time_fault("9000000000"), "t is 9000000000, must be below 9000000000 seconds");
  EXPECT_EQ(time_fault("1e300"), "t is 1e300, must be below 9000000000 seconds");
  EXPECT_EQ(time_fault("1e999"), "t is 1e999, must be below 9000000000 seconds");
  EXPECT_EQ(time_fault("99999999999999999999", TimeUnit::kMicroseconds),
            "t is 99999999999999999999, must be below 9000000000000000 microseconds");
  for (const std::string_view text : {"nan", "inf", "-nan", "12s", "1.2.3", "--1", "2024-05-10 00:00:00"})
    EXPECT_EQ(time_fault(text), "t \"" + std::string{text} + "\" is not a number of seconds");
}

TEST(Fields, DatesAreTimeSince1970) {
  EXPECT_EQ(date_ns("1970-01-01 00:00:00"), 0);
  EXPECT_EQ(date_ns("2023-11-16 18:17:03.9799600"), 1'700'158'623'979'960'000);
  EXPECT_EQ(date_ns("2024-05-10 00:00:00.009930+00:00"), 1'715'299'200'009'930'000);
  EXPECT_EQ(date_ns("2024-05-10T00:00:00Z"), 1'715'299'200'000'000'000);
  EXPECT_EQ(date_ns("2024-05-10 02:30:00+02:30"), 1'715'299'200'000'000'000);
  EXPECT_EQ(date_ns("2024-05-09 19:00:00-0500"), 1'715'299'200'000'000'000);
  EXPECT_EQ(date_ns("2024-02-29 00:00:00"), 1'709'164'800'000'000'000);
}

TEST(Fields, DatesMayBeWrittenInOtherCommonWays) {
  for (const std::string_view text :
       {"2024-05-10T00:00:00.000Z", "2024-05-10 00:00", "2024/05/10 0:00:00", "2024-05-10, 00:00:00",
        "2024-05-10 00:00:00 UTC", "2024-05-10 00:00:00 +00:00", "2024-05-10 00:00:00+00", "2024-05-10 00:00:00,000",
        "2024-05-10 12:00:00 AM", "2024-05-10 12:00am"})
    EXPECT_EQ(date_ns(text), 1'715'299'200'000'000'000) << text;
  for (const std::string_view text : {"18/11/2026 09:00:00", "18.11.2026 9:00", "18-11-2026, 9:00:00 AM"})
    EXPECT_EQ(parse_date_time("t", text, DateOrder::kDayFirst), parse_date_time("t", "2026-11-18 09:00:00")) << text;
  for (const std::string_view text : {"11/18/2026 21:00:00", "11/18/2026, 9:00:00 PM"})
    EXPECT_EQ(parse_date_time("t", text, DateOrder::kMonthFirst), parse_date_time("t", "2026-11-18 21:00:00")) << text;
  EXPECT_FALSE(parse_date_time("t", "18/11/2026 09:00:00", DateOrder::kMonthFirst));
  EXPECT_FALSE(parse_date_time("t", "2026-11-18 09:00:00", DateOrder::kDayFirst));
}

TEST(Fields, InvalidDatesAreRefused) {
  for (const std::string_view text :
       {"XXX", "2023-11-16", "2023-02-29 00:00:00", "2023-13-01 00:00:00", "2023-11-16 24:00:00", "2023-11-16 10:60:00",
        "2023-11-16 10:00:60", "2023-11-16 10:00:00.", "2023-11-16 10:00:00.1234567890", "1969-12-31 23:59:59",
        "1970-01-01 00:00:00+01:00", "9999-01-01 00:00:00", "2023-11-16 10:00:00 CET", "2023-11-16 10:00:00+1",
        "2023-11-16 13:00 PM", "2023-11/16 10:00:00", "16-11-2023 10:00:00", "2023-11-16,10:00:00"})
    EXPECT_EQ(parse_date_time("TIMESTAMP", text).error(),
              "TIMESTAMP \"" + std::string{text} + "\" is not a date and time");
  EXPECT_EQ(parse_date_time("TIMESTAMP", "").error(), "TIMESTAMP is blank");
}

TEST(Fields, ZoneIsSeenBehindTheDateOnly) {
  EXPECT_TRUE(has_zone("2024-05-10 00:00:00.009930+00:00"));
  EXPECT_TRUE(has_zone("2024-05-10 00:00:00Z"));
  EXPECT_FALSE(has_zone("2023-11-16 18:17:03.9799600"));
  EXPECT_FALSE(has_zone(""));
}

TEST(Fields, TextInMessagesIsLimitedAndEscaped) {
  EXPECT_EQ(quoted_text("a\x1b[31m\nb\xff"), "\"a?[31m?b?\"");
  EXPECT_EQ(quoted_text(std::string(100, 'x')), '"' + std::string(60, 'x') + "...\"");
}

}  // namespace
}  // namespace penstock::workload
