#include <gtest/gtest.h>

#include "dispatch/dispatcher.h"
#include "dispatch/dispatcher_testing.h"
#include "dispatch/request_router.h"

namespace penstock::dispatch {
namespace {

using namespace testing;

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

// A prefill replica p1, and requests whose prompt it has computed.
class OpenTransfersTest : public ::testing::Test {
 protected:
  OpenTransfersTest() { dispatcher->set_replicas({prefill, replica_named("d1", signals::Role::kDecode)}, kNow); }
  Ticket prefilled() {
    const ArrivalResult answer = dispatcher->arrive(info_of(4000), listener, kNow);
    EXPECT_TRUE(answer.grant && answer.grant->prefill_only);
    dispatcher->attempt_ended(answer.ticket, Attempt::kAnswered, kNow);
    EXPECT_TRUE(dispatcher->route_decode(answer.ticket, kNow));
    return answer.ticket;
  }
  std::optional<std::uint32_t> transfers() const {
    EXPECT_EQ(dispatcher->invariant_violation(kNow), "");
    for (const ReplicaStatus& status : dispatcher->replicas(kNow))
      if (status.spec.id == "p1") return status.open_transfers;
    return std::nullopt;
  }
  const ReplicaSpec prefill = replica_named("p1", signals::Role::kPrefill);
  TestListener listener;
  const std::unique_ptr<Dispatcher> dispatcher =
      std::make_unique<Dispatcher>(options_for_tests(), nullptr, kNow - 10s, std::chrono::hours{24 * 365 * 50});
};

TEST_F(OpenTransfersTest, APrefillReplicaStaysOpenToARequestUntilItsFirstTokenAndHasNoLoadOfIt) {
  const Ticket ticket = prefilled();
  EXPECT_EQ(transfers(), 1U);
  EXPECT_EQ(dispatcher->open_requests(*dispatcher->slot_of("p1")), 1U);
  EXPECT_EQ(dispatcher->replicas(kNow)[0].load.open_requests, 0U);
  dispatcher->answered(ticket, kNow + 1s);
  EXPECT_EQ(transfers(), 0U);
  dispatcher->ended(ticket, {}, kNow + 2s);
  EXPECT_EQ(transfers(), 0U);
}

TEST_F(OpenTransfersTest, ATransferEndsWithItsRequestOrWithTheAttemptAtTheDecodeReplica) {
  RequestOutcome cancellation;
  cancellation.outcome = ledger::Outcome::kCancelled;
  const Ticket cancelled = prefilled(), failed = prefilled();
  EXPECT_EQ(transfers(), 2U);
  dispatcher->ended(cancelled, cancellation, kNow);
  EXPECT_EQ(transfers(), 1U);
  dispatcher->attempt_ended(failed, Attempt::kFaulted, kNow);
  EXPECT_EQ(transfers(), 0U);
}

TEST_F(OpenTransfersTest, AnEngineHoldsKvForALimitedTime) {
  static_cast<void>(prefilled());
  dispatcher->tick(kNow + kKvHold - 1ms);
  EXPECT_EQ(transfers(), 1U);
  EXPECT_LE(dispatcher->next_wake(kNow + kKvHold - 1ms), kNow + kKvHold);
  dispatcher->tick(kNow + kKvHold);
  EXPECT_EQ(transfers(), 0U);
}

TEST_F(OpenTransfersTest, ADrainingPrefillReplicaIsForgottenOnlyAfterItsLastTransfer) {
  const Ticket ticket = prefilled();
  dispatcher->set_replicas({replica_named("d1", signals::Role::kDecode)}, kNow);
  EXPECT_EQ(transfers(), 1U);
  dispatcher->answered(ticket, kNow);
  EXPECT_EQ(transfers(), std::nullopt);
}

}  // namespace
}  // namespace penstock::dispatch
