#include "dispatch/request_check.h"

#include <gtest/gtest.h>

#include <tuple>

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

}  // namespace
}  // namespace penstock::dispatch
