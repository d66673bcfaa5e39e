#include "load/answer_timer.h"

#include <gtest/gtest.h>

namespace penstock::load {
namespace {

using namespace std::chrono_literals;

std::string text_event(std::string_view text = "word") {
  return "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + std::string{text} + "\"}}]}\n\n";
}
const std::string kRole = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const std::string kFinish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
const std::string kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":7,\"prompt_tokens_details\":"
    "{\"cached_tokens\":4}}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

AnswerTimer begun(bool stream = true, int status = 200, bool retry_after = false) {
  AnswerTimer timer{stream, 1s, 1100ms};
  timer.take_head(status, retry_after, 1200ms);
  return timer;
}

TEST(AnswerTimer, CountsFromTheIntendedStartAndTheFirstTextNotTheRole) {
  AnswerTimer timer = begun();
  timer.take_body(kRole, 1300ms);
  timer.take_body(text_event(), 1500ms);
  timer.take_body(text_event(), 1600ms);
  timer.take_body(text_event(), 1900ms);
  timer.take_body(kFinish + kDone, 2s);
  timer.end(2s);
  const RequestRecord& record = timer.record();
  EXPECT_EQ(record.outcome, Outcome::kOk) << record.reason;
  EXPECT_EQ(record.ttft(), 500ms);
  EXPECT_EQ(record.first_byte, 1200ms);
  EXPECT_EQ(record.itl(), 200ms);
  EXPECT_EQ(record.max_gap, 300ms);
  EXPECT_EQ(record.tokens, 3U);
  EXPECT_EQ(record.latency(), 1s);
}

TEST(AnswerTimer, UsesTheReportedNumberOfTokens) {
  AnswerTimer timer = begun();
  timer.take_body(text_event(), 1500ms);
  timer.take_body(text_event() + kFinish + kUsage + kDone, 2100ms);
  timer.end(2100ms);
  EXPECT_EQ(timer.record().tokens, 7U);
  EXPECT_EQ(timer.record().cached_tokens, 4U);
  EXPECT_EQ(timer.record().itl(), 100ms) << "seven tokens in two events";
}

TEST(AnswerTimer, ReportsOneGapForAPieceOfSeveralTokens) {
  AnswerTimer timer = begun();
  const auto first = timer.take_body(text_event() + text_event(), 1500ms);
  EXPECT_EQ(first.count, 2U);
  EXPECT_FALSE(first.gap);
  const auto second = timer.take_body(text_event() + text_event(), 1700ms);
  EXPECT_EQ(second.count, 2U);
  EXPECT_EQ(second.gap, 200ms);
}

TEST(AnswerTimer, IsNotMisledByWhereAStreamIsCut) {
  const std::string stream = kRole + text_event() + text_event("say \\\"finish_reason\\\":\\\"") + kFinish;
  for (std::size_t size = 1; size < 70; ++size) {
    AnswerTimer timer = begun();
    for (std::size_t at = 0; at < stream.size(); at += size) timer.take_body(stream.substr(at, size), 1500ms);
    timer.end(2s);
    EXPECT_EQ(timer.record().outcome, Outcome::kOk) << size << timer.record().reason;
    EXPECT_EQ(timer.record().tokens, 2U) << size;
  }
}

TEST(AnswerTimer, CallsAStreamWithoutAnEndTruncated) {
  AnswerTimer timer = begun();
  timer.take_body(text_event("\\\"finish_reason\\\":\\\"stop\\\""), 1500ms);
  timer.end(2s);
  EXPECT_EQ(timer.record().outcome, Outcome::kTruncated);
  AnswerTimer cut = begun();
  cut.take_body(text_event(), 1500ms);
  cut.fault(net::ClientFault::kClosed, 2s);
  EXPECT_EQ(cut.record().outcome, Outcome::kTruncated);
  AnswerTimer whole = begun();
  whole.take_body(text_event() + kDone, 1500ms);
  whole.fault(net::ClientFault::kClosed, 2s);
  EXPECT_EQ(whole.record().outcome, Outcome::kOk) << "the response was complete before the connection closed";
}

TEST(AnswerTimer, TakesNoEmptyFinishReasonForAnEnd) {
  AnswerTimer timer = begun();
  timer.take_body("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"\"}]}\n\n", 1500ms);
  timer.end(2s);
  EXPECT_EQ(timer.record().outcome, Outcome::kTruncated) << "some servers send it with each token";
}

TEST(AnswerTimer, TakesALastLineWithoutItsEnd) {
  AnswerTimer timer = begun();
  timer.take_body(text_event() + "data: [DONE]", 1500ms);
  timer.end(2s);
  EXPECT_EQ(timer.record().outcome, Outcome::kOk) << timer.record().reason;
}

TEST(AnswerTimer, CallsHalfADocumentTruncated) {
  const std::string whole = R"({"choices":[{"message":{"content":"a b"}}],"usage":{"completion_tokens":2}})";
  for (const std::size_t size : {std::size_t{35}, whole.size() - 1}) {
    AnswerTimer timer = begun(false);
    timer.take_body(whole.substr(0, size), 1300ms);
    timer.end(1300ms);
    EXPECT_EQ(timer.record().outcome, Outcome::kTruncated) << size;
  }
}

TEST(AnswerTimer, DistinguishesRefusalsFromFailures) {
  const auto outcome = [](int status, bool retry_after) {
    AnswerTimer timer = begun(true, status, retry_after);
    timer.take_body("{\"error\":{}}", 1300ms);
    timer.end(1300ms);
    return timer.record().outcome;
  };
  EXPECT_EQ(outcome(429, false), Outcome::kRefused);
  EXPECT_EQ(outcome(503, true), Outcome::kRefused);
  EXPECT_EQ(outcome(503, false), Outcome::kFailed);
  EXPECT_EQ(outcome(500, true), Outcome::kFailed);
  EXPECT_EQ(outcome(302, false), Outcome::kFailed);
}

TEST(AnswerTimer, CallsAnErrorWithinAnAnswerAFailureAlthoughItIsDone) {
  for (const char* error : {R"({"error": {"message":"lost"}})", R"({ "error" : {"message":"lost"}})",
                            R"({"id":"x","choices":[{"finish_reason":"error"}],"error":{"code":502}})"}) {
    AnswerTimer timer = begun();
    timer.take_body(text_event() + "data: " + error + "\n\n" + kDone, 1500ms);
    timer.end(1500ms);
    EXPECT_EQ(timer.record().outcome, Outcome::kFailed) << error;
    EXPECT_EQ(timer.record().reason, "error within the stream");
    AnswerTimer whole = begun(false);
    whole.take_body(error, 1300ms);
    whole.end(1300ms);
    EXPECT_EQ(whole.record().reason, "error within the answer");
  }
}

TEST(AnswerTimer, TakesOnlyAnAnswerForAnAnswer) {
  AnswerTimer page = begun(false);
  page.take_body("<html>welcome</html>", 1300ms);
  page.end(1300ms);
  EXPECT_EQ(page.record().outcome, Outcome::kFailed);
  AnswerTimer silent = begun();
  silent.take_body(kDone, 1300ms);
  silent.end(1300ms);
  EXPECT_EQ(silent.record().outcome, Outcome::kFailed);
  AnswerTimer whole = begun(false);
  whole.take_body("{\"choices\":[{\"message\":{\"content\":\"a b\"}}],\"usage\":{\"completion_tokens\":2}}", 1300ms);
  whole.end(1300ms);
  EXPECT_EQ(whole.record().outcome, Outcome::kOk) << whole.record().reason;
  EXPECT_EQ(whole.record().tokens, 2U);
  EXPECT_FALSE(whole.record().ttft()) << "it had no first token of its own";
}

TEST(AnswerTimer, ReportsTheProgressOfATimedOutRequest) {
  AnswerTimer waiting{true, 1s, 1s};
  waiting.give_up(Outcome::kTimedOut, 3s);
  EXPECT_EQ(waiting.record().reason, "no answer in time");
  AnswerTimer half = begun();
  half.take_body(text_event(), 1500ms);
  half.give_up(Outcome::kTimedOut, 3s);
  EXPECT_EQ(half.record().reason, "answer not whole in time");
  AnswerTimer gone{true, 1s, 1s};
  gone.fault(net::ClientFault::kConnect, 2s);
  EXPECT_EQ(gone.record().outcome, Outcome::kFailed);
}

}  // namespace
}  // namespace penstock::load
