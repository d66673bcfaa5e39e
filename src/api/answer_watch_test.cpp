#include <fmt/format.h>
#include <gtest/gtest.h>

#include "api/answer_watch.h"
#include "core/random.h"

namespace penstock::api {
namespace {

AnswerWatch watched(std::string_view bytes, bool stream = true) {
  AnswerWatch watch;
  watch.reset(stream);
  watch.take(bytes);
  return watch;
}

std::string choice(const std::string& inner) { return R"(data: {"id":"x","choices":[{"index":0,)" + inner + "}]}\n\n"; }

std::string stream_of(int texts) {
  const AnswerFrame frame{"chatcmpl-1", "m", 1, true};
  std::string out;
  append_first_event(out, frame);
  for (int i = 0; i < texts; ++i) append_text_event(out, frame, i % 3 == 0 ? " \"data\": {\n" : "token");
  append_finish_event(out, frame, FinishReason::kStop);
  append_usage_event(out, frame, {100, 41, 64});
  out += kDoneEvent;
  return out;
}

std::string chunked(std::string_view body, core::RandomStream& random, std::uint64_t chunk_max) {
  std::string out;
  while (!body.empty()) {
    const std::string_view chunk = body.substr(0, 1 + random.below(chunk_max));
    out += fmt::format("{:x}{}\r\n{}\r\n", chunk.size(), random.below(4) == 0 ? ";name=\"a\"" : "", chunk);
    body.remove_prefix(chunk.size());
  }
  return out + "0\r\nTrailer: 5\r\n\r\n";
}

TEST(AnswerWatch, NamesWhatAnAddedEventNeeds) {
  const AnswerFrame other{"other", "another", 7, true};
  const AnswerFrame frame = watched(stream_of(3)).frame(other);
  EXPECT_EQ(frame.id, "chatcmpl-1");
  EXPECT_EQ(frame.model, "m");
  EXPECT_EQ(frame.created, 1);
  EXPECT_EQ(watched("").frame(other).id, "other");
  const AnswerFrame partly = watched(choice(R"("delta":{"content":"hi"})")).frame(other);
  EXPECT_EQ(partly.id, "x");
  EXPECT_EQ(partly.model, "another");
  EXPECT_EQ(partly.created, 7);
}

TEST(AnswerWatch, CountsEventsThatBringText) {
  const auto watch = watched(stream_of(40));
  EXPECT_EQ(watch.text_events(), 40U);
  EXPECT_EQ(watch.usage(), (Usage{100, 41, 64}));
  EXPECT_TRUE(watch.done());
}

TEST(AnswerWatch, DetectsEventsWithText) {
  for (const char* inner :
       {R"("delta":{"content":"a"})", R"("delta": {"role":"assistant", "content" : "\""})", R"("text":" ")",
        R"("text":"","delta":{"content":"x"})", R"("delta":{"reasoning_content":"hm"})",
        R"("delta":{"reasoning":"hm"})", R"("delta":{"content":null,"tool_calls":[{"index":0}]})",
        R"("delta":{"refusal":"no"})", R"("delta":{"function_call":{"name":"f"}})",
        R"("finish_reason":"content","delta":{"content":"b"})", R"("note":"a \" \\\\","delta":{"content":"b"})",
        R"("delta":{"thinking":"b"})"})
    EXPECT_EQ(watched(choice(inner)).text_events(), 1U) << inner;
  for (const char* inner :
       {R"("delta":{"role":"assistant","content":""})", R"("delta":{})", R"("text":"")", R"("delta":{"content":null})",
        R"("delta":{"tool_calls":[]})", R"("delta":{"tool_calls":null})", R"("finish_reason":"content")",
        R"("delta":{},"logprobs":{"content":[{"token":"a"}]})",
        R"("note":"\"content\":\"x\"","delta":{"role":"tool"})"})
    EXPECT_EQ(watched(choice(inner)).text_events(), 0U) << inner;
  EXPECT_EQ(watched("data: {\"content\":\"a\"}\n\n: {\"choices\":[{\"text\":\"a\"}]}\n\nevent: x\n\n").text_events(),
            0U);
}

TEST(AnswerWatch, ReturnsTheEventsCompletedByEachPiece) {
  AnswerWatch watch;
  watch.reset(true);
  const std::string event = choice(R"("text":"a")");
  EXPECT_EQ(watch.take(event + event + event.substr(0, 30)), 2U);
  EXPECT_EQ(watch.take(event.substr(30)), 1U);
  EXPECT_EQ(watch.take(""), 0U);
  watch.reset(true);
  EXPECT_EQ(watch.text_events(), 0U);
  EXPECT_EQ(watch.take(event), 1U);
}

TEST(AnswerWatch, TakesOtherLineEndsAndCutsAtWholeEvents) {
  std::string stream = choice(R"("text":"a")") + "data:[DONE]\n\n";
  std::string with_returns;
  for (const char c : stream) with_returns += c == '\n' ? std::string{"\r\n"} : std::string{c};
  for (const auto& bytes : {stream, with_returns}) {
    EXPECT_EQ(watched(bytes).text_events(), 1U);
    EXPECT_TRUE(watched(bytes).done());
  }
  EXPECT_FALSE(watched(stream.substr(0, stream.size() - 2)).done());  // its line has not ended
}

TEST(AnswerWatch, KnowsWhetherAnEventHasEnded) {
  const std::string event = choice(R"("delta":{"content":"x"})");
  for (std::size_t end = 1; end < event.size(); ++end) EXPECT_TRUE(watched(event.substr(0, end)).within_event()) << end;
  EXPECT_FALSE(watched(event).within_event());
  EXPECT_FALSE(watched("data: {}\r\n\r\n").within_event());
  EXPECT_TRUE(watched("data: {}\r\n\r").within_event());
  EXPECT_FALSE(watched("").within_event());
  EXPECT_FALSE(watched("half", false).within_event()) << "an answer that is no stream has none";
}

TEST(AnswerWatch, FindsEventsAcrossChunks) {
  core::RandomStream random{3};
  for (const bool stream : {true, false}) {
    const std::string body =
        stream ? stream_of(25)
               : whole_answer({"x", "m", 1, true}, std::string(3000, 'u'), FinishReason::kStop, {100, 41, 64});
    for (int i = 0; i < 300; ++i) {
      const std::string bytes = chunked(body, random, i < 100 ? 3 : 400);
      AnswerWatch watch;
      watch.reset(stream);
      std::uint32_t counted = 0;
      for (std::string_view rest = bytes; !rest.empty();) {
        const std::size_t piece = 1 + random.below(i % 2 == 0 ? 5 : 2000);
        counted += watch.take(rest.substr(0, piece));
        rest.remove_prefix(std::min(piece, rest.size()));
      }
      ASSERT_EQ(counted, stream ? 25U : 0U);
      ASSERT_EQ(watch.usage(), (Usage{100, 41, 64}));
      ASSERT_EQ(watch.done(), stream);
    }
  }
}

TEST(AnswerWatch, CountsTheEventsOfARealEngine) {
  const std::string event =
      R"(data: {"id":"chatcmpl-d","object":"chat.completion.chunk","created":1,"model":"da","choices":[{"index":0,)"
      R"("delta":{"content":" abc"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":)"
      R"({"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}})"
      "\n\n";
  const auto watch = watched(fmt::format("{:X}\r\n{}\r\n", event.size(), event));
  EXPECT_EQ(watch.text_events(), 1U);
  EXPECT_EQ(watch.usage(), (Usage{3, 2, 0, false}));
}

TEST(AnswerWatch, TakesTheLastUsage) {
  EXPECT_EQ(watched(R"({"usage":{"prompt_tokens":1,"completion_tokens":2},"x":1,"usage": {"prompt_tokens" : 3,
    "prompt_tokens_details":{"audio":null,"cached_tokens":2},"completion_tokens":4 } })",
                    false)
                .usage(),
            (Usage{3, 4, 2}));
  for (const char* none : {R"({"usage":null})", R"({"usage":{"prompt_tokens":1)", R"({"content":"\"usage\":{}"})", "{}",
                           R"({"usage":{"prompt_tokens":99999999999999999999,"completion_tokens":5}})",
                           R"({"usage":{"prompt_tokens":4294967296,"completion_tokens":5}})",
                           R"({"usage":{"prompt_tokens":9,"completion_tokens":-5}})",
                           R"({"usage":{"prompt_tokens":9,"completion_tokens":5.5}})"})
    EXPECT_FALSE(watched(none, false).usage().has_value()) << none;
}

TEST(AnswerWatch, FindsUsageOnlyAtItsPlace) {
  constexpr const char* kEcho = R"("tools":[{"parameters":{"properties":{"usage":{"input_tokens":7}}}}])";
  EXPECT_FALSE(watched(fmt::format("{{{}}}", kEcho), false).usage().has_value());
  const auto watch =
      watched(fmt::format("data: {{\"type\":\"response.created\",\"response\":{{{}}}}}\n\n"
                          "data: "
                          "{{\"type\":\"response.completed\",\"response\":{{\"usage\":{{\"input_tokens\":9,\"output_"
                          "tokens\":2}},{}}}}}\n\n",
                          kEcho, kEcho));
  EXPECT_EQ(watch.usage(), (Usage{9, 2, 0, false}));
  EXPECT_TRUE(watch.whole());
}

TEST(AnswerWatch, KnowsTheNamesOfOtherEndpoints) {
  const auto usage_in = [](const char* json) { return watched(json, false).usage(); };
  EXPECT_EQ(usage_in(R"({"output":[],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},)"
                     R"("output_tokens":3,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":12}})"),
            (Usage{9, 3, 4, true, 1}));
  EXPECT_EQ(usage_in(R"({"data":[],"usage":{"prompt_tokens":7,"total_tokens":7}})"), (Usage{7, 0, 0, false}));
  EXPECT_EQ(usage_in(R"({"results":[],"usage":{"total_tokens":5}})"), (Usage{5, 0, 0, false}));
}

TEST(AnswerWatch, CountsEventsOfAChoiceWithoutText) {
  const auto watch = watched(
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}]}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":4}}\n\n");
  EXPECT_EQ(watch.text_events(), 2U);
  EXPECT_EQ(watch.choice_events(), 4U);
}

TEST(AnswerWatch, CountsTheDeltasOfAResponse) {
  const auto watch = watched(
      "event: response.created\n"
      R"(data: {"type":"response.created","response":{"id":"r","usage":null}})"
      "\n\nevent: response.output_text.delta\n"
      R"(data: {"type":"response.output_text.delta","item_id":"m","delta":"Hel"})"
      "\n\nevent: response.output_text.delta\n"
      R"(data: {"type":"response.output_text.delta","item_id":"m", "delta" : "lo"})"
      "\n\nevent: response.output_text.done\n"
      R"(data: {"type":"response.output_text.done","text":"Hello"})"
      "\n\nevent: response.completed\n"
      R"(data: {"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":2}}})"
      "\n\n");
  EXPECT_EQ(watch.text_events(), 2U);
  EXPECT_EQ(watch.usage(), (Usage{9, 2, 0, false}));
}

TEST(AnswerWatch, FindsUsageInFrontOfALongAnswer) {
  EXPECT_EQ(
      watched(R"({"usage":{"prompt_tokens":1,"completion_tokens":2},"text":")" + std::string(9000, 'x') + "\"}", false)
          .usage(),
      (Usage{1, 2, 0, false}));
}

TEST(AnswerWatch, CountsLongEventsAndFindsTheirUsage) {
  const std::string event = R"(data: {"choices":[{"text":")" + std::string(9000, 'x') +
                            R"("}],"usage":{"prompt_tokens":1,"completion_tokens":2}})" + "\r\n\r\n";
  for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, event.size()}) {
    AnswerWatch watch;
    watch.reset(true);
    for (std::size_t at = 0; at < event.size(); at += piece) watch.take(std::string_view{event}.substr(at, piece));
    EXPECT_EQ(watch.text_events(), 1U);
    EXPECT_EQ(watch.usage(), (Usage{1, 2, 0, false}));
  }
}

TEST(AnswerWatch, CountsTheBytesOfTextAnywhereInAnEvent) {
  const std::string front = R"("note":")" + std::string(1500, 'n') + R"(",)";
  const auto watch = watched(choice(front + R"("delta":{"content":"12345"})") + choice(R"("delta":{"content":"123"})") +
                             choice(R"("delta":{"content":"1234"})") +
                             choice(R"("delta":{"tool_calls":[{"index":0,"function":{"arguments":"12"}}]})"));
  EXPECT_EQ(watch.text_events(), 4U);
  EXPECT_EQ(watch.text_bytes(), 14U);
  EXPECT_EQ(watched(R"({"choices":[{"message":{"role":"assistant","content":"12345"}}]})", false).text_bytes(), 5U);
  EXPECT_EQ(
      watched(R"({"output":[{"type":"message","content":[{"type":"output_text","text":"123"}]}]})", false).text_bytes(),
      3U);
}

TEST(AnswerWatch, KnowsWhetherAStreamHasItsEnd) {
  const std::string text = choice(R"("delta":{"content":"x"},"finish_reason":null)");
  for (const std::string& end : {std::string{kDoneEvent}, choice(R"("delta":{},"finish_reason":"stop")"),
                                 choice(R"("delta":{"content":"y"},"finish_reason":"length")"),
                                 std::string{"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
                                 std::string{"data: {\"type\":\"response.completed\",\"response\":{}}\n\n"},
                                 std::string{"data: {\"type\":\"response.incomplete\",\"response\":{}}\n\n"}})
    EXPECT_TRUE(watched(text + end).whole()) << end;
  for (const std::string& end :
       {std::string{}, std::string{": comment\n\n"}, std::string{"event: ping\ndata: {\"type\":\"ping\"}\n\n"},
        std::string{"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n"}})
    EXPECT_FALSE(watched(text + end).whole()) << end;
  EXPECT_TRUE(watched(R"({"choices":[]})"
                      "\n",
                      false)
                  .whole());
  for (const std::string_view part : {"", "{", R"({"choices":[)", R"({"choices":[]}x)"})
    EXPECT_FALSE(watched(part, false).whole()) << part;
}

TEST(AnswerWatch, AStreamOfSeveralChoicesEndsWithTheLastOfThem) {
  const auto finish = [](int index) {
    return fmt::format(R"(data: {{"choices":[{{"finish_reason":"stop","index":{}}}]}})"
                       "\n\n",
                       index);
  };
  const auto watch_of = [](std::uint64_t choices, std::string_view bytes) {
    AnswerWatch watch;
    watch.reset(true, choices);
    watch.take(bytes);
    return watch;
  };
  EXPECT_TRUE(watch_of(1, finish(0)).whole());
  EXPECT_FALSE(watch_of(2, finish(0)).whole());
  EXPECT_FALSE(watch_of(2, finish(1) + finish(1)).whole());
  EXPECT_TRUE(watch_of(2, finish(1) + finish(0)).whole());
  EXPECT_TRUE(watch_of(2,
                       "data: {\"choices\":[{\"index\":0,\"finish_reason\":\"stop\"},"
                       "{\"index\":1,\"finish_reason\":\"length\"}]}\n\n")
                  .whole());
  EXPECT_TRUE(watch_of(2, std::string{kDoneEvent}).whole());
  EXPECT_TRUE(watch_of(2, "data: {\"type\":\"response.completed\"}\n\n").whole());
  const AnswerWatch open = watch_of(3, finish(1));
  EXPECT_FALSE(open.has_finished(0));
  EXPECT_TRUE(open.has_finished(1));
  EXPECT_FALSE(open.has_finished(2));
  std::string all;
  for (int index = 0; index < 200; ++index) all += finish(index);
  EXPECT_TRUE(watch_of(kChoicesKnown, all).whole());
  EXPECT_FALSE(watch_of(kChoicesKnown + 1, all).whole());
}

TEST(AnswerWatch, KnowsWhetherAnEventCarriesSomething) {
  for (const std::string& event :
       {choice(R"("delta":{"content":"a"})"), choice(R"("delta":{"tool_calls":[{"index":0}]})"),
        choice(R"("delta":{"reasoning_content":"a"})"), choice(R"("delta":{},"finish_reason":"stop")"),
        choice(R"("text":"","token_ids":[7])"), choice(R"("text":"","logprobs":{"tokens":["a"]})"),
        std::string{"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n"},
        std::string{"data: {\"type\":\"response.output_item.added\",\"item\":{}}\n\n"}, std::string{"data: {}\n\n"}})
    EXPECT_TRUE(watched(event).has_content()) << event;
  for (const std::string& event :
       {std::string{": ping\n\n"}, std::string{"event: x\n\n"}, std::string{kDoneEvent}, std::string{"data: {\n\n"},
        choice(R"("delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null)"),
        choice(R"("delta":{"role":"assistant"}})"
               R"(],"usage":{"prompt_tokens":3,"completion_tokens":0},"x":[{"a":1)"),
        std::string{"data: {\"error\":{\"message\":\"no\",\"code\":500}}\n\n"},
        std::string{"data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n"},
        std::string{"data: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n"},
        std::string{"data: {\"type\":\"response.in_progress\",\"response\":{\"id\":\"r\"}}\n\n"}})
    EXPECT_FALSE(watched(event).has_content()) << event;
}

TEST(AnswerWatch, KnowsEventsThatAreNotJson) {
  for (const char* bad : {"data: {\n\n", "data: {broken}\n\n", "data: nonsense\n\n", "data: {\"a\":1}}\n\n",
                          "data: {\"a\":1,}\n\n", "data: {\"a\" 1}\n\n", "data: {\"a\":[}\n\n"})
    EXPECT_TRUE(watched(bad).malformed()) << bad;
  for (const char* good :
       {"data: {}\n\n", "data: [DONE]\n\n", "data:\n\n", "data: \r\n\r\n", ": ping\n\n", "event: x\n\n",
        "data: {\"a\":[1,-2.5e3,null,true,{\"b\":[]}]}\n\n", "data: {\"a\":NaN}\n\n"})
    EXPECT_FALSE(watched(good).malformed()) << good;
}

TEST(AnswerWatch, FindsErrorsAndTheirStatus) {
  EXPECT_EQ(watched(R"(data: {"error":{"message":"no","code":400}})"
                    "\n\n")
                .error_status(),
            400);
  EXPECT_EQ(watched(R"(data: {"error":{"message":"no","type":"BadRequestError"}})"
                    "\n\n")
                .error_status(),
            400);
  EXPECT_EQ(watched(R"(data: {"error":{"message":"dead","code":null}})"
                    "\n\n")
                .error_status(),
            502);
  EXPECT_EQ(watched("data: {\"type\":\"error\",\"code\":\"server_error\"}\n\n").error_status(), 502);
  EXPECT_EQ(watched("data: {\"error\":null,\"choices\":[]}\n\n").error_status(), 0);
}

TEST(AnswerWatch, SettlesWholeEventsAndHoldsUsageEvents) {
  const AnswerFrame frame{"chatcmpl-1", "m", 1, true};
  std::string text, usage;
  append_text_event(text, frame, "x");
  append_usage_event(usage, frame, {1, 2, 3});
  AnswerWatch watch;
  watch.reset(true);
  const std::string first = fmt::format("{:x}\r\n{}\r\n", text.size(), text);
  const std::string second = fmt::format("{:x}\r\n{}\r\n", usage.size(), usage);
  watch.take(first);
  EXPECT_EQ(watch.settled(), first.size());
  watch.take(first + second.substr(0, 40));
  EXPECT_EQ(watch.settled(), first.size());
  EXPECT_EQ(watch.usage_events(), 0U);
  watch.take(second.substr(40));
  EXPECT_EQ(watch.settled(), second.size() - 40);
  EXPECT_EQ(watch.usage_events(), 1U);
  const std::string last = "0\r\n\r\n";
  watch.take(first + last);
  EXPECT_TRUE(watch.over());
  EXPECT_EQ(watch.last_chunk_at(), first.size());
  EXPECT_EQ(without_usage_events(text + usage + text + std::string{kDoneEvent}), text + text + std::string{kDoneEvent});
}

TEST(AnswerWatch, StopsAtInvalidFraming) {
  const std::string event = choice(R"("text":"a")");
  EXPECT_EQ(watched(fmt::format("{:x}\r\n{}\r\nzz\r\n{}", event.size(), event, event)).text_events(), 1U);
  EXPECT_EQ(watched(fmt::format("{:x}\r\n{}\r\n0\r\n\r\n{}", event.size(), event, event)).text_events(), 1U);
  EXPECT_EQ(watched("ffffffffffffffffffffff\r\n" + event).text_events(), 1U);  // no size, so no chunks
}

}  // namespace
}  // namespace penstock::api
