// Caps of tenants and models on the tokens of a prompt and of an answer.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <utility>

#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;

constexpr core::Instant kArrival = core::kStart + std::chrono::seconds{100};

TEST(TokenCaps, TheSmallerLimitOfEachKindHolds) {
  const TokenCaps made = tighter({100, 0}, {300, 50});
  EXPECT_EQ(made.prompt_tokens, 100U);
  EXPECT_EQ(made.completion_tokens, 50U);
  EXPECT_EQ(tighter({0, 70}, {0, 60}).prompt_tokens, 0U) << "no limit";
  EXPECT_EQ(tighter({0, 70}, {0, 60}).completion_tokens, 60U);
}

class TokenCapsTest : public ::testing::Test {
 protected:
  void use(const TokenCaps& of_model, const TokenCaps& of_tenant) {
    options.models[0].caps = of_model;
    options.tenants[0].caps = of_tenant;
    apply();
  }
  void apply() {
    dispatcher.reconfigure(options, kArrival);
    dispatcher.set_replicas({replica_named("r1")}, kArrival);
  }
  ArrivalResult arrive(RequestInfo info) {
    info.received_at = kArrival;
    const ArrivalResult arrived = dispatcher.arrive(info, listener, kArrival);
    if (arrived.ticket != 0) dispatcher.ended(arrived.ticket, {}, kArrival);
    return arrived;
  }
  ArrivalResult arrive_with(std::optional<std::uint32_t> max_tokens, std::size_t text_bytes = 400) {
    RequestInfo info = info_of(text_bytes);
    info.max_tokens = max_tokens;
    return arrive(info);
  }

  DispatchOptions options = options_for_tests();
  TestListener listener;
  Dispatcher dispatcher{options, nullptr, kArrival, core::Duration{}};
};

TEST_F(TokenCapsTest, AnAnswerAboveTheCapIsShortenedAndTheClientIsTold) {
  for (const auto& [of_model, of_tenant] : {std::pair{200U, 0U}, std::pair{0U, 200U}, std::pair{200U, 900U}}) {
    use({0, of_model}, {0, of_tenant});
    const ArrivalResult arrived = arrive_with(500);
    ASSERT_TRUE(arrived.grant);
    EXPECT_EQ(arrived.grant->max_tokens, 200U);
    EXPECT_EQ(arrived.grant->lowered_max_tokens(), 200U);
  }
  EXPECT_EQ(dispatcher.counters().clamped, 3U);
  const ArrivalResult within = arrive_with(200);
  ASSERT_TRUE(within.grant);
  EXPECT_FALSE(within.grant->max_tokens) << "the body stays as it is";
  EXPECT_FALSE(within.grant->lowered_max_tokens());
}

TEST_F(TokenCapsTest, ARequestWithoutMaxTokensGetsTheCap) {
  use({0, 200}, {});
  const ArrivalResult chat = arrive_with(std::nullopt);
  ASSERT_TRUE(chat.grant);
  EXPECT_EQ(chat.grant->lowered_max_tokens(), 200U);
  RequestInfo completion = info_of(400);
  completion.max_tokens_default = 16;
  const ArrivalResult arrived = arrive(completion);
  ASSERT_TRUE(arrived.grant);
  EXPECT_FALSE(arrived.grant->max_tokens) << "its engine gives it 16 tokens";
  RequestInfo embeddings = info_of(400);
  embeddings.max_tokens = 0;
  EXPECT_FALSE(arrive(embeddings).grant->max_tokens);
}

TEST_F(TokenCapsTest, AWrittenCapLeavesRoomForThePrompt) {
  use({0, 10'000}, {});
  RequestInfo info = info_of(100'000);
  const ArrivalResult estimated = arrive(info);
  ASSERT_TRUE(estimated.grant);
  EXPECT_EQ(estimated.grant->max_tokens, 32'768U - (25'000 + 25'000 / 8 + 64)) << "a margin for the estimate";
  EXPECT_FALSE(estimated.grant->lowered_max_tokens()) << "the context ends the answer, not the cap";
  info.prompt_tokens_given = 25'000;
  info.prompt_was_counted = true;
  const ArrivalResult counted = arrive(info);
  ASSERT_TRUE(counted.grant);
  EXPECT_EQ(counted.grant->max_tokens, 32'768U - 25'000);
}

TEST_F(TokenCapsTest, AnAnswerThatTheCapShortensIsCheckedAgainstTheContextAsItIs) {
  use({}, {0, 200});
  EXPECT_TRUE(arrive_with(100'000).grant) << "the model has 32,768 tokens";
  use({}, {});
  EXPECT_TRUE(arrive_with(100'000).refusal);
}

TEST_F(TokenCapsTest, TheCapAndTheClampOfAQueueComposeByTheSmaller) {
  options.interactive.degrade = {0, 300};
  for (const auto& [cap, expected] : {std::pair{200U, 200U}, std::pair{400U, 300U}}) {
    options.models[0].caps.completion_tokens = cap;
    options.tenants[0].caps = {};
    apply();
    dispatcher.set_replicas({}, kArrival);
    RequestInfo info = info_of(400);
    info.max_tokens = 1'000;
    info.received_at = kArrival;
    const ArrivalResult first = dispatcher.arrive(info, listener, kArrival);
    const ArrivalResult second = dispatcher.arrive(info, listener, kArrival);
    ASSERT_TRUE(first.ticket != 0 && second.ticket != 0 && !first.grant);
    dispatcher.set_replicas({replica_named("r1")}, kArrival);
    dispatcher.tick(kArrival);
    ASSERT_TRUE(listener.grants.contains(first.ticket));
    EXPECT_EQ(listener.grants.at(first.ticket).lowered_max_tokens(), expected) << "while the second one waits";
    dispatcher.ended(first.ticket, {}, kArrival);
    dispatcher.ended(second.ticket, {}, kArrival);
  }
}

TEST_F(TokenCapsTest, ABudgetReservesNoMoreThanTheCap) {
  options.tenants[0].budget = {10'000.0, 10'000.0};
  use({0, 200}, {});
  for (const std::optional<std::uint32_t> max_tokens : {std::optional<std::uint32_t>{}, std::optional{5'000U}}) {
    RequestInfo info = info_of(400);
    info.max_tokens = max_tokens;
    info.received_at = kArrival;
    const double before = dispatcher.overview(kArrival).tenants[0].budget_available;
    const ArrivalResult arrived = dispatcher.arrive(info, listener, kArrival);
    ASSERT_TRUE(arrived.grant);
    EXPECT_EQ(arrived.grant->lowered_max_tokens(), 200U);
    EXPECT_DOUBLE_EQ(before - dispatcher.overview(kArrival).tenants[0].budget_available, 400.0 + 200.0)
        << "a token for each byte of the prompt, and the answer";
    dispatcher.ended(arrived.ticket, {}, kArrival);
  }
}

TEST_F(TokenCapsTest, APromptAboveTheCapIsRefused) {
  use({1'000, 0}, {300, 0});
  const ArrivalResult refused = arrive_with(100, 4 * 400);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->reason, RefusalReason::kContextLengthExceeded);
  EXPECT_EQ(refused.refusal->message,
            "the prompt has about 400 tokens, the limit (max_prompt_tokens) is 300; shorten the prompt");
  EXPECT_TRUE(arrive_with(5'000, 4 * 290).grant) << "the answer does not count";
  RequestInfo ids = info_of(0);
  ids.prompt_tokens_given = 301;
  EXPECT_EQ(arrive(ids).refusal->message,
            "the prompt has 301 tokens, the limit (max_prompt_tokens) is 300; shorten the prompt");
  ids.prompt_tokens_given = 300;
  EXPECT_TRUE(arrive(ids).grant);
  ids.prompt_tokens_given = 1'200;
  ids.prompts = 4;
  EXPECT_TRUE(arrive(ids).grant) << "of each of several prompts";
}

TEST_F(TokenCapsTest, APromptNearTheCapIsCounted) {
  use({}, {3'000, 0});
  const auto counts = [&](std::size_t text_bytes) {
    RequestInfo info = info_of(text_bytes);
    info.may_count_prompt = true;
    return arrive(info).count_prompt;
  };
  EXPECT_FALSE(counts(4 * 2'200));
  EXPECT_TRUE(counts(4 * 2'400)) << "4/3 of 2,400 tokens exceed it";
  EXPECT_TRUE(counts(16 * 3'000));
  EXPECT_FALSE(counts(16 * 3'001)) << "no tokenizer could fit it";
}

TEST_F(TokenCapsTest, APromptAboveTheCapIsTruncatedWherePolicySaysSo) {
  options.models[0].over_context = OverContext::kTruncate;
  use({}, {3'000, 0});
  RequestInfo info = info_of(40'000);
  info.max_tokens = 5'000;
  info.template_tokens = 256;
  info.may_truncate_prompt = true;
  const ArrivalResult arrived = arrive(info);
  ASSERT_TRUE(arrived.prompt_excess);
  info.text_bytes -=
      static_cast<std::size_t>(std::ceil(arrived.prompt_excess->tokens / arrived.prompt_excess->tokens_per_text_byte));
  info.may_count_prompt = true;
  info.untruncated_prompt_tokens = arrived.prompt_tokens;
  const ArrivalResult again = arrive(info);
  EXPECT_FALSE(again.count_prompt || again.prompt_excess);
  ASSERT_TRUE(again.grant);
  EXPECT_GT(again.grant->prompt_tokens, (3'000 - 256) * 3 / 4 - 4) << "no more than necessary is dropped";
  EXPECT_EQ(again.grant->truncated_prompt_tokens, 10'000 - again.grant->prompt_tokens);

  RequestInfo ids = info_of(0);
  ids.prompt_tokens_given = 10'000;
  ids.text_bytes = 40'000;
  ids.may_truncate_prompt = true;
  const ArrivalResult of_ids = arrive(ids);
  ASSERT_TRUE(of_ids.prompt_excess);
  EXPECT_DOUBLE_EQ(of_ids.prompt_excess->tokens, 7'000.0);
}

}  // namespace
}  // namespace penstock::dispatch
