#include "cli/keda_cron.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace penstock::cli {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// "timezone | start | end", or the error.
std::string trigger(std::string_view cron, core::Duration length, core::Duration offset = {}) {
  const auto made = cron_trigger_of(cron, length, offset, 6);
  return made ? made->timezone + " | " + made->start + " | " + made->end : made.error().what;
}

TEST(KedaCron, AScheduleEndsByAnExpressionOfItsOwn) {
  EXPECT_EQ(trigger("0 8 * * 1-5", hours{10}), "Etc/UTC | 0 8 * * 1-5 | 0 18 * * 1-5");
  EXPECT_EQ(trigger("30 23 * * *", minutes{45}), "Etc/UTC | 30 23 * * * | 15 0 * * *");
  EXPECT_EQ(trigger("0 20 * * mon-fri", hours{12}), "Etc/UTC | 0 20 * * 1-5 | 0 8 * * 2-6");
  EXPECT_EQ(trigger("0 22 * * 5,6", hours{8}), "Etc/UTC | 0 22 * * 5,6 | 0 6 * * 0,6");
  EXPECT_EQ(trigger("0 12 * * 7", hours{24}), "Etc/UTC | 0 12 * * 0 | 0 12 * * 1");
  EXPECT_EQ(trigger("0 0 * * 1", hours{72}), "Etc/UTC | 0 0 * * 1 | 0 0 * * 4");
  EXPECT_EQ(trigger("0 9 1 jan *", hours{2}), "Etc/UTC | 0 9 1 jan * | 0 11 1 jan *");
}

TEST(KedaCron, AnOffsetIsATimezoneWithTheOtherSign) {
  EXPECT_EQ(trigger("0 8 * * *", hours{1}, hours{2}), "Etc/GMT-2 | 0 8 * * * | 0 9 * * *");
  EXPECT_EQ(trigger("0 8 * * *", hours{1}, -hours{5}), "Etc/GMT+5 | 0 8 * * * | 0 9 * * *");
  EXPECT_NE(trigger("0 8 * * *", hours{1}, minutes{330}).find("not whole hours"), std::string::npos);
}

TEST(KedaCron, WhatKedaCannotExpressIsAReason) {
  EXPECT_EQ(trigger("*/30 8 * * *", minutes{5}), "it has several starts a day");
  EXPECT_EQ(trigger("0 8,12 * * *", hours{1}), "it has several starts a day");
  EXPECT_EQ(trigger("0 20 1 * *", hours{12}),
            "it ends on another day than it starts, and has days of the month or months");
  EXPECT_EQ(trigger("0 8 1 * 1", hours{1}), "it has days of the month and days of the week");
  EXPECT_EQ(trigger("0 8 * * *", hours{24}), "it starts again before it ends");
  EXPECT_EQ(trigger("0 8 * * 1-5", hours{30}), "it starts again before it ends");
  EXPECT_EQ(trigger("0 8 * * *", std::chrono::seconds{90}), "the length is not whole minutes");
}

TEST(KedaCron, AFlagHasTimezoneStartEndAndReplicas) {
  const auto made = parse_cron_trigger("Europe/Berlin;0 8 * * 1-5 ; 0 18 * * 1-5; 6");
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(made->timezone, "Europe/Berlin");
  EXPECT_EQ(made->start, "0 8 * * 1-5");
  EXPECT_EQ(made->end, "0 18 * * 1-5");
  EXPECT_EQ(made->replicas, 6U);
  for (const char* text :
       {"", "0 8 * * *; 0 9 * * *; 6", "+02:00; 0 8 * * *; 0 9 * * *; 6", "Etc/UTC; 0 8 * *; 0 9 * * *; 6",
        "Etc/UTC; 0 8 * * *; 0 8 * * *; 6", "Etc/UTC; 0 8 * * 7; 0 9 * * 7; 6", "Etc/UTC; 0 8 * * *; 0 9 * * *; 0"})
    EXPECT_FALSE(parse_cron_trigger(text)) << text;
}

}  // namespace
}  // namespace penstock::cli
