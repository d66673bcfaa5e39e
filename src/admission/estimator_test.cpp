#include "admission/estimator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/random.h"

namespace penstock::admission {
namespace {

using Request = TokenEstimator::Request;

Request request(std::size_t bytes, std::optional<std::uint32_t> max_tokens = std::nullopt) {
  return {"m", "acme", "interactive", bytes, 0, max_tokens};
}

TEST(TokenEstimator, StartsWithFourBytesPerTokenAnd256OutputTokens) {
  const TokenEstimator estimator;
  const TokenEstimate estimate = estimator.estimate(request(4000));
  EXPECT_EQ(estimate.prompt_tokens, 1000U);
  EXPECT_EQ(estimate.output_tokens, 256U);
  EXPECT_EQ(estimate.total(), 1256U);
}

TEST(TokenEstimator, IsClampedByMaxTokens) {
  TokenEstimator estimator;
  EXPECT_EQ(estimator.estimate(request(4000, 16)).output_tokens, 16U);
  EXPECT_EQ(estimator.estimate(request(4000, 0)).output_tokens, 0U);
  for (int i = 0; i < 200; ++i) estimator.learn(request(4000), 1000, 5000);
  EXPECT_GT(estimator.estimate(request(4000)).output_tokens, 4000U);
  EXPECT_EQ(estimator.estimate(request(4000, 300)).output_tokens, 300U);
}

TEST(TokenEstimator, ClientTokenIdsAreCountedAndNotLearned) {
  TokenEstimator estimator;
  Request counted = request(0);
  counted.prompt_tokens = 77;
  EXPECT_EQ(estimator.estimate(counted).prompt_tokens, 77U);
  counted.text_bytes = 10'000;
  for (int i = 0; i < 50; ++i) estimator.learn(counted, 77, 10);
  EXPECT_EQ(estimator.estimate(request(4000)).prompt_tokens, 1000U);
  EXPECT_FALSE(estimator.prompt_error());
}

TEST(TokenEstimator, ConvergesToAModelsBytesPerToken) {
  core::RandomStream random{7};
  TokenEstimator estimator;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t bytes = 200 + random.below(8000);
    estimator.learn(request(bytes), static_cast<std::uint32_t>(static_cast<double>(bytes) / random.uniform(2.0, 3.0)),
                    10);
  }
  EXPECT_NEAR(estimator.estimate(request(10'000)).prompt_tokens, 10'000 / 2.5, 200);
  EXPECT_LT(*estimator.prompt_error(), 0.15);
  Request other = request(10'000);
  other.model = "other";
  EXPECT_EQ(estimator.estimate(other).prompt_tokens, 2500U);  // This model has a different tokenizer.
}

TEST(TokenEstimator, FollowsAChangeOfTraffic) {
  TokenEstimator estimator;
  for (int i = 0; i < 300; ++i) estimator.learn(request(4000), 1000, 100);
  for (int i = 0; i < 300; ++i) estimator.learn(request(4000), 2000, 700);
  EXPECT_NEAR(estimator.estimate(request(4000)).prompt_tokens, 2000, 40);
  EXPECT_NEAR(estimator.estimate(request(4000)).output_tokens, 700, 40);
}

TEST(TokenEstimator, LearnsOutputByTenantAndClass) {
  TokenEstimator estimator;
  Request chatty = request(100), terse = request(100), fresh = request(100), batch = request(100);
  chatty.tenant = "chatty", terse.tenant = "terse", fresh.tenant = "fresh", batch.traffic_class = "batch";
  for (int i = 0; i < 200; ++i) {
    estimator.learn(chatty, 25, 900);
    estimator.learn(terse, 25, 100);
  }
  EXPECT_NEAR(estimator.estimate(chatty).output_tokens, 900, 60);
  EXPECT_NEAR(estimator.estimate(terse).output_tokens, 100, 60);
  EXPECT_EQ(estimator.estimate(fresh).output_tokens, 256U);
  EXPECT_EQ(estimator.estimate(batch).output_tokens, 256U);
}

TEST(TokenEstimator, ATenantsTrafficChangesNoOtherTenantsEstimate) {
  core::RandomStream random{11};
  TokenEstimator estimator;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 2 * TokenEstimator::kKeysMax; ++i) names.push_back("tenant-" + std::to_string(i));
  Request bob = request(30'000);
  bob.tenant = "bob";
  for (int i = 0; i < 20; ++i) estimator.learn(bob, 7'000, 80);
  const auto of = [&](TextKind kind) {
    bob.text_kind = kind;
    return estimator.estimate(bob);
  };
  const TokenEstimate ascii = of(TextKind::kAscii), other = of(TextKind::kNonAscii);
  for (const std::string& name : names) {
    Request alice = request(1 + random.below(100'000));
    alice.tenant = name;
    alice.text_kind = static_cast<TextKind>(random.below(2));
    alice.media_tokens = random.below(2) == 0 ? 1000 : 0;
    estimator.learn(alice, static_cast<std::uint32_t>(random.below(1'000'000)),
                    static_cast<std::uint32_t>(random.below(1'000'000)));
  }
  EXPECT_EQ(of(TextKind::kAscii).prompt_tokens, ascii.prompt_tokens);
  EXPECT_EQ(of(TextKind::kAscii).output_tokens, ascii.output_tokens);
  EXPECT_EQ(of(TextKind::kNonAscii).prompt_tokens, other.prompt_tokens);
}

TEST(TokenEstimator, KindsOfTextAreLearnedApart) {
  TokenEstimator estimator;
  Request emoji = request(4000);
  emoji.text_kind = TextKind::kNonAscii;
  EXPECT_EQ(estimator.estimate(emoji).prompt_tokens, 2000U);
  for (int i = 0; i < 200; ++i) estimator.learn(emoji, 4000, 10);
  EXPECT_NEAR(estimator.estimate(emoji).prompt_tokens, 4000, 100);
  EXPECT_EQ(estimator.estimate(request(4000)).prompt_tokens, 1000U);
}

TEST(TokenEstimator, MediaAreAddedAndNotLearnedAsText) {
  TokenEstimator estimator;
  Request picture = request(400);
  picture.media_tokens = 1024;
  EXPECT_EQ(estimator.estimate(picture).prompt_tokens, 1124U);
  for (int i = 0; i < 60; ++i) estimator.learn(picture, 16'000, 10);
  EXPECT_EQ(estimator.estimate(request(400)).prompt_tokens, 100U);
  picture.prompt_tokens = 7;
  EXPECT_EQ(estimator.estimate(picture).prompt_tokens, 1031U);
}

TEST(TokenEstimator, ATruncatedAnswerDoesNotLowerTheEstimate) {
  TokenEstimator estimator;
  for (int i = 0; i < 100; ++i) estimator.learn(request(100), 25, 500);
  const std::uint32_t before = estimator.estimate(request(100)).output_tokens;
  for (int i = 0; i < 100; ++i) estimator.learn(request(100, 5), 25, 5);
  EXPECT_EQ(estimator.estimate(request(100)).output_tokens, before);
  for (int i = 0; i < 200; ++i) estimator.learn(request(100, 2000), 25, 2000);
  EXPECT_GT(estimator.estimate(request(100)).output_tokens, 1500U);
}

TEST(TokenEstimator, ReportsItsErrorAfterTenAnswers) {
  TokenEstimator estimator;
  for (int i = 0; i < 9; ++i) estimator.learn(request(4000, 100), 1000, 80);
  EXPECT_FALSE(estimator.prompt_error());
  EXPECT_FALSE(estimator.output_error());
  estimator.learn(request(4000, 100), 1000, 80);
  EXPECT_DOUBLE_EQ(estimator.prompt_error().value(), 0.0);
  EXPECT_GT(estimator.output_error().value(), 0.0);
  EXPECT_LT(estimator.output_error().value(), 0.3);
}

TEST(TokenEstimator, InvalidUsageStaysWithinBounds) {
  TokenEstimator estimator;
  for (int i = 0; i < 300; ++i) estimator.learn(request(100), 4'000'000'000, 4'000'000'000);
  EXPECT_LE(estimator.estimate(request(1'000'000)).prompt_tokens, 4'000'000U);
  for (int i = 0; i < 300; ++i) estimator.learn(request(60'000'000), 1, 0);
  EXPECT_GE(estimator.estimate(request(64'000)).prompt_tokens, 64'000U / kBytesPerTokenMost);
  for (int i = 0; i < 300; ++i) estimator.learn(request(100), 0, 0);
  EXPECT_GE(estimator.estimate(request(0)).prompt_tokens, 1U);
}

TEST(TokenEstimator, KeysBeyondTheLimitKeepThePriors) {
  TokenEstimator estimator;
  std::string name;
  for (std::size_t i = 0; i <= TokenEstimator::kKeysMax; ++i) {
    name = "model-" + std::to_string(i);
    Request one = request(4000);
    one.model = name;
    estimator.learn(one, 2000, 700);
  }
  Request first = request(4000), last = request(4000);
  first.model = "model-0", last.model = name;
  EXPECT_GT(estimator.estimate(first).prompt_tokens, 1000U);
  EXPECT_EQ(estimator.estimate(last).prompt_tokens, 1000U);
  EXPECT_EQ(estimator.estimate(last).output_tokens, 256U);
}

}  // namespace
}  // namespace penstock::admission
