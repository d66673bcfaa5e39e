// Requests that wait for spare capacity.
#include <gtest/gtest.h>

#include <vector>

#include "admission/admission_controller.h"

namespace penstock::admission {
namespace {

using std::chrono::seconds;

constexpr core::Instant kAt = core::kStart + seconds{100};
using Tickets = std::vector<std::uint64_t>;

class DeferralTest : public testing::Test {
 protected:
  DeferralTest() : controller_(limits(), kAt) {
    controller_.set_tenant(0, {"a", 1.0}, kAt);
    controller_.set_tenant(1, {"b", 1.0}, kAt);
  }

  static AdmissionLimits limits() {
    AdmissionLimits made;
    made.classes[0].queue_time = made.classes[1].queue_time = seconds{10};
    made.queue.requests = 2;
    made.deferred.requests = 20'000;
    return made;
  }
  Answer defer(std::uint64_t ticket, Verdict verdict, core::Duration until, core::Duration window,
               std::uint32_t tenant = 0) {
    Arrival arrival{ticket, tenant, 0, Class::kBatch, {100, 0}, kAt};
    arrival.deadline = kAt + window;
    arrival.deferred_until = kAt + until;
    return controller_.arrive(arrival, [&](std::uint64_t) { return verdict; });
  }
  Answer arrive(std::uint64_t ticket, Verdict verdict, Class traffic_class = Class::kInteractive) {
    return controller_.arrive({ticket, 1, 0, traffic_class, {100, 0}, kAt}, [&](std::uint64_t) { return verdict; });
  }
  Tickets next(Verdict verdict, core::Instant now = kAt) {
    Tickets tickets;
    for (const Admitted& one : controller_.next(now, [&](std::uint64_t) { return verdict; }).admitted)
      tickets.push_back(one.ticket);
    return tickets;
  }

  AdmissionController controller_;
};

TEST_F(DeferralTest, ADeferredRequestGoesAtOnceToSpareCapacity) {
  EXPECT_EQ(defer(1, Verdict::kAdmit, seconds{540}, seconds{600}).decision, Decision::kAdmit);
  EXPECT_EQ(controller_.deferred(), 0U);
}

TEST_F(DeferralTest, ADeferredRequestIsNoBacklogWhileItWaits) {
  const Answer answer = defer(1, Verdict::kWait, seconds{540}, seconds{600});
  EXPECT_EQ(answer.decision, Decision::kQueue);
  EXPECT_TRUE(answer.deferred);
  EXPECT_TRUE(answer.own_limit);
  EXPECT_EQ(controller_.waiting(), 0U);
  EXPECT_EQ(controller_.waiting_for_room(0).requests, 0U);
  EXPECT_EQ(controller_.waiting_tokens(0), 0U);
  EXPECT_EQ(controller_.deferred(), 1U);
  EXPECT_EQ(controller_.deferred_tokens(), 100U);
  EXPECT_EQ(controller_.tenant(0, kAt).waiting, 1U);
}

TEST_F(DeferralTest, TheQueueTimeOfTheClassDoesNotEndADeferredRequest) {
  defer(1, Verdict::kWait, seconds{540}, seconds{600});
  EXPECT_TRUE(controller_.expired(kAt + seconds{539}).empty());
  EXPECT_TRUE(controller_.make_due(kAt + seconds{539}).empty());
  EXPECT_EQ(controller_.wake_at(kAt), kAt + seconds{540});
}

TEST_F(DeferralTest, NoDeferredRequestGoesWhileAnotherRequestWaitsForAReplica) {
  defer(1, Verdict::kWait, seconds{540}, seconds{600});
  EXPECT_EQ(arrive(2, Verdict::kWait).decision, Decision::kQueue);
  int verdicts = 0;
  const auto refuses_interactive = [&](std::uint64_t ticket) {
    ++verdicts;
    return ticket == 2 ? Verdict::kWait : Verdict::kAdmit;
  };
  EXPECT_TRUE(controller_.next(kAt, refuses_interactive).admitted.empty());
  EXPECT_EQ(verdicts, 1) << "the deferred request is not even considered";
  EXPECT_EQ(defer(3, Verdict::kAdmit, seconds{540}, seconds{600}).decision, Decision::kQueue);
  EXPECT_EQ(next(Verdict::kAdmit), (Tickets{2, 1, 3}));
}

TEST_F(DeferralTest, AnInteractiveRequestDoesNotWaitBehindDeferredOnes) {
  for (std::uint64_t ticket = 1; ticket <= 5; ++ticket) defer(ticket, Verdict::kWait, seconds{540}, seconds{600});
  EXPECT_EQ(arrive(10, Verdict::kAdmit).decision, Decision::kAdmit);
  EXPECT_EQ(arrive(11, Verdict::kAdmit, Class::kBatch).decision, Decision::kAdmit);
}

TEST_F(DeferralTest, ARequestThatIsDueWaitsLikeAnInteractiveOneUntilItsDeadline) {
  defer(1, Verdict::kWait, seconds{540}, seconds{600});
  // The queue is full, which does not matter to a request that is due.
  EXPECT_EQ(arrive(2, Verdict::kWait).decision, Decision::kQueue);
  EXPECT_EQ(arrive(3, Verdict::kWait).decision, Decision::kQueue);
  EXPECT_EQ(arrive(4, Verdict::kWait).decision, Decision::kRefuseQueueFull);
  EXPECT_EQ(controller_.make_due(kAt + seconds{540}), (Tickets{1}));
  EXPECT_EQ(controller_.deferred(), 0U);
  EXPECT_EQ(controller_.waiting(Class::kInteractive), 3U);
  EXPECT_EQ(controller_.waiting_for_room(0).requests, 3U);
  const auto late = controller_.expired(kAt + seconds{599});  // The queue time of the other two.
  ASSERT_EQ(late.size(), 2U);
  EXPECT_FALSE(late[0].due);
  const auto admitted = controller_.next(kAt + seconds{599}, [](std::uint64_t) { return Verdict::kAdmit; }).admitted;
  ASSERT_EQ(admitted.size(), 1U);
  EXPECT_EQ(admitted[0].ticket, 1U);
  EXPECT_TRUE(admitted[0].due);
}

TEST_F(DeferralTest, ARequestIsRefusedAtItsDeadline) {
  defer(1, Verdict::kWait, seconds{540}, seconds{600});
  EXPECT_EQ(controller_.make_due(kAt + seconds{541}), (Tickets{1}));
  EXPECT_TRUE(next(Verdict::kWait, kAt + seconds{541}).empty());
  const auto late = controller_.expired(kAt + seconds{600});
  ASSERT_EQ(late.size(), 1U);
  EXPECT_TRUE(late[0].due);
  EXPECT_EQ(late[0].answer.decision, Decision::kRefuseQueueTime);
  EXPECT_NE(late[0].answer.why.find("classes.batch.completion_window"), std::string::npos) << late[0].answer.why;
}

TEST_F(DeferralTest, AClientThatLeavesFreesItsPlace) {
  defer(1, Verdict::kWait, seconds{540}, seconds{600});
  defer(2, Verdict::kWait, seconds{540}, seconds{600});
  EXPECT_TRUE(controller_.cancelled(1));
  EXPECT_FALSE(controller_.cancelled(1));
  EXPECT_EQ(controller_.deferred(), 1U);
  EXPECT_EQ(controller_.tenant(0, kAt).waiting, 1U);
  EXPECT_EQ(next(Verdict::kAdmit), (Tickets{2}));
}

TEST_F(DeferralTest, TenantsTakeTurns) {
  for (std::uint64_t ticket = 1; ticket <= 4; ++ticket) defer(ticket, Verdict::kWait, seconds{540}, seconds{600}, 0);
  for (std::uint64_t ticket = 5; ticket <= 6; ++ticket) defer(ticket, Verdict::kWait, seconds{540}, seconds{600}, 1);
  EXPECT_EQ(next(Verdict::kAdmit), (Tickets{1, 5, 2, 6, 3, 4}));
}

TEST_F(DeferralTest, ALongPromptDoesNotHoldUpShorterOnesOfItsTenant) {
  Arrival arrival{1, 0, 0, Class::kBatch, {20'000, 0}, kAt};
  arrival.deadline = kAt + seconds{600};
  arrival.deferred_until = kAt + seconds{540};
  EXPECT_EQ(controller_.arrive(arrival, [](std::uint64_t) { return Verdict::kWait; }).decision, Decision::kQueue);
  defer(2, Verdict::kWait, seconds{540}, seconds{600});
  defer(3, Verdict::kWait, seconds{540}, seconds{600}, 1);
  const auto only_short = [](std::uint64_t ticket) { return ticket == 1 ? Verdict::kWait : Verdict::kAdmit; };
  Tickets tickets;
  for (const Admitted& one : controller_.next(kAt, only_short).admitted) tickets.push_back(one.ticket);
  EXPECT_EQ(tickets, (Tickets{2, 3}));
}

TEST_F(DeferralTest, ALimitOfTheTenantHoldsOnlyItsOwnRequestsUp) {
  controller_.set_tenant(0, {"a", 1.0, 0, {}, true, 1}, kAt);
  EXPECT_EQ(defer(1, Verdict::kAdmit, seconds{540}, seconds{600}).decision, Decision::kAdmit);
  EXPECT_EQ(defer(2, Verdict::kAdmit, seconds{540}, seconds{600}).decision, Decision::kQueue);
  EXPECT_EQ(defer(3, Verdict::kWait, seconds{540}, seconds{600}, 1).decision, Decision::kQueue);
  EXPECT_EQ(next(Verdict::kAdmit), (Tickets{3}));
  controller_.ended(1, 100, kAt);
  EXPECT_EQ(next(Verdict::kAdmit), (Tickets{2}));
}

TEST_F(DeferralTest, TheBudgetOfTheClassHoldsForRequestsThatAreDue) {
  AdmissionLimits given = limits();
  given.classes[1].budget = {6000.0, 250.0};
  controller_ = AdmissionController{given, kAt};
  controller_.set_tenant(0, {"a", 1.0}, kAt);
  controller_.set_tenant(1, {"b", 1.0}, kAt);
  for (std::uint64_t ticket = 1; ticket <= 3; ++ticket) defer(ticket, Verdict::kWait, seconds{1}, seconds{600});
  EXPECT_EQ(arrive(4, Verdict::kWait).decision, Decision::kQueue);
  EXPECT_EQ(controller_.make_due(kAt + seconds{1}).size(), 3U);
  // 250 tokens are enough for two of them; the interactive request has no part in that budget.
  EXPECT_EQ(next(Verdict::kAdmit, kAt + seconds{1}).size(), 3U);
  EXPECT_EQ(controller_.waiting(), 1U);
  EXPECT_EQ(next(Verdict::kAdmit, kAt + seconds{2}).size(), 1U);
}

TEST_F(DeferralTest, ThousandsOfRequestsCostAFewVerdictsEachTime) {
  for (std::uint64_t ticket = 1; ticket <= 10'000; ++ticket)
    ASSERT_EQ(defer(ticket, Verdict::kWait, seconds{540}, seconds{600}, ticket % 2).decision, Decision::kQueue);
  std::size_t verdicts = 0;
  const auto full = [&](std::uint64_t) {
    ++verdicts;
    return Verdict::kWait;
  };
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(controller_.next(kAt, full).admitted.empty());
  EXPECT_LE(verdicts, 2'000U) << "one for each tenant that waits";
  EXPECT_EQ(controller_.make_due(kAt + seconds{540}).size(), 10'000U);
}

TEST_F(DeferralTest, MoreRequestsThanTheLimitAreRefused) {
  AdmissionLimits given = limits();
  given.deferred.requests = 1;
  controller_ = AdmissionController{given, kAt};
  controller_.set_tenant(0, {"a", 1.0}, kAt);
  EXPECT_EQ(defer(1, Verdict::kWait, seconds{540}, seconds{600}).decision, Decision::kQueue);
  const Answer full = defer(2, Verdict::kWait, seconds{540}, seconds{600});
  EXPECT_EQ(full.decision, Decision::kRefuseQueueFull);
  EXPECT_NE(full.why.find("wait for spare capacity already, the most are 1"), std::string::npos) << full.why;
}

}  // namespace
}  // namespace penstock::admission
