#include "replay/schedule_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace penstock::replay {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const std::vector<ScheduledPool> kOne{{"default", 8}}, kTwo{{"prefill", 8}, {"decode", 4}};

std::string error_of(std::string_view text, std::span<const ScheduledPool> pools = kOne) {
  const auto read = parse_schedule(text, "plan.csv", pools);
  return read ? "none" : read.error().message();
}

TEST(ScheduleFile, TimesAreSecondsOrDurations) {
  const auto read = parse_schedule("# an idea\ntime,replicas\n0,2\n90,3\r\n\n1h30m, 1\n", "plan.csv", kOne);
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 1U);
  const planner::PoolSteps& steps = read->front();
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].replicas, 2U);
  EXPECT_EQ(steps[1].from, seconds{90});
  EXPECT_EQ(steps[2].from, minutes{90});
  EXPECT_EQ(steps[2].replicas, 1U);
}
TEST(ScheduleFile, EachPoolHasAColumn) {
  const auto read = parse_schedule("time,prefill,decode\n0,1,4\n60,2,3", "plan.csv", kTwo);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ((*read)[0][1].replicas, 2U);
  EXPECT_EQ((*read)[1][1].replicas, 3U);
}
TEST(ScheduleFile, ColumnsOfPoolsHaveAnyOrder) {
  const auto read = parse_schedule("time,decode,prefill\n0,4,1\n60,3,2", "plan.csv", kTwo);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ((*read)[0][1].replicas, 2U);
  EXPECT_EQ((*read)[1][1].replicas, 3U);
  for (const char* header : {"time,decode", "time,decode,decode", "time,prefill,decode,decode", "prefill,time,decode"})
    EXPECT_EQ(error_of(header, kTwo),
              fmt::format("plan.csv:1: the header must be time,prefill,decode, is '{}'", header));
}
TEST(ScheduleFile, AByteOrderMarkIsSkipped) { EXPECT_EQ(error_of("\xEF\xBB\xBFtime,replicas\n0,2\n"), "none"); }
TEST(ScheduleFile, ReplicasAboveTheMaximumAreAnError) {
  EXPECT_EQ(error_of("time,replicas\n0,8\n5,9\n"),
            "plan.csv:3: replicas must be at most max_replicas (8), is 9; raise --max-replicas, or lower the number");
  EXPECT_EQ(error_of("time,decode,prefill\n0,5,1\n", kTwo),
            "plan.csv:2: replicas of decode must be at most max_replicas (4), is 5; raise --max-replicas, or lower the "
            "number");
}
TEST(ScheduleFile, AnInvalidTimeIsShownAsItIsWritten) {
  for (const char* time : {"", "1.2.3", "noon", "9000000000"})
    EXPECT_EQ(
        error_of(fmt::format("time,replicas\n{},5\n", time)),
        fmt::format("plan.csv:2: time must be seconds or a duration of at most 3650d, is '{}'; write it as 90, 90s "
                    "or 1h30m",
                    time));
}
TEST(ScheduleFile, AnErrorNamesItsLine) {
  EXPECT_EQ(error_of("time,replicas\n5,1\n"), "plan.csv:2: the first time must be 0; add a line for the time before");
  EXPECT_EQ(error_of("time,replicas\n0,1\n60,2\n60,3\n"), "plan.csv:4: time '60' must be above 60s of the line before");
  EXPECT_EQ(error_of("time,replicas\n0,1,2\n"), "plan.csv:2: has 3 columns instead of 2");
  EXPECT_NE(error_of("time,replicas\n0,-1\n").find("plan.csv:2: replicas "), std::string::npos);
  EXPECT_EQ(error_of("0,1\n"), "plan.csv:1: the header must be time,replicas, is '0,1'");
  EXPECT_EQ(error_of("time,replicas\n0,1\n", kTwo),
            "plan.csv:1: the header must be time,prefill,decode, is 'time,replicas'");
  EXPECT_EQ(error_of("time,replicas\n"),
            "plan.csv: contains no line with a time; begin with the lines `time,replicas` and `0,1`");
}
TEST(ScheduleFile, AFileThatCannotBeReadIsAnErrorWithItsReason) {
  const auto missing = read_schedule("/nowhere/plan.csv", kOne);
  ASSERT_FALSE(missing);
  EXPECT_EQ(
      missing.error().message(),
      "--policy: schedule file '/nowhere/plan.csv' cannot be opened: No such file or directory; is the name right?");
  const auto folder = read_schedule("/", kOne);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message(), "--policy: schedule file '/' cannot be read: Is a directory");
  EXPECT_EQ(folder.error().code, core::ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace penstock::replay
