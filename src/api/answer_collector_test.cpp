#include "api/answer_collector.h"

#include <gtest/gtest.h>

namespace penstock::api {
namespace {

const AnswerFrame kChat{"chatcmpl-1", "m", 7, true};

std::string event(const std::string& choice) {
  return R"(data: {"id":"x","created":7,"model":"m","choices":[{"index":0,)" + choice + "}]}\n\n";
}
AnswerCollector collected(std::string_view bytes, bool chat = true) {
  AnswerCollector collector{chat};
  collector.take(bytes);
  return collector;
}

TEST(AnswerCollector, ACompleteStreamEqualsTheUnstreamedAnswer) {
  for (const bool chat : {true, false}) {
    const AnswerFrame frame{"id-1", "m", 7, chat};
    std::string stream;
    append_first_event(stream, frame);
    for (const char* text : {"Hello, ", "\"wörld\"\n", "\\", "😀"}) append_text_event(stream, frame, text);
    append_finish_event(stream, frame, FinishReason::kStop);
    append_usage_event(stream, frame, {12, 4, 8});
    stream += kDoneEvent;
    const std::string whole = whole_answer(frame, "Hello, \"wörld\"\n\\😀", FinishReason::kStop, {12, 4, 8});
    for (const std::size_t piece : {1UL, 7UL, 10'000UL}) {
      AnswerCollector collector{chat};
      for (std::size_t at = 0; at < stream.size(); at += piece)
        collector.take(std::string_view{stream}.substr(at, piece));
      EXPECT_TRUE(collector.whole());
      EXPECT_EQ(collector.document("other", "other", {}), whole) << piece;
    }
  }
}

TEST(AnswerCollector, ACutAnswerIsMarkedAndHasItsUsage) {
  std::string stream;
  append_first_event(stream, kChat);
  append_text_event(stream, kChat, "one");
  append_text_event(stream, kChat, "two");
  const AnswerCollector collector = collected(stream + "data: {\"id\":\"chatcmpl-1\",\"choi");
  EXPECT_FALSE(collector.whole());
  EXPECT_TRUE(collector.has_text());
  EXPECT_EQ(collector.document("other", "other", {10, 2, 0}),
            whole_answer(kChat, "onetwo", FinishReason::kLength, {10, 2, 0}));
}

TEST(AnswerCollector, KeepsReasoningUnderItsNameAndAnUnknownFinishReason) {
  const AnswerCollector collector =
      collected(event(R"("delta":{"reasoning_content":"h\u006d","reasoning":"hm"},"finish_reason":null)") +
                event(R"("delta":{"content":null},"finish_reason":"content_filter")"));
  const std::string made = collector.document("i", "m", {});
  EXPECT_NE(made.find(R"("content":null,"refusal":null,"reasoning_content":"h\u006d"})"), std::string::npos) << made;
  EXPECT_NE(made.find(R"("finish_reason":"content_filter")"), std::string::npos) << made;
}

TEST(AnswerCollector, AnErrorInTheStreamIsTheAnswer) {
  const AnswerCollector collector =
      collected(event(R"("delta":{"content":"a"})") + R"(data: {"error":{"message":"no","code":400}})" + "\n\n");
  EXPECT_FALSE(collector.whole());
  EXPECT_EQ(collector.error(), R"({"error":{"message":"no","code":400}})");
  EXPECT_EQ(collector.error_status(), 400);
  EXPECT_EQ(collected("data: {\"error\":{\"message\":\"no\"}}\n").error_status(), 502);
}

TEST(AnswerCollector, LimitsItsSize) {
  AnswerCollector collector{true};
  const std::string piece = event(R"("delta":{"content":")" + std::string(100'000, 'a') + "\"}");
  for (int i = 0; i < 60; ++i) collector.take(piece);
  EXPECT_TRUE(collector.full());
  EXPECT_LE(collector.document("i", "m", {}).size(), AnswerCollector::kTextBytesMax + 1000);
  EXPECT_TRUE(collected("data: " + std::string(2 * AnswerCollector::kEventBytesMax, 'a')).full());
}

TEST(AnswerCollector, IgnoresEventsThatAreNotJson) {
  const AnswerCollector collector = collected("data: {\"choices\":[{\"delta\":\n\n: note\n\ndata: 7\n\nevent: x\n\n" +
                                              event(R"("delta":{"content":"a"})") + "data: []\n\n");
  EXPECT_NE(collector.document("i", "m", {}).find(R"("content":"a")"), std::string::npos);
  EXPECT_FALSE(collector.whole());
}

}  // namespace
}  // namespace penstock::api
