#include "engine_server/answer_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace penstock::engine_server {
namespace {

std::string text_of(const AnswerPlan& plan) {
  std::string text;
  append_answer(text, plan, 0, plan.tokens);
  return text;
}

TEST(AnswerPlan, TokensAreFourBytesAndTheSameForTheSameSeedAndPrompt) {
  const AnswerPlan plan = plan_answer({}, prompt_hash("hello"), {12, true, {}});
  EXPECT_EQ(plan.tokens, 12U);
  EXPECT_EQ(plan.finish, api::FinishReason::kLength);
  const std::string text = text_of(plan);
  ASSERT_EQ(text.size(), 48U);
  for (std::size_t i = 0; i < text.size(); ++i) EXPECT_EQ(text[i] == ' ', i % 4 == 0) << text;
  EXPECT_EQ(text, text_of(plan_answer({}, prompt_hash("hello"), {12, true, {}})));
  EXPECT_NE(text, text_of(plan_answer({}, prompt_hash("hellp"), {12, true, {}})));
  EXPECT_NE(text, text_of(plan_answer({.seed = 2}, prompt_hash("hello"), {12, true, {}})));
}

TEST(AnswerPlan, PiecesMakeUpTheWhole) {
  const AnswerPlan plan = plan_answer({}, 7, {10, true, {}});
  std::string pieces;
  for (std::uint32_t i = 0; i < 10; ++i) append_answer(pieces, plan, i, i + 1);
  EXPECT_EQ(pieces, text_of(plan));
}

TEST(AnswerPlan, NaturalLengthsHaveTheMedianAndAreCutAtMaxTokens) {
  std::vector<std::uint32_t> lengths;
  std::size_t cut = 0;
  for (std::uint64_t prompt = 0; prompt < 4001; ++prompt) {
    const AnswerPlan plan = plan_answer({}, prompt, {400, false, {}});
    ASSERT_GE(plan.tokens, 1U);
    ASSERT_LE(plan.tokens, 400U);
    if (plan.finish == api::FinishReason::kLength) {
      ASSERT_EQ(plan.tokens, 400U);
      ++cut;
    }
    lengths.push_back(plan.tokens);
  }
  std::nth_element(lengths.begin(), lengths.begin() + 2000, lengths.end());
  EXPECT_NEAR(lengths[2000], 150.0, 10.0);
  EXPECT_NEAR(static_cast<double>(cut) / 4001.0, 0.0806, 0.02);  // 1 - Φ(ln(400/150) / 0.7)
}

TEST(AnswerPlan, AStopStringEndsTheAnswerAndIsNotPartOfIt) {
  const std::string whole = text_of(plan_answer({}, 7, {50, true, {}}));
  const std::vector<std::string> stop = {whole.substr(42, 5)};  // within tokens 10 and 11
  const AnswerPlan plan = plan_answer({}, 7, {50, true, stop});
  EXPECT_EQ(plan.finish, api::FinishReason::kStop);
  EXPECT_EQ(plan.tokens, 12U);
  EXPECT_EQ(text_of(plan), whole.substr(0, 42));
  std::string last;
  append_answer(last, plan, 11, 12);
  EXPECT_EQ(last, "");
}

TEST(AnswerPlan, TheStopStringThatComesFirstCounts) {
  const std::string whole = text_of(plan_answer({}, 7, {50, true, {}}));
  const std::vector<std::string> stop = {whole.substr(100, 8), whole.substr(20, 4), "no such text", ""};
  const AnswerPlan plan = plan_answer({}, 7, {50, true, stop});
  EXPECT_EQ(plan.tokens, 6U);
  EXPECT_EQ(text_of(plan), whole.substr(0, 20));
}

TEST(AnswerPlan, OfStopStringsThatEndInOneTokenTheLongerOneIsCutOff) {
  const std::string whole = text_of(plan_answer({}, 7, {50, true, {}}));
  const std::vector<std::string> stop = {whole.substr(22, 1), whole.substr(18, 5)};
  EXPECT_EQ(text_of(plan_answer({}, 7, {50, true, stop})).size(), 18U);
}

TEST(PromptHash, EveryByteCounts) {
  std::string text(100, 'a');
  const std::uint64_t before = prompt_hash(text);
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = 'b';
    EXPECT_NE(prompt_hash(text), before) << i;
    text[i] = 'a';
  }
  EXPECT_NE(prompt_hash({}), prompt_hash(std::string_view{"\0", 1}));
}

}  // namespace
}  // namespace penstock::engine_server
