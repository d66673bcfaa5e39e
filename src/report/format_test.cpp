#include "report/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace penstock::report {
namespace {

TEST(Format, GroupsTheDigitsOfACount) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(8819), "8,819");
  EXPECT_EQ(format_count(std::numeric_limits<std::uint64_t>::max()), "18,446,744,073,709,551,615");
}

TEST(Format, RoundsNoShareToAllOrNothing) {
  EXPECT_EQ(format_share(-0.0), "0.0 %");
  EXPECT_EQ(format_share(0.0), "0.0 %");
  EXPECT_EQ(format_share(1e-9), "<0.1 %");
  EXPECT_EQ(format_share(0.971), "97.1 %");
  EXPECT_EQ(format_share(0.99999), "99.9 %");
  EXPECT_EQ(format_share(1.0), "100.0 %");
}

TEST(Format, ShowsAllDigitsOfAGoal) {
  EXPECT_EQ(format_goal(0.95), "95.0 %");
  EXPECT_EQ(format_goal(0.99), "99.0 %");
  EXPECT_EQ(format_goal(0.995), "99.5 %");
  EXPECT_EQ(format_goal(0.9999), "99.99 %");
  EXPECT_EQ(format_goal(0.99995), "99.995 %");
  EXPECT_EQ(format_goal(0.0), "0.0 %");
  EXPECT_EQ(format_goal(NAN), "–");
}

TEST(Format, ShowsThreeDigitsOfALatency) {
  EXPECT_EQ(format_milliseconds(0.25), "0.25 ms");
  EXPECT_EQ(format_milliseconds(12.34), "12.3 ms");
  EXPECT_EQ(format_milliseconds(214.4), "214 ms");
  EXPECT_EQ(format_milliseconds(999.7), "1.00 s");
  EXPECT_EQ(format_milliseconds(1420.0), "1.42 s");
  EXPECT_EQ(format_milliseconds(2140000.0), "2,140 s");
}

TEST(Format, WritesDurationsInTwoUnits) {
  EXPECT_EQ(format_seconds(0.05), "50 ms");
  EXPECT_EQ(format_seconds(45.0), "45 s");
  EXPECT_EQ(format_seconds(60.0), "1 min");
  EXPECT_EQ(format_seconds(3598.0), "59 min 58 s");
  EXPECT_EQ(format_seconds(3600.0), "1 h");
  EXPECT_EQ(format_seconds(7500.0), "2 h 5 min");
  EXPECT_EQ(format_seconds(86400.0 * 2.5), "2 d 12 h");
}

TEST(Format, NeverShowsSixtySecondsOrAThousandMilliseconds) {
  EXPECT_EQ(format_seconds(0.9999), "1 s");
  EXPECT_EQ(format_seconds(59.99), "1 min");
  EXPECT_EQ(format_seconds(3599.9), "1 h");
}

TEST(Format, ScalesQuantities) {
  EXPECT_EQ(format_quantity(0.0), "0.00");
  EXPECT_EQ(format_quantity(-0.0), "0.00");
  EXPECT_EQ(format_quantity(-0.004), "0.00");
  EXPECT_EQ(format_quantity(-0.42), "-0.42");
  EXPECT_EQ(format_quantity(0.42), "0.42");
  EXPECT_EQ(format_quantity(12.42), "12.4");
  EXPECT_EQ(format_quantity(999.7), "1000");
  EXPECT_EQ(format_quantity(41234.0), "41.2k");
  EXPECT_EQ(format_quantity(999999.0), "1.00M");
  EXPECT_EQ(format_quantity(2.5e9), "2.50G");
  EXPECT_EQ(format_quantity(-41234.0), "-41.2k");
}

TEST(Format, ShowsWhatIsUnknownAsADash) {
  EXPECT_EQ(format_share(NAN), "–");
  EXPECT_EQ(format_milliseconds(INFINITY), "–");
  EXPECT_EQ(format_seconds(-1.0), "–");
  EXPECT_EQ(format_quantity(NAN), "–");
  EXPECT_EQ(format_difference(1.0, 0.0), "–");
}

TEST(Format, SignsDifferences) {
  EXPECT_EQ(format_difference(1.45, 1.0), "+45 %");
  EXPECT_EQ(format_difference(0.88, 1.0), "−12 %");
  EXPECT_EQ(format_difference(1.001, 1.0), "±0 %");
}

TEST(Printable, KeepsTextOfAnyLanguage) { EXPECT_EQ(printable("señor 日本 🚰"), "señor 日本 🚰"); }

TEST(Printable, ReplacesControlCharacters) {
  EXPECT_EQ(printable("a\x1b[31mb\nc\x7f"), "a?[31mb?c?");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "?31m");  // the one-character form of the escape, U+009B
  EXPECT_EQ(printable("abc\xe2\x80\xae"
                      "def"),
            "abc?def");  // U+202E turns the direction of what follows
}

TEST(Printable, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\xff"), "?");
  EXPECT_EQ(printable("a\xc3"), "a?");
  EXPECT_EQ(printable("\xc0\xaf"), "??");       // an overlong slash
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");  // half of a surrogate pair
}

TEST(DisplayWidth, CountsCodePoints) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("–"), 1U);
  EXPECT_EQ(display_width("2→8"), 3U);
}

}  // namespace
}  // namespace penstock::report
