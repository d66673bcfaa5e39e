// Requests for adapters and aliases, from arrival to the choice of a replica.
#include <gtest/gtest.h>

#include <numeric>

#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

class AdaptersTest : public ::testing::Test {
 protected:
  AdaptersTest() {
    std::iota(keys_.begin(), keys_.end(), 1);
    ReplicaSpec first = replica_named("r1"), second = replica_named("r2");
    first.also = second.also = {{"alias", 0, 0}, {"lora", 7, 4096}};
    dispatcher_.set_replicas({first, second}, kNow);
  }

  ArrivalResult arrive(std::string_view model, core::Instant now = kNow) {
    RequestInfo info = info_of(8 * 256 * 4);
    info.model = model;
    info.keys = keys_;
    info.received_at = now;
    return dispatcher_.arrive(info, listener_, now);
  }
  // A request that is answered at once.
  Grant served(std::string_view model, core::Instant now = kNow) {
    const ArrivalResult result = arrive(model, now);
    EXPECT_TRUE(result.grant) << model;
    dispatcher_.answered(result.ticket, now);
    dispatcher_.ended(result.ticket, RequestOutcome{}, now);
    return result.grant.value_or(Grant{});
  }

  std::array<std::uint64_t, 8> keys_{};
  TestListener listener_;
  Dispatcher dispatcher_{options_for_tests(), nullptr, kNow, core::Duration{}};
};

TEST_F(AdaptersTest, AnAliasFindsThePrefixOfItsModelAndAnAdapterDoesNot) {
  const Grant base = served("m"), alias = served("alias", kNow + 1s);
  EXPECT_EQ(alias.why, routing::PickReason::kPrefix);
  EXPECT_EQ(alias.slot, base.slot);
  const Grant adapter = served("lora", kNow + 10s), again = served("lora", kNow + 11s);
  EXPECT_EQ(adapter.why, routing::PickReason::kLoad);
  EXPECT_EQ(again.why, routing::PickReason::kPrefix);
  EXPECT_EQ(again.slot, adapter.slot);
}

TEST_F(AdaptersTest, TheLimitOfTheEngineRefusesWhatCannotFit) {
  RequestInfo info = info_of(400);
  info.model = "lora";
  info.max_tokens = 5000;
  const auto result = dispatcher_.arrive(info, listener_, kNow);
  ASSERT_TRUE(result.refusal);
  EXPECT_EQ(result.refusal->reason, RefusalReason::kContextLengthExceeded);
}

TEST_F(AdaptersTest, AnUnloadedAdapterIsNoModel) {
  dispatcher_.set_replicas({replica_named("r1"), replica_named("r2")}, kNow);
  const auto result = arrive("lora");
  ASSERT_TRUE(result.refusal);
  EXPECT_EQ(result.refusal->reason, RefusalReason::kModelNotFound);
}

TEST_F(AdaptersTest, WarmPrefixesOfAnAdapterAreItsOwn) {
  ASSERT_TRUE(arrive("lora").grant);
  EXPECT_TRUE(dispatcher_.idle_holders("m", keys_, kNow + 1h).empty());
}

}  // namespace
}  // namespace penstock::dispatch
