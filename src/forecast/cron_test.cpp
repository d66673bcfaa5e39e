#include "forecast/cron.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace penstock::forecast {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

// Unix seconds of a UTC date.
std::int64_t utc(int year, unsigned month, unsigned day, int hour = 0, int minute = 0, int second = 0) {
  const std::chrono::sys_days date{std::chrono::year{year} / static_cast<int>(month) / static_cast<int>(day)};
  return date.time_since_epoch().count() * std::int64_t{86'400} + hour * 3600 + minute * 60 + second;
}

CronSchedule parsed(std::string_view text, core::Duration offset = {}) {
  auto schedule = CronSchedule::parse(text, offset);
  PENSTOCK_ASSERT(schedule.has_value(), "tests parse what is valid");
  return std::move(*schedule);
}

TEST(CronSchedule, NextStartsByHand) {
  struct Row {
    const char* text;
    std::int64_t after, next;
  };
  const std::vector<Row> rows = {
      // 2026-03-06 is a Friday.
      {"0 8 * * mon-fri", utc(2026, 3, 6, 7, 59, 59), utc(2026, 3, 6, 8)},
      {"0 8 * * mon-fri", utc(2026, 3, 6, 8), utc(2026, 3, 9, 8)},
      {"*/15 * * * *", utc(2026, 3, 6, 8, 1), utc(2026, 3, 6, 8, 15)},
      {"5/20 9-10 * * *", utc(2026, 3, 6, 9, 45), utc(2026, 3, 6, 10, 5)},
      {"0 0 1 jan *", utc(2026, 1, 1), utc(2027, 1, 1)},
      {"30 6 * * 7", utc(2026, 3, 6), utc(2026, 3, 8, 6, 30)},
      {"30 6 * * SUN,sat", utc(2026, 3, 6), utc(2026, 3, 7, 6, 30)},
      {"0 0 * * fri-sun", utc(2026, 3, 7), utc(2026, 3, 8)},
      {"0 0 * * sun-sun", utc(2026, 3, 8), utc(2026, 3, 15)},
      {"0 0 * * 0-0", utc(2026, 3, 8), utc(2026, 3, 15)},
      {"0 0 * * 0-7/7", utc(2026, 3, 8), utc(2026, 3, 15)},
      {"0 0 * * 7/2", utc(2026, 3, 8), utc(2026, 3, 15)},
      {"0 0 * * 5/2", utc(2026, 3, 6), utc(2026, 3, 13)},
      {"0 0 29 2 */7", utc(2004, 2, 1), utc(2004, 2, 29)},
      {"0 0 29 2 *", utc(2026, 3, 6), utc(2028, 2, 29)},
      {"0 0 29 2 *", utc(2096, 3, 1), utc(2104, 2, 29)},
      {"0,30 23 31 * *", utc(2026, 3, 31, 23, 30), utc(2026, 5, 31, 23)},
      {" 0\t8 *  * 1-5/2 ", utc(2026, 3, 6, 8), utc(2026, 3, 9, 8)},
      {"0 12 * * *", utc(1969, 12, 31, 13), utc(1970, 1, 1, 12)},
  };
  for (const Row& row : rows) EXPECT_EQ(parsed(row.text).next(row.after), row.next) << row.text;
}

TEST(CronSchedule, PreviousStartIncludesTheMomentItself) {
  const CronSchedule schedule = parsed("0 8 * * mon-fri");
  EXPECT_EQ(schedule.previous(utc(2026, 3, 6, 8)), utc(2026, 3, 6, 8));
  EXPECT_EQ(schedule.previous(utc(2026, 3, 6, 7, 59, 59)), utc(2026, 3, 5, 8));
  EXPECT_EQ(schedule.previous(utc(2026, 3, 9, 3)), utc(2026, 3, 6, 8));
}

TEST(CronSchedule, EitherDayIsEnoughWhereBothAreRestricted) {
  const CronSchedule schedule = parsed("0 0 13 * fri");
  EXPECT_TRUE(schedule.matches(utc(2026, 3, 6)));
  EXPECT_TRUE(schedule.matches(utc(2026, 4, 13)));
  EXPECT_FALSE(schedule.matches(utc(2026, 3, 14)));
  EXPECT_FALSE(parsed("0 0 */2 * fri").matches(utc(2026, 3, 6)));  // With a star, both days must match.
}

TEST(CronSchedule, AnOffsetMovesTheDay) {
  const CronSchedule schedule = parsed("0 1 * * mon", hours{2});
  EXPECT_EQ(schedule.next(utc(2026, 3, 6)), utc(2026, 3, 8, 23));
  EXPECT_TRUE(schedule.matches(utc(2026, 3, 8, 23, 0, 30)));
  EXPECT_EQ(parsed("0 20 * * sun", -hours{5} - minutes{30}).next(utc(2026, 3, 6)), utc(2026, 3, 9, 1, 30));
}

TEST(CronSchedule, ErrorsNameTheColumn) {
  struct Row {
    const char* text;
    const char* message;
  };
  const std::vector<Row> rows = {
      {"",
       "schedule \"\", column 1: the field \"minute\" is missing; five fields: minute, hour, day of month, month, "
       "day of week"},
      {"0 8 * *",
       "schedule \"0 8 * *\", column 8: the field \"day of week\" is missing; five fields: minute, hour, "
       "day of month, month, day of week"},
      {"0 24 * * *", "schedule \"0 24 * * *\", column 3: hour must be 0-23, is 24"},
      {"0 8 * * mon-fir",
       "schedule \"0 8 * * mon-fir\", column 13: day of week: unknown name \"fir\"; use the first "
       "three letters in English"},
      {"0 18-8 * * *",
       "schedule \"0 18-8 * * *\", column 3: hour: a range must ascend, is 18-8; write two ranges, one "
       "to the end and one from the beginning"},
      {"*/0 * * * *", "schedule \"*/0 * * * *\", column 3: minute: a step must be 1-59"},
      {"0 8, * * *",
       "schedule \"0 8, * * *\", column 5: hour: unexpected a space; write *, 5, 1-5, */15 or a list of "
       "them"},
      {"0 8 * * 1 2",
       "schedule \"0 8 * * 1 2\", column 11: more than five fields; minute, hour, day of month, month, "
       "day of week; there are no seconds"},
      {"@daily", "schedule \"@daily\", column 1: minute: unexpected '@'; write *, 5, 1-5, */15 or a list of them"},
      {"0 0 30 feb *", "schedule \"0 0 30 feb *\", column 1: never occurs; check the day of month against the month"},
      {"99999999999999999999 * * * *",
       "schedule \"99999999999999999999 * * * *\", column 1: minute must be 0-59, is "
       "99999999999999999999"},
  };
  for (const Row& row : rows) {
    const auto schedule = CronSchedule::parse(row.text);
    ASSERT_FALSE(schedule) << row.text;
    EXPECT_EQ(schedule.error().message(), row.message);
  }
}

TEST(CronSchedule, ErrorsAreOneLineWhateverTheBytes) {
  for (const std::string_view text : {"0 8 * * 1\n", "0 8 * * \x1b[31m", "0 8 * * \xc3\xa9", "0\r8 * * *"}) {
    const auto schedule = CronSchedule::parse(text);
    ASSERT_FALSE(schedule);
    const std::string message = schedule.error().message();
    EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' && c <= '~'; })) << message;
  }
  EXPECT_FALSE(CronSchedule::parse(std::string_view{"0 8 * * \0", 9}));
  EXPECT_EQ(CronSchedule::parse("0 8\n* * *").error().message(),
            "schedule, column 4: a character that is not printable ASCII");
}

TEST(CronSchedule, LongTextAndWildOffsetsAreErrors) {
  EXPECT_FALSE(CronSchedule::parse(std::string(1000, '*')));
  EXPECT_FALSE(CronSchedule::parse("* * * * *", hours{15}));
  EXPECT_FALSE(CronSchedule::parse("* * * * *", std::chrono::seconds{30}));
}

TEST(CronSchedule, TimesFarOutsideTheCalendarAreHandled) {
  const CronSchedule schedule = parsed("0 8 * * *", hours{14});
  EXPECT_EQ(schedule.next(INT64_MIN), schedule.next(CronSchedule::kUnixMin));
  EXPECT_FALSE(schedule.previous(INT64_MIN));
  EXPECT_FALSE(schedule.next(INT64_MAX));
  EXPECT_EQ(schedule.previous(INT64_MAX), schedule.previous(CronSchedule::kUnixMax));
  for (const std::int64_t timestamp : {INT64_MIN, INT64_MAX}) EXPECT_FALSE(schedule.matches(timestamp));
}

TEST(CronSchedule, NextIsTheFirstMinuteThatMatches) {
  const auto earliest = [](const CronSchedule& schedule, std::int64_t after) {
    for (std::int64_t at = after - after % 60 + 60;; at += 60)
      if (schedule.matches(at)) return at;
  };
  for (const char* text : {"*/7 3,15 * * *", "0 0 1,15 * mon", "59 23 28-31 2,12 *", "10-40/15 */5 * 6-8 sat"}) {
    const CronSchedule schedule = parsed(text, hours{3});
    std::int64_t timestamp = utc(2027, 11, 28, 5, 17, 9);
    for (int i = 0; i < 20; ++i) {
      const std::int64_t next = *schedule.next(timestamp);
      EXPECT_EQ(next, earliest(schedule, timestamp)) << text;
      EXPECT_EQ(schedule.previous(next), next) << text;
      EXPECT_LE(*schedule.previous(next - 1), timestamp) << text;
      timestamp = next;
    }
  }
}

TEST(ScheduledFloor, HoldsFromItsStartForItsLength) {
  const auto floor = make_floor("0 8 * * mon-fri", {}, hours{10}, 6);
  ASSERT_TRUE(floor);
  EXPECT_FALSE(floor->active(utc(2026, 3, 6, 7, 59, 59)));
  EXPECT_TRUE(floor->active(utc(2026, 3, 6, 8)));
  EXPECT_TRUE(floor->active(utc(2026, 3, 6, 17, 59, 59)));
  EXPECT_FALSE(floor->active(utc(2026, 3, 6, 18)));
  EXPECT_FALSE(floor->active(utc(2026, 3, 7, 9)));
}

TEST(ScheduledFloor, GoesOnOverMidnight) {
  const auto floor = make_floor("0 22 * * sun", {}, hours{10}, 2);
  EXPECT_TRUE(floor->active(utc(2026, 3, 9, 7, 59)));
  EXPECT_FALSE(floor->active(utc(2026, 3, 9, 8)));
}

TEST(ScheduledFloor, TheGreatestActiveOneCountsAndTheLeadBringsItForward) {
  const std::vector<ScheduledFloor> floors = {*make_floor("0 8 * * *", {}, hours{10}, 6),
                                              *make_floor("0 12 * * *", {}, hours{1}, 9)};
  EXPECT_EQ(floor_at(floors, utc(2026, 3, 6, 7, 0)), 0U);
  EXPECT_EQ(floor_at(floors, utc(2026, 3, 6, 7, 55), minutes{5}), 6U);
  EXPECT_EQ(floor_at(floors, utc(2026, 3, 6, 11, 50), minutes{5}), 6U);
  EXPECT_EQ(floor_at(floors, utc(2026, 3, 6, 11, 55), minutes{5}), 9U);
  EXPECT_EQ(floor_at(floors, utc(2026, 3, 6, 13), minutes{5}), 6U);
}

TEST(ScheduledFloor, APartOfASecondOfLeadIsAWholeOne) {
  const std::vector<ScheduledFloor> floors = {*make_floor("0 8 * * *", {}, hours{1}, 6)};
  EXPECT_EQ(floor_at(floors, utc(2026, 3, 6, 7, 59, 59), std::chrono::milliseconds{300}), 6U);
  EXPECT_EQ(floor_at(floors, utc(2026, 3, 6, 7, 59, 58), std::chrono::milliseconds{300}), 0U);
  EXPECT_EQ(floor_at(floors, utc(2026, 3, 6, 8, 0, 0), -hours{1}), 6U);
  EXPECT_EQ(floor_at(floors, utc(2026, 3, 6, 7, 59, 59), -hours{1}), 0U);
}

TEST(ScheduledFloor, TimesFarOutsideTheCalendarAreHandled) {
  const std::vector<ScheduledFloor> floors = {*make_floor("0 8 * * *", {}, minutes{1}, 6)};
  for (const std::int64_t timestamp : {INT64_MIN, INT64_MAX}) EXPECT_EQ(floor_at(floors, timestamp), 0U);
  EXPECT_EQ(floor_at(floors, 0, core::Duration::max()), 6U);
}

TEST(ScheduledFloor, WithoutReplicasIsAnError) { EXPECT_FALSE(make_floor("0 8 * * *", {}, hours{1}, 0)); }

TEST(ScheduledFloor, ALengthOutsideItsLimitsIsAnError) {
  for (const core::Duration length : {core::Duration{}, core::Duration{hours{24 * 400}}, core::Duration{-hours{1}}})
    EXPECT_FALSE(make_floor("0 8 * * *", {}, length, 1));
}

}  // namespace
}  // namespace penstock::forecast
