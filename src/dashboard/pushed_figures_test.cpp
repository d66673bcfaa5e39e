#include "dashboard/pushed_figures.h"

#include <gtest/gtest.h>

namespace penstock::dashboard {
namespace {

core::Instant at_s(int seconds) { return core::kStart + std::chrono::seconds{seconds}; }

TEST(PushedFigures, AddUpTokensAndKeepTheLastGauges) {
  PushedFigures pushed;
  ASSERT_TRUE(pushed.add(R"({"modelId":"m","inputTokens":10,"outputTokens":4,"ttftMs":200,"tpotMs":20,)"
                         R"("kvCacheOccupancy":0.5,"pendingQueue":7})",
                         at_s(100)));
  ASSERT_TRUE(
      pushed.add(R"({"modelId":"m","inputTokens":5,"outputTokens":6,"ttftMs":400,"pendingQueue":3})", at_s(101)));
  const auto figures = pushed.figures(at_s(110));
  ASSERT_EQ(figures.size(), 1U);
  EXPECT_EQ(figures[0].model, "m");
  EXPECT_EQ(figures[0].tokens_in, 15U);
  EXPECT_EQ(figures[0].tokens_out, 10U);
  EXPECT_EQ(figures[0].prefill_queue, 3U);
  EXPECT_EQ(figures[0].kv_usage, 0.5);
  EXPECT_EQ(figures[0].ttft_mean_s, 0.4);
  ASSERT_TRUE(figures[0].ttft_s);
  EXPECT_EQ(figures[0].ttft_s->count(), 2U);
  std::string text;
  telemetry::ExpositionWriter writer{text};
  telemetry::append_token_gauges(writer, figures);
  EXPECT_NE(text.find("llm_ttft_seconds{model_id=\"m\",source=\"push\"} 0.4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("llm_queue_depth{model_id=\"m\",source=\"push\"} 3\n"), std::string::npos) << text;
}

TEST(PushedFigures, GaugesOfAnOldPushAreUnknown) {
  PushedFigures pushed;
  ASSERT_TRUE(
      pushed.add(R"({"modelId":"m","inputTokens":10,"ttftMs":200,"pendingQueue":7,"kvCacheOccupancy":1})", at_s(0)));
  const auto figures = pushed.figures(at_s(61));
  EXPECT_EQ(figures.at(0).tokens_in, 10U);
  EXPECT_FALSE(figures[0].tokens_out) << "it was never pushed";
  EXPECT_FALSE(figures[0].prefill_queue || figures[0].kv_usage || figures[0].ttft_mean_s);
  ASSERT_TRUE(pushed.add(R"({"modelId":"m","inputTokens":1})", at_s(70)));
  EXPECT_FALSE(pushed.figures(at_s(70)).at(0).prefill_queue) << "the queue of 70 s ago is not that of now";
}

TEST(PushedFigures, RefuseWhatIsWrongAndTakeNothingOfIt) {
  PushedFigures pushed;
  for (const char* body :
       {"", "[]", "{}", R"({"modelId":""})", R"({"modelId":7})", R"({"modelId":"m","ttftMs":"1"})",
        R"({"modelId":"m","inputTokens":5,"kvCacheOccupancy":1.5})", R"({"modelId":"m","pendingQueue":-1})"})
    EXPECT_FALSE(pushed.add(body, at_s(0))) << body;
  EXPECT_TRUE(pushed.figures(at_s(0)).empty());
  for (std::size_t i = 0; i < kPushedModelsMax; ++i)
    ASSERT_TRUE(pushed.add("{\"modelId\":\"m" + std::to_string(i) + "\"}", at_s(0)));
  EXPECT_FALSE(pushed.add(R"({"modelId":"one more"})", at_s(0)));
}

}  // namespace
}  // namespace penstock::dashboard
