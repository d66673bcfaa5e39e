#include "replay/schedule_file.h"

#include <gtest/gtest.h>

namespace penstock::replay {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const std::vector<std::string> kOne{"default"}, kTwo{"prefill", "decode"};

std::string error_of(std::string_view text, std::span<const std::string> pools = kOne) {
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
  const auto read = parse_schedule("time,prefill,decode\n0,1,4\n60,2,5", "plan.csv", kTwo);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ((*read)[0][1].replicas, 2U);
  EXPECT_EQ((*read)[1][1].replicas, 5U);
}
TEST(ScheduleFile, AnErrorNamesItsLine) {
  EXPECT_EQ(error_of("time,replicas\n5,1\n"), "plan.csv:2: the first time must be 0; add a line for the time before");
  EXPECT_EQ(error_of("time,replicas\n0,1\n60,2\n60,3\n"), "plan.csv:4: time '60' must be above 60s of the line before");
  EXPECT_EQ(error_of("time,replicas\n0,1,2\n"), "plan.csv:2: has 3 columns instead of 2");
  EXPECT_NE(error_of("time,replicas\n0,-1\n").find("plan.csv:2: replicas "), std::string::npos);
  EXPECT_NE(error_of("time,replicas\nnoon,1\n").find("plan.csv:2: time "), std::string::npos);
  EXPECT_EQ(error_of("0,1\n"), "plan.csv:1: the header must be time,replicas, is '0,1'");
  EXPECT_EQ(error_of("time,replicas\n0,1\n", kTwo),
            "plan.csv:1: the header must be time,prefill,decode, is 'time,replicas'");
  EXPECT_EQ(error_of("time,replicas\n"),
            "plan.csv: contains no line with a time; begin with the lines `time,replicas` and `0,1`");
}
TEST(ScheduleFile, AFileThatIsNotThereIsAnError) {
  const auto read = read_schedule("/nowhere/plan.csv", kOne);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message(), "/nowhere/plan.csv: cannot be read");
}

}  // namespace
}  // namespace penstock::replay
