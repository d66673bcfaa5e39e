#include "dispatch/request_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;

constexpr core::Instant kNow = core::kStart + std::chrono::seconds{100};

class RequestCheckTest : public ::testing::Test {
 protected:
  ArrivalResult arrive(const RequestInfo& info) {
    RequestInfo timed = info;
    timed.received_at = kNow;
    return dispatcher.arrive(timed, listener, kNow);
  }

  TestListener listener;
  Dispatcher dispatcher{options_for_tests(), nullptr, kNow, core::Duration{}};
};

TEST_F(RequestCheckTest, AnUnknownModelMayBeRetriedUntilAllModelsAreKnown) {
  dispatcher.set_replicas({replica_named("r1")}, kNow);
  dispatcher.set_models_complete(false);
  RequestInfo info = info_of(400);
  EXPECT_TRUE(arrive(info).grant) << "a known model is served meanwhile";
  info.model = "later";
  const ArrivalResult early = arrive(info);
  ASSERT_TRUE(early.refusal);
  EXPECT_EQ(early.refusal->reason, RefusalReason::kNoReplica);
  EXPECT_EQ(early.refusal->retry_after_s, 1U);
  EXPECT_FALSE(early.is_work);
  dispatcher.set_models_complete(true);
  const ArrivalResult late = arrive(info);
  ASSERT_TRUE(late.refusal);
  EXPECT_EQ(late.refusal->reason, RefusalReason::kModelNotFound);
  EXPECT_EQ(late.refusal->retry_after_s, 0U);
}

TEST_F(RequestCheckTest, NamesThatClientsMakeUpAddNoSums) {
  dispatcher.set_replicas({replica_named("r1")}, kNow);
  for (const bool complete : {false, true}) {
    dispatcher.set_models_complete(complete);
    for (const char* name : {"made-up-1", "made-up-2", "made-up-3"}) {
      RequestInfo info = info_of(400);
      info.model = name;
      EXPECT_TRUE(arrive(info).refusal);
    }
  }
  RequestInfo long_prompt = info_of(16 * 32'769);
  EXPECT_TRUE(arrive(long_prompt).refusal) << "the refusal of a known model is counted under its name";
  std::vector<std::string> models;
  for (const auto& [key, sums] : dispatcher.balance().sums()) models.push_back(key.second);
  EXPECT_EQ(models, (std::vector<std::string>{"m", "unknown"}));
}

TEST_F(RequestCheckTest, APromptNearTheLimitIsCountedFirst) {
  dispatcher.set_replicas({replica_named("r1")}, kNow);
  const auto result = [&](std::size_t text_bytes, std::uint32_t max_tokens, std::uint32_t counted = 0) {
    RequestInfo info = info_of(text_bytes);
    info.max_tokens = max_tokens;
    info.may_count_prompt = counted == 0;
    info.prompt_tokens_given = counted;
    return arrive(info);
  };
  // The context has 32,768 tokens. The prior is 4 bytes per token, and no tokenizer has more than 16.
  for (const auto& [bytes, max_tokens, counts] :
       {std::tuple{4'000, 100, false}, std::tuple{80'000, 5'000, false}, std::tuple{98'400, 100, true},
        std::tuple{40'000, 25'000, true}, std::tuple{300'000, 100, true}, std::tuple{600'000, 100, false}}) {
    const ArrivalResult arrived = result(static_cast<std::size_t>(bytes), static_cast<std::uint32_t>(max_tokens));
    EXPECT_EQ(arrived.count_prompt, counts) << bytes;
    EXPECT_FALSE(counts && (arrived.grant || arrived.refusal || arrived.ticket != 0));
  }
  EXPECT_FALSE(result(300'000, 768, 32'000).refusal) << "the count says that it fits";
  const ArrivalResult refused = result(98'400, 769, 32'000);
  ASSERT_TRUE(refused.refusal);
  EXPECT_EQ(refused.refusal->reason, RefusalReason::kContextLengthExceeded);
  EXPECT_NE(refused.refusal->message.find("32769 tokens"), std::string::npos) << refused.refusal->message;
}

// The tokens of a text after the excess was dropped.
std::size_t bytes_left(std::size_t text_bytes, const core::PromptExcess& excess) {
  const double dropped = std::ceil(excess.tokens / excess.tokens_per_text_byte);
  return text_bytes - static_cast<std::size_t>(dropped);
}

class PromptExcessTest : public RequestCheckTest {
 protected:
  static DispatchOptions truncating() {
    DispatchOptions options = options_for_tests();
    options.models[0].over_context = OverContext::kTruncate;
    options.tenants.resize(2);
    options.tenants[1].name = "shop";
    options.tenants[1].context_tokens = 4'000;
    return options;
  }
  static RequestInfo long_prompt(std::size_t text_bytes, std::uint32_t tenant = 0) {
    RequestInfo info = info_of(text_bytes, tenant);
    info.max_tokens = 500;
    info.template_tokens = 256;
    info.may_truncate_prompt = true;
    return info;
  }
  void use(const DispatchOptions& options) {
    dispatcher.reconfigure(options, kNow);
    dispatcher.set_replicas({replica_named("r1")}, kNow);
  }
};

TEST_F(PromptExcessTest, OfAnEstimateLeavesAPromptThatIsNotNearTheLimit) {
  use(truncating());
  for (const auto& [tenant, text_bytes] : {std::pair{0U, 600'000U}, std::pair{0U, 140'000U}, std::pair{1U, 16'000U}}) {
    RequestInfo info = long_prompt(text_bytes, tenant);
    const ArrivalResult arrived = arrive(info);
    ASSERT_TRUE(arrived.prompt_excess) << text_bytes;
    EXPECT_FALSE(arrived.grant || arrived.refusal);
    EXPECT_EQ(arrived.prompt_tokens, text_bytes / 4);
    info.text_bytes = bytes_left(text_bytes, *arrived.prompt_excess);
    info.may_count_prompt = true;
    info.untruncated_prompt_tokens = arrived.prompt_tokens;
    const ArrivalResult again = arrive(info);
    EXPECT_FALSE(again.count_prompt || again.prompt_excess) << text_bytes;
    ASSERT_TRUE(again.grant);
    EXPECT_EQ(again.grant->truncated_prompt_tokens, text_bytes / 4 - again.grant->prompt_tokens);
    const std::uint32_t limit = tenant == 1 ? 4'000 : 32'768;
    EXPECT_GT(again.grant->prompt_tokens, (limit - 500 - 256) * 3 / 4 - 4) << "no more than necessary is dropped";
    dispatcher.ended(again.ticket, {}, kNow);
  }
  EXPECT_EQ(dispatcher.counters().truncated_prompts, 3U);
  EXPECT_GT(dispatcher.counters().truncated_prompt_tokens, 100'000U);
  EXPECT_EQ(dispatcher.counters().refused, 0U);
}

TEST_F(PromptExcessTest, OfTokenIdsIsExact) {
  use(truncating());
  RequestInfo info = long_prompt(4 * 40'000);
  info.prompt_tokens_given = 40'000;
  const ArrivalResult arrived = arrive(info);
  ASSERT_TRUE(arrived.prompt_excess);
  EXPECT_DOUBLE_EQ(arrived.prompt_excess->tokens, 40'000 - (32'768 - 500));
  EXPECT_DOUBLE_EQ(arrived.prompt_excess->tokens_per_text_byte, 0.25);
  info.prompt_tokens_given = 32'768 - 500;
  EXPECT_TRUE(arrive(info).grant) << "it fits";
}

TEST_F(PromptExcessTest, OfACountHasAMarginAndTheShorterPromptIsCountedAgain) {
  use(truncating());
  RequestInfo info = long_prompt(100'000);
  info.prompt_tokens_given = 50'000;
  info.prompt_was_counted = true;
  const ArrivalResult arrived = arrive(info);
  ASSERT_TRUE(arrived.prompt_excess);
  info.text_bytes = bytes_left(100'000, *arrived.prompt_excess);
  const double counted = 50'000.0 * static_cast<double>(info.text_bytes) / 100'000.0;
  EXPECT_LT(counted, (32'768 - 500) * 15.0 / 16.0);
  EXPECT_GT(counted, (32'768 - 500) * 0.9);
  info.prompt_tokens_given = 0;
  info.may_count_prompt = true;
  EXPECT_TRUE(arrive(info).count_prompt) << "the estimate was wrong before";
}

TEST_F(PromptExcessTest, IsOnlyReportedWhereThePolicySaysSo) {
  const auto refused = [&](const DispatchOptions& options, RequestInfo info) {
    use(options);
    const ArrivalResult arrived = arrive(info);
    EXPECT_FALSE(arrived.prompt_excess);
    return arrived.refusal && arrived.refusal->reason == RefusalReason::kContextLengthExceeded;
  };
  DispatchOptions options = truncating();
  options.tenants[1].over_context = OverContext::kReject;
  EXPECT_TRUE(refused(options, long_prompt(600'000, 1))) << "the tenant's policy goes before that of the model";
  RequestInfo last_time = long_prompt(600'000);
  last_time.may_truncate_prompt = false;
  EXPECT_TRUE(refused(options, last_time));
  RequestInfo long_answer = long_prompt(600'000);
  long_answer.max_tokens = 32'768;
  EXPECT_TRUE(refused(options, long_answer)) << "no prompt has room beside the answer";
  RequestInfo with_image = long_prompt(600'000);
  with_image.media_tokens = 10;
  EXPECT_TRUE(refused(options, with_image));
  options.models[0].over_context = OverContext::kReject;
  EXPECT_TRUE(refused(options, long_prompt(600'000)));
  options.tenants[0].over_context = OverContext::kTruncate;
  use(options);
  EXPECT_TRUE(arrive(long_prompt(600'000)).prompt_excess) << "a reload applies it";
}

TEST_F(PromptExcessTest, ARefusalOfATruncatedPromptSaysSo) {
  use(truncating());
  RequestInfo info = long_prompt(600'000);
  info.may_truncate_prompt = false;
  info.untruncated_prompt_tokens = 200'000;
  const ArrivalResult arrived = arrive(info);
  ASSERT_TRUE(arrived.refusal);
  EXPECT_NE(arrived.refusal->message.find("after truncation"), std::string::npos) << arrived.refusal->message;
}

}  // namespace
}  // namespace penstock::dispatch
