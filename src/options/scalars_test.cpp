#include "options/scalars.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace penstock::options {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Durations, AreReadInEveryUnit) {
  const std::pair<const char*, core::Duration> cases[] = {
      {"120s", seconds{120}},
      {"50ms", milliseconds{50}},
      {"1h", hours{1}},
      {"1h30m", minutes{90}},
      {"2.5s", milliseconds{2500}},
      {"1d2h3m4s5ms", hours{26} + minutes{3} + seconds{4} + milliseconds{5}},
      {"0", {}},
      {"0s", {}},
      {"7us", core::Duration{7000}}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(parse_duration(text).value(), expected) << text;
}

TEST(Durations, WithoutUnitOrOrderAreRefused) {
  for (const char* text :
       {"120", "s", "", "-5s", "1s1s", "1s1m", "1h ", "5 s", "nan", "1e3s", "99999d", "1x", "1.s.", "infs"})
    EXPECT_FALSE(parse_duration(text)) << text;
  EXPECT_EQ(parse_duration("120").error().what, "needs a unit (ns, us, ms, s, m, h or d), is '120'");
}

TEST(Durations, AreWrittenAsTheyAreRead) {
  for (const char* text : {"120s", "50ms", "1h", "0s", "7us", "13ns", "5400s"})
    EXPECT_EQ(format_duration(parse_duration(text).value()), text);
}

TEST(Counts, AreDecimalWithoutSignOrLeadingZero) {
  EXPECT_EQ(parse_count("10", 0, 100).value(), 10U);
  EXPECT_EQ(parse_count("0", 0, 100).value(), 0U);
  EXPECT_EQ(parse_count("18446744073709551615", 0, UINT64_MAX).value(), UINT64_MAX);
  for (const char* text : {"010", "00", "-1", "+1", "1.0", "0x10", "1_000", "", " 1", "101", "18446744073709551616"})
    EXPECT_FALSE(parse_count(text, 0, 100)) << text;
  EXPECT_EQ(parse_count("010", 0, 100).error().message(),
            "must not begin with a zero, is '010'; some tools would read it as octal");
}

TEST(Numbers, MustBeFiniteAndInRange) {
  EXPECT_DOUBLE_EQ(parse_number("2.5", 0, 10).value(), 2.5);
  EXPECT_DOUBLE_EQ(parse_number("1e3", 0, 1e6).value(), 1000.0);
  for (const char* text : {"nan", ".nan", "inf", "-inf", ".inf", "1e999", "12", "-1", "1,5", "010", "", "0x1p3"})
    EXPECT_FALSE(parse_number(text, 0, 10)) << text;
}

TEST(Shares, AreFractionsOrPercent) {
  EXPECT_DOUBLE_EQ(parse_share("0.3").value(), 0.3);
  EXPECT_DOUBLE_EQ(parse_share("30%").value(), 0.3);
  EXPECT_DOUBLE_EQ(parse_share("100%").value(), 1.0);
  for (const char* text : {"30", "1.1", "101%", "-1%", "%", "nan%", "3 %"}) EXPECT_FALSE(parse_share(text)) << text;
}

TEST(Bytes, KnowDecimalAndBinaryUnits) {
  EXPECT_DOUBLE_EQ(parse_bytes("131072", false).value(), 131072.0);
  EXPECT_DOUBLE_EQ(parse_bytes("128KiB", false).value(), 131072.0);
  EXPECT_DOUBLE_EQ(parse_bytes("50GB/s", true).value(), 50e9);
  EXPECT_DOUBLE_EQ(parse_bytes("50GB", true).value(), 50e9);
  for (const char* text : {"", "KiB", "1KB", "0", "1GB/s", "1 GB", "1GB2", "-1B"})
    EXPECT_FALSE(parse_bytes(text, false)) << text;
  EXPECT_EQ(format_bytes(131072.0), "128KiB");
  EXPECT_EQ(format_bytes(50e9), "50GB");
}

TEST(Ranges, AreNotReversedAndBeginAtOne) {
  EXPECT_EQ(parse_range("1..8", 256)->last, 8U);
  EXPECT_EQ(parse_range("4", 256)->first, 4U);
  EXPECT_EQ(parse_range("4", 256)->last, 4U);
  for (const char* text : {"0..8", "1-8", "1..", "..8", "1...8", "1..257", "a..b", ""})
    EXPECT_FALSE(parse_range(text, 256)) << text;
  EXPECT_EQ(parse_range("8..1", 256).error().message(), "must not be reversed, is '8..1'; write 1..8");
}

TEST(Booleans, AreOnlyTrueAndFalse) {
  EXPECT_TRUE(parse_boolean("true").value());
  EXPECT_FALSE(parse_boolean("false").value());
  for (const char* text : {"yes", "on", "1", "True", ""}) EXPECT_FALSE(parse_boolean(text)) << text;
}

TEST(Lists, HaveNoEmptyParts) {
  EXPECT_EQ(parse_list("a, b,c").value(), (std::vector<std::string>{"a", "b", "c"}));
  for (const char* text : {"", ",", "a,", "a,,b"}) EXPECT_FALSE(parse_list(text)) << text;
}

TEST(Suggestions, NameTheClosestWord) {
  constexpr std::array<std::string_view, 3> kNames = {"replicas", "max_replicas", "router"};
  EXPECT_EQ(suggestion("max_replica", kNames), "did you mean max_replicas?");
  EXPECT_EQ(suggestion("rotuer", kNames), "did you mean router?");
  EXPECT_EQ(suggestion("replicas_max", kNames), "did you mean max_replicas?");
  EXPECT_EQ(suggestion("colour", kNames), "");
  EXPECT_EQ(suggestion(std::string(100'000, 'r'), kNames), "");
}

TEST(Quoted, IsOneShortLine) {
  EXPECT_EQ(options::quote("a\nb\x1b[31m"), "'a?b?[31m'");
  EXPECT_EQ(options::quote(std::string(1000, 'x')).size(), 60 + 2 + 3U);
}

}  // namespace
}  // namespace penstock::options
