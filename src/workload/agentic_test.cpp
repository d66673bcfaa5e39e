// Traces whose requests wait for the end of others.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "workload/reader_testing.h"
#include "workload/transform.h"

namespace penstock::workload {
namespace {

using testing::fault_of;
using testing::read_text;

Workload read(const std::string& text, const ReadOptions& options = {}) {
  auto workload = read_text(text, options);
  if (!workload) ADD_FAILURE() << workload.error().message();
  return workload ? *std::move(workload) : Workload{};
}
// "2<0+1.5" is: request 2 arrives 1.5 s after the end of request 0.
std::vector<std::string> waits_of(const Workload& workload) {
  std::vector<std::string> texts;
  for (const Wait& wait : workload.waits) {
    char text[64];
    std::snprintf(text, sizeof text, "%u<%u+%g", wait.request, wait.previous, core::to_seconds(wait.after));
    texts.emplace_back(text);
  }
  return texts;
}
double arrival_s(const Workload& workload, std::size_t request) {
  return core::to_seconds(workload.requests.at(request).arrival.time_since_epoch());
}
using Texts = std::vector<std::string>;

const std::string kTwoSessions =
    "{\"session_id\":\"a\",\"timestamp\":0,\"input_length\":1000,\"output_length\":10,\"hash_ids\":[1,2]}\n"
    "{\"session_id\":\"b\",\"timestamp\":500,\"input_length\":700,\"output_length\":10}\n"
    "{\"session_id\":\"a\",\"delay\":2000,\"input_length\":1500,\"output_length\":20,\"hash_ids\":[1,2,3]}\n"
    "{\"session_id\":\"b\",\"delay_ms\":100,\"tool_wait_ms\":150,\"input_length\":800,\"output_length\":5}\n";

TEST(Agentic, TurnsOfASessionWaitForTheTurnBefore) {
  ReadReport report;
  const auto read_trace = read_text(kTwoSessions, {}, &report);
  ASSERT_TRUE(read_trace);
  EXPECT_EQ(report.format, Format::kAgentic);
  const Workload& workload = *read_trace;
  ASSERT_EQ(workload.requests.size(), 4U);
  // In order of the estimates, which count no time for answers: a, b, b after 250 ms, a after 2 s.
  EXPECT_EQ(workload.requests[2].input_tokens, 800U);
  EXPECT_DOUBLE_EQ(arrival_s(workload, 2), 0.75);
  EXPECT_DOUBLE_EQ(arrival_s(workload, 3), 2.0);
  EXPECT_EQ(waits_of(workload), (Texts{"2<1+0.25", "3<0+2"}));
  EXPECT_EQ(workload.requests[3].session, workload.requests[0].session);
}
TEST(Agentic, RequestsWaitForAllThatTheyName) {
  const Workload workload = read(
      "{\"request_id\":\"r1\",\"timestamp\":0,\"input_length\":10,\"output_length\":1,\"wait_for\":[]}\n"
      "{\"request_id\":\"r2\",\"wait_for\":[\"r1\"],\"input_length\":20,\"output_length\":1}\n"
      "{\"request_id\":\"r3\",\"wait_for\":[\"r1\"],\"delay\":5,\"tool_wait_ms\":5,\"input_length\":30,\"output_"
      "length\":1}\n"
      "{\"request_id\":\"r4\",\"wait_for\":[\"r2\",\"r3\"],\"delay\":null,\"input_length\":40,\"output_length\":1}\n");
  EXPECT_EQ(waits_of(workload), (Texts{"1<0+0", "2<0+0.01", "3<1+0", "3<2+0"}));
}
TEST(Agentic, ARowWithATimestampAndNoDelayArrivesAtItsTime) {
  const Workload workload =
      read(kTwoSessions + "{\"session_id\":\"a\",\"timestamp\":9000,\"input_length\":5,\"output_length\":5}\n");
  EXPECT_EQ(workload.waits.size(), 2U);
  EXPECT_DOUBLE_EQ(arrival_s(workload, 4), 9.0);
}
TEST(Agentic, BadRowsAreErrorsWithTheirLine) {
  EXPECT_EQ(fault_of(kTwoSessions + "{\"session_id\":\"c\",\"delay\":1,\"input_length\":5,\"output_length\":5}\n"),
            "t.csv:5: has no timestamp, and no earlier row that it waits for");
  EXPECT_EQ(fault_of(kTwoSessions + "{\"wait_for\":[\"x\"],\"input_length\":5,\"output_length\":5}\n"),
            "t.csv:5: waits for \"x\", which is the request_id of no earlier row");
  EXPECT_EQ(fault_of(kTwoSessions + "{\"session_id\":\"a\",\"delay\":-1,\"input_length\":5,\"output_length\":5}\n"),
            "t.csv:5: delay is -1, must be at least 0");
  EXPECT_EQ(fault_of(kTwoSessions + "{\"session_id\":\"a\",\"delay\":1e12,\"input_length\":5,\"output_length\":5}\n")
                .substr(0, 8),
            "t.csv:5:");
  const std::string row = "{\"request_id\":\"r\",\"timestamp\":0,\"input_length\":5,\"output_length\":5}\n";
  EXPECT_EQ(fault_of(row + row), "t.csv:2: has the request_id \"r\" of an earlier row");
  EXPECT_EQ(
      read(kTwoSessions + "{\"wait_for\":[\"x\"],\"input_length\":5,\"output_length\":5}\n", {.skip_bad_rows = true})
          .requests.size(),
      4U);
}
TEST(Agentic, TransformsKeepWaits) {
  const Workload workload = read(kTwoSessions);
  const auto twice = scale_rate(workload, 2.0, 1);
  ASSERT_TRUE(twice);
  EXPECT_EQ(twice->waits.size(), 4U);
  for (const Wait& wait : twice->waits)
    EXPECT_EQ(twice->requests[wait.request].session, twice->requests[wait.previous].session);
  const auto both = merge({workload, workload});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->waits.size(), 4U);
  // A request whose previous one is cut off arrives at its time.
  const auto late = crop_window(workload, std::chrono::milliseconds{400}, std::nullopt);
  ASSERT_TRUE(late);
  EXPECT_EQ(waits_of(*late), (Texts{"1<0+0.25"}));
  const auto reblocked = reblock(workload, 256);
  ASSERT_TRUE(reblocked);
  EXPECT_EQ(waits_of(*reblocked), waits_of(workload));
}

// ---- whole sessions ----

// Two turns, a subagent of two requests that took 3 of the 5 s between them, and a last turn.
const std::string kSession =
    "{\"id\":\"s1\",\"block_size\":64,\"requests\":["
    "{\"t\":0,\"type\":\"s\",\"in\":200,\"out\":10,\"hash_ids\":[1,2,3],\"think_time\":0,\"api_time\":2},"
    "{\"t\":5.5,\"type\":\"subagent\",\"duration_ms\":3000,\"requests\":["
    "{\"t\":0,\"type\":\"n\",\"in\":100,\"out\":5,\"hash_ids\":[9],\"think_time\":0,\"api_time\":1},"
    "{\"t\":2,\"type\":\"n\",\"in\":150,\"out\":0,\"hash_ids\":[9,10],\"think_time\":1,\"api_time\":1}]},"
    "{\"t\":7,\"type\":\"s\",\"in\":300,\"out\":20,\"hash_ids\":[1,2,3,4],\"think_time\":5,\"api_time\":1},"
    "{\"t\":108,\"type\":\"s\",\"in\":400,\"out\":20,\"hash_ids\":[1,2,3,4,5],\"think_time\":100,\"api_time\":1}]}\n";

TEST(Sessions, NeedTheRateAtWhichTheyStart) {
  EXPECT_EQ(fault_of(kSession), "t.csv: holds whole sessions, whose starts are not recorded");
}
TEST(Sessions, TheirOptionsNeedATraceOfWholeSessions) {
  EXPECT_TRUE(check_session_options({}, false));
  EXPECT_TRUE(check_session_options({.session_rate = 1.0, .think_time_max = core::Duration{}}, true));
  EXPECT_EQ(check_session_options({.session_rate = 1.0}, false).error().message(),
            "--session-rate: has no effect, because no trace has whole sessions; requests keep their recorded times; "
            "--rate-scale changes their rate");
  EXPECT_EQ(check_session_options({.think_time_max = core::Duration{}}, false).error().where, "--think-time-max");
}
TEST(Sessions, TurnsWaitForTheTurnBeforeAndForItsSubagents) {
  ReadReport report;
  const auto workload = read_text(kSession, {.session_rate = 1.0}, &report);
  ASSERT_TRUE(workload) << workload.error().message();
  EXPECT_EQ(report.format, Format::kWeka);
  EXPECT_EQ(workload->block_tokens, 64U);
  ASSERT_EQ(workload->requests.size(), 5U);
  // The subagent started 500 ms after the first answer; of the 5 s until the next turn 2 s remained.
  EXPECT_EQ(waits_of(*workload), (Texts{"1<0+0.5", "2<1+1", "3<2+2", "4<3+100"}));
  EXPECT_FALSE(workload->requests[1].streamed);
  EXPECT_EQ(workload->requests[2].output_tokens, 1U);  // It has no tokens, but an end.
  // 2 s of answer, 0.5, 1, 1, 1 and 2 s.
  EXPECT_DOUBLE_EQ(arrival_s(*workload, 3), 7.5);
}
TEST(Sessions, ThinkTimesHaveALimit) {
  const Workload workload = read(kSession, {.session_rate = 1.0, .think_time_max = std::chrono::milliseconds{1500}});
  EXPECT_EQ(waits_of(workload), (Texts{"1<0+0.5", "2<1+1", "3<2+1.5", "4<3+1.5"}));
}
TEST(Sessions, BlocksAreLocalToTheirSession) {
  const Workload workload = read(kSession + kSession, {.session_rate = 1.0});
  ASSERT_EQ(workload.requests.size(), 10U);
  std::vector<std::uint32_t> firsts;
  for (const Request& request : workload.requests)
    if (request.input_tokens == 200) firsts.push_back(workload.block_ids[request.first_block]);
  ASSERT_EQ(firsts.size(), 2U);
  EXPECT_NE(firsts[0], firsts[1]);
}
TEST(Sessions, BadSessionsAreErrorsWithTheirLine) {
  const ReadOptions options{.session_rate = 1.0};
  EXPECT_EQ(fault_of(kSession + "{\"requests\":[{\"t\":0,\"in\":-5,\"out\":1}]}\n", options),
            "t.csv:2: requests[0]: in is not a whole number from 0 to 100000000");
  EXPECT_EQ(fault_of(kSession + "{\"requests\":[{\"t\":-1,\"in\":5,\"out\":1}]}\n", options),
            "t.csv:2: requests[0]: t is -1 s, must be from 0 to 1e+09");
  EXPECT_EQ(fault_of(kSession + "{\"requests\":[{\"t\":0,\"in\":5,\"out\":1,\"hash_ids\":[1,2]}]}\n", options),
            "t.csv:2: requests[0]: hash_ids holds more than 1 ids for 6 tokens");
  EXPECT_EQ(fault_of(kSession + "{\"timestamp\":1}\n", options), "t.csv:2: has no list of requests");
}

}  // namespace
}  // namespace penstock::workload
