#include "admission/admission_controller.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace penstock::admission {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr core::Instant kNow = core::kStart + seconds{100};
constexpr std::uint32_t kAcme = 0, kZeta = 1;  // The tenant zeta waits for its budget; acme is refused.

using Tickets = std::vector<std::uint64_t>;

Verdict admit(std::uint64_t) { return Verdict::kAdmit; }

AdmissionLimits limits() {
  AdmissionLimits made;
  made.classes[0].queue_time = seconds{10};
  made.classes[1].queue_time = minutes{5};
  return made;
}

class AdmissionControllerTest : public testing::Test {
 protected:
  explicit AdmissionControllerTest(const AdmissionLimits& given = limits()) : controller_(given, kNow) {
    controller_.set_tenant(kAcme, {"acme", 1.0, 0, {6000.0, 1000.0}, false, 3}, kNow);
    controller_.set_tenant(kZeta, {"zeta", 1.0, 0, {6000.0, 1000.0}, true, 3}, kNow);
  }

  Answer arrive(std::uint64_t ticket, std::uint32_t tenant, std::uint32_t tokens, Verdict pressure = Verdict::kAdmit,
                Class traffic_class = Class::kInteractive, std::uint32_t model = 0, core::Instant now = kNow) {
    return controller_.arrive({ticket, tenant, model, traffic_class, {tokens, 0}, now},
                              [&](std::uint64_t) { return pressure; });
  }
  Tickets next(const AdmissionController::VerdictOf& verdict_of = admit, core::Instant now = kNow) {
    Tickets tickets;
    for (const Admitted& one : controller_.next(now, verdict_of).admitted) tickets.push_back(one.ticket);
    return tickets;
  }
  double available(std::uint32_t tenant, core::Instant now = kNow) {
    return controller_.tenant(tenant, now).available_tokens;
  }

  AdmissionController controller_;
};

TEST_F(AdmissionControllerTest, AnAdmittedRequestTakesItsTokens) {
  EXPECT_EQ(arrive(1, kAcme, 400).decision, Decision::kAdmit);
  EXPECT_DOUBLE_EQ(available(kAcme), 600.0);
  EXPECT_EQ(controller_.tenant(kAcme, kNow).running, 1U);
  controller_.ended(1, 150, kNow);
  EXPECT_DOUBLE_EQ(available(kAcme), 850.0);
  EXPECT_EQ(controller_.tenant(kAcme, kNow).running, 0U);
}

TEST_F(AdmissionControllerTest, WhatFailedIsRefundedWhole) {
  ASSERT_EQ(arrive(1, kAcme, 400).decision, Decision::kAdmit);
  controller_.failed(1, kNow);
  EXPECT_DOUBLE_EQ(available(kAcme), 1000.0);
}

TEST_F(AdmissionControllerTest, ANewBudgetIsNotFilledByRequestsThatTookNothingFromIt) {
  controller_.set_tenant(kAcme, {"acme"}, kNow);
  ASSERT_EQ(arrive(1, kAcme, 400).decision, Decision::kAdmit);
  ASSERT_EQ(arrive(2, kAcme, 700).decision, Decision::kAdmit);
  controller_.set_tenant(kAcme, {"acme", 1.0, 0, {6000.0, 1000.0}}, kNow);
  EXPECT_DOUBLE_EQ(available(kAcme), -100.0);
  controller_.ended(1, 150, kNow);
  controller_.failed(2, kNow);
  EXPECT_DOUBLE_EQ(available(kAcme), 850.0);
}

TEST_F(AdmissionControllerTest, ANewBudgetOfAClassIsNotFilledEither) {
  ASSERT_EQ(arrive(1, kAcme, 400).decision, Decision::kAdmit);
  AdmissionLimits less = limits();
  less.classes[0].budget = {6000.0, 500.0};
  controller_.set_classes(less.classes, kNow);
  EXPECT_EQ(arrive(2, kZeta, 200).decision, Decision::kQueue);
  controller_.failed(1, kNow);
  EXPECT_EQ(next(), (Tickets{2}));
}

TEST_F(AdmissionControllerTest, ARefusalForBudgetNamesTheLimitAndRetryAfter) {
  ASSERT_EQ(arrive(1, kAcme, 800).decision, Decision::kAdmit);
  const Answer answer = arrive(2, kAcme, 500);
  EXPECT_EQ(answer.decision, Decision::kRefuseBudget);
  EXPECT_EQ(answer.retry_after_s, 3U);
  EXPECT_EQ(answer.why,
            "the request reserves 500 tokens of prompt and answer; 200 of 1000 tokens are left to tenant acme (burst); "
            "shorten the prompt, or retry in 3 s");
  EXPECT_EQ(arrive(3, kAcme, 500, Verdict::kAdmit, Class::kInteractive, 0, kNow + seconds{3}).decision,
            Decision::kAdmit);
}

TEST_F(AdmissionControllerTest, ARefusalForBudgetNamesTheLargerPartOfTheRequest) {
  ASSERT_EQ(arrive(1, kAcme, 800).decision, Decision::kAdmit);
  const auto why = [&](std::uint64_t ticket, TokenEstimate estimate, std::optional<BudgetClaim> claim = {}) {
    Arrival arrival{ticket, kAcme, 0, Class::kInteractive, estimate, kNow};
    arrival.claim = claim;
    return controller_.arrive(arrival, admit).why;
  };
  const std::string output = "; lower n or max_tokens", prompt = "; shorten the prompt";
  EXPECT_NE(why(2, {200, 300}).find(output + ", or retry in 3 s"), std::string::npos);
  EXPECT_NE(why(3, {300, 200}).find(prompt + ", or retry in 3 s"), std::string::npos);
  // By the tokens that are reserved, not by those that are expected.
  EXPECT_NE(why(4, {1, 2}, BudgetClaim{500, 500, 2}).find(prompt), std::string::npos);
  EXPECT_TRUE(why(5, {100, 2000}).ends_with(output));
  EXPECT_TRUE(why(6, {2000, 100}).ends_with(prompt));
}

TEST_F(AdmissionControllerTest, RateLimitsAreThoseOfTheTenantWithWhatIsLeft) {
  EXPECT_EQ(controller_.rate_limits(kAcme, kNow).tokens, 1000.0);
  EXPECT_EQ(controller_.rate_limits(kAcme, kNow).tokens_left, 1000.0);
  EXPECT_EQ(controller_.rate_limits(kAcme, kNow).tokens_reset, core::Duration{});
  ASSERT_EQ(arrive(1, kAcme, 400).decision, Decision::kAdmit);
  const RateLimits left = controller_.rate_limits(kAcme, kNow);
  EXPECT_EQ(left.tokens_left, 600.0);
  EXPECT_EQ(left.tokens_reset, seconds{4});  // 6000 tokens per minute.
  EXPECT_EQ(left.requests, 3U);
  EXPECT_EQ(left.requests_left, 2U);
  controller_.ended(1, 5000, kNow);
  EXPECT_EQ(controller_.rate_limits(kAcme, kNow).tokens_left, 0.0) << "a debt is nothing left";
  controller_.set_tenant(kAcme, {"acme"}, kNow);
  EXPECT_EQ(controller_.rate_limits(kAcme, kNow).tokens, 0.0);
  EXPECT_EQ(controller_.rate_limits(kAcme, kNow).requests, 0U);
}

TEST_F(AdmissionControllerTest, ARequestLargerThanTheBurstIsRefusedWithoutRetry) {
  for (const std::uint32_t tenant : {kAcme, kZeta}) {
    const Answer answer = arrive(1 + tenant, tenant, 1001);
    EXPECT_EQ(answer.decision, Decision::kRefuseBudget);
    EXPECT_EQ(answer.retry_after_s, 0U);
    EXPECT_NE(answer.why.find("more than the capacity of tenant"), std::string::npos) << answer.why;
    EXPECT_NE(answer.why.find("(burst)"), std::string::npos) << answer.why;
  }
}

TEST_F(AdmissionControllerTest, ATenantWithQueueOverBudgetWaitsForTheRefill) {
  ASSERT_EQ(arrive(1, kZeta, 900).decision, Decision::kAdmit);
  EXPECT_EQ(arrive(2, kZeta, 600).decision, Decision::kQueue);
  EXPECT_TRUE(next().empty());
  const core::Instant wake = controller_.wake_at(kNow);
  EXPECT_EQ(wake, kNow + seconds{5});
  EXPECT_TRUE(next(admit, wake - milliseconds{1}).empty());
  EXPECT_EQ(next(admit, wake), Tickets{2});
  EXPECT_NEAR(available(kZeta, wake), 0.0, 1e-6);
  EXPECT_EQ(controller_.wake_at(wake), core::kNever);
}

TEST_F(AdmissionControllerTest, QueueDepthExcludesRequestsBlockedByTenantLimits) {
  ASSERT_EQ(arrive(1, kZeta, 900).decision, Decision::kAdmit);
  EXPECT_TRUE(arrive(2, kZeta, 600).own_limit);
  EXPECT_EQ(controller_.waiting_for_room(0).requests, 0U);
  EXPECT_FALSE(arrive(3, kAcme, 10, Verdict::kWait).own_limit);
  EXPECT_EQ(controller_.waiting_for_room(0).requests, 1U);
  EXPECT_EQ(controller_.waiting_for_room(0).oldest, kNow);
  EXPECT_EQ(controller_.waiting_for_room(1).requests, 0U);
  // The budget has been refilled; the request now waits for a replica.
  const auto saturated = [](std::uint64_t) { return Verdict::kWait; };
  EXPECT_TRUE(next(saturated, kNow + seconds{5}).empty());
  EXPECT_EQ(controller_.waiting_for_room(0).requests, 2U);
}

TEST_F(AdmissionControllerTest, WhoWaitsBehindALimitOfItsOwnWaitsForItToo) {
  // Small enough for the budget that is left, and behind one of its tenant that is not.
  ASSERT_EQ(arrive(1, kZeta, 900).decision, Decision::kAdmit);
  EXPECT_TRUE(arrive(2, kZeta, 600).own_limit);
  const Answer behind = arrive(3, kZeta, 10);
  EXPECT_EQ(behind.decision, Decision::kQueue);
  EXPECT_TRUE(behind.own_limit);
  EXPECT_EQ(controller_.waiting_for_room(0).requests, 0U);
  EXPECT_TRUE(next().empty());
  EXPECT_EQ(controller_.waiting_for_room(0).requests, 0U);
}

TEST_F(AdmissionControllerTest, WhoWaitsBehindTheBudgetOfItsClassWaitsForItToo) {
  AdmissionLimits tight = limits();
  tight.classes[0].budget = {6000.0, 1000.0};
  AdmissionController controller{tight, kNow};
  for (std::uint32_t tenant = 0; tenant < 4; ++tenant) {
    TenantLimits none;
    none.name = "tenant";
    controller.set_tenant(tenant, none, kNow);
  }
  const auto come = [&](std::uint64_t ticket, std::uint32_t tenant, std::uint32_t tokens) {
    Arrival arrival;
    arrival.ticket = ticket;
    arrival.tenant = tenant;
    arrival.estimate = {tokens, 0};
    arrival.now = kNow;
    return controller.arrive(arrival, [](std::uint64_t) { return Verdict::kAdmit; });
  };
  ASSERT_EQ(come(1, 0, 900).decision, Decision::kAdmit);
  EXPECT_TRUE(come(2, 1, 600).own_limit);
  for (std::uint64_t ticket = 3; ticket < 6; ++ticket) {
    const Answer behind = come(ticket, static_cast<std::uint32_t>(ticket % 4), 10);
    EXPECT_EQ(behind.decision, Decision::kQueue);
    EXPECT_TRUE(behind.own_limit) << ticket;
  }
  EXPECT_EQ(controller.waiting_for_room(0).requests, 0U);
  EXPECT_TRUE(controller.next(kNow, [](std::uint64_t) { return Verdict::kAdmit; }).admitted.empty());
  EXPECT_EQ(controller.waiting_for_room(0).requests, 0U);
  for (const Refused& late : controller.expired(kNow + std::chrono::hours{1})) EXPECT_TRUE(late.answer.own_limit);
}

TEST_F(AdmissionControllerTest, ARefillAfterTheDeadlineRefusesAtOnce) {
  AdmissionLimits shorter = limits();
  shorter.classes[0].queue_time = seconds{2};
  controller_ = AdmissionController{shorter, kNow};
  controller_.set_tenant(0, {"acme"}, kNow);
  controller_.set_tenant(kZeta, {"zeta", 1.0, 0, {6000.0, 1000.0}, true, 0}, kNow);
  ASSERT_EQ(arrive(1, kZeta, 900).decision, Decision::kAdmit);
  const Answer answer = arrive(2, kZeta, 600);
  EXPECT_EQ(answer.decision, Decision::kRefuseBudget);
  EXPECT_EQ(answer.retry_after_s, 5U);
}

TEST_F(AdmissionControllerTest, ExcessConcurrencyIsRefusedOrQueued) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(arrive(i, kAcme, 10).decision, Decision::kAdmit);
    ASSERT_EQ(arrive(10 + i, kZeta, 10).decision, Decision::kAdmit);
  }
  const Answer refused = arrive(3, kAcme, 10);
  EXPECT_EQ(refused.decision, Decision::kRefuseConcurrency);
  EXPECT_NE(refused.why.find("3 requests in flight, the limit (concurrent) is 3"), std::string::npos) << refused.why;
  EXPECT_EQ(arrive(13, kZeta, 10).decision, Decision::kQueue);
  EXPECT_TRUE(next().empty());
  controller_.ended(10, 10, kNow);
  EXPECT_EQ(next(), Tickets{13});
}

TEST_F(AdmissionControllerTest, PressureQueuesOrRefusesByClass) {
  EXPECT_EQ(arrive(1, kAcme, 10, Verdict::kWait).decision, Decision::kQueue);
  EXPECT_EQ(arrive(2, kAcme, 10, Verdict::kReject, Class::kBatch).decision, Decision::kQueue);
  AdmissionLimits none;
  controller_ = AdmissionController{none, kNow};
  controller_.set_tenant(kAcme, {"acme"}, kNow);
  const Answer refused = arrive(3, kAcme, 10, Verdict::kWait);
  EXPECT_EQ(refused.decision, Decision::kRefusePressure);
  EXPECT_GE(refused.retry_after_s, 1U);
  EXPECT_LE(refused.retry_after_s, 60U);
  EXPECT_NE(refused.why.find("classes.interactive.queue_time"), std::string::npos) << refused.why;
  EXPECT_EQ(arrive(4, kAcme, 10).decision, Decision::kAdmit);
}

TEST_F(AdmissionControllerTest, ARequestBlockedByPressureIsNotOvertakenOnArrival) {
  ASSERT_EQ(arrive(1, kAcme, 500, Verdict::kWait).decision, Decision::kQueue);
  EXPECT_EQ(arrive(2, kZeta, 10).decision, Decision::kQueue);
  EXPECT_EQ(next(), (Tickets{1, 2}));
}

TEST_F(AdmissionControllerTest, ARequestBlockedByItsBudgetDoesNotBlockOthers) {
  ASSERT_EQ(arrive(1, kZeta, 900).decision, Decision::kAdmit);
  ASSERT_EQ(arrive(2, kZeta, 600).decision, Decision::kQueue);
  EXPECT_EQ(arrive(3, kAcme, 10).decision, Decision::kAdmit);
  // Requests of one tenant do not overtake each other.
  EXPECT_EQ(arrive(4, kZeta, 10).decision, Decision::kQueue);
  // A different model.
  EXPECT_EQ(arrive(5, kZeta, 10, Verdict::kAdmit, Class::kInteractive, 1).decision, Decision::kAdmit);
}

TEST_F(AdmissionControllerTest, AModelUnderPressureDoesNotBlockAnother) {
  ASSERT_EQ(arrive(1, kAcme, 10, Verdict::kReject, Class::kInteractive, 0).decision, Decision::kQueue);
  ASSERT_EQ(arrive(2, kAcme, 10, Verdict::kReject, Class::kInteractive, 1).decision, Decision::kQueue);
  EXPECT_EQ(next([](std::uint64_t ticket) { return ticket == 1 ? Verdict::kReject : Verdict::kAdmit; }), Tickets{2});
  EXPECT_EQ(controller_.waiting(), 1U);
}

TEST_F(AdmissionControllerTest, OvertakingOfABlockedRequestIsBounded) {
  ASSERT_EQ(arrive(1, kAcme, 900, Verdict::kWait).decision, Decision::kQueue);
  const auto small_only = [](std::uint64_t ticket) { return ticket == 1 ? Verdict::kWait : Verdict::kAdmit; };
  Tickets passed;
  for (std::uint64_t ticket = 2; ticket < 40; ++ticket) {
    ASSERT_EQ(arrive(ticket, kZeta, 1).decision, Decision::kQueue);
    for (const std::uint64_t admit : next(small_only)) {
      passed.push_back(admit);
      controller_.ended(admit, 1, kNow);
    }
  }
  EXPECT_EQ(passed.size(), AdmissionController::kPassesMax);
  EXPECT_EQ(next().front(), 1U);
}

TEST_F(AdmissionControllerTest, ABlockedRequestIsCheckedOncePerCall) {
  for (std::uint64_t ticket = 1; ticket <= 3; ++ticket)
    ASSERT_EQ(arrive(ticket, kAcme, 10, Verdict::kWait).decision, Decision::kQueue);
  for (std::uint64_t ticket = 11; ticket <= 13; ++ticket)
    ASSERT_EQ(arrive(ticket, kZeta, 10).decision, Decision::kQueue);
  Tickets asked;
  EXPECT_EQ(next([&](std::uint64_t ticket) {
              asked.push_back(ticket);
              return ticket < 10 ? Verdict::kWait : Verdict::kAdmit;
            }),
            (Tickets{11, 12, 13}));
  EXPECT_EQ(asked, (Tickets{1, 11, 12, 13}));
}

TEST_F(AdmissionControllerTest, ACallIsBoundedAndReportsMore) {
  controller_.set_tenant(kAcme, {"acme"}, kNow);
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(arrive(i, kAcme, 1, Verdict::kWait).decision, Decision::kQueue);
  const Next first = controller_.next(kNow, admit);
  EXPECT_EQ(first.admitted.size(), AdmissionController::kAdmittedMax);
  EXPECT_TRUE(first.more);
  const Next second = controller_.next(kNow, admit);
  EXPECT_EQ(second.admitted.size(), 100 - AdmissionController::kAdmittedMax);
  EXPECT_FALSE(second.more);
}

TEST_F(AdmissionControllerTest, AnExpiredRequestNamesWhatItWaitedFor) {
  ASSERT_EQ(arrive(1, kZeta, 900).decision, Decision::kAdmit);
  ASSERT_EQ(arrive(2, kZeta, 600).decision, Decision::kQueue);
  ASSERT_EQ(arrive(3, kAcme, 10, Verdict::kReject, Class::kBatch).decision, Decision::kQueue);
  EXPECT_TRUE(controller_.expired(kNow + seconds{9}).empty());
  controller_.ended(1, 100'000, kNow + seconds{9});
  const auto refused = controller_.expired(kNow + seconds{10});
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].ticket, 2U);
  EXPECT_EQ(refused[0].answer.decision, Decision::kRefuseQueueTime);
  EXPECT_EQ(refused[0].answer.retry_after_s, 60U);
  EXPECT_NE(refused[0].answer.why.find("10.0 s for its tenant's budget"), std::string::npos) << refused[0].answer.why;
  EXPECT_EQ(controller_.expired(kNow + minutes{5}).size(), 1U);
  EXPECT_EQ(controller_.waiting(), 0U);
  EXPECT_EQ(controller_.tenant(kZeta, kNow).waiting, 0U);
}

TEST_F(AdmissionControllerTest, AnEarlierRequestDeadlineApplies) {
  EXPECT_EQ(controller_
                .arrive({1, kAcme, 0, Class::kInteractive, {10, 0}, kNow, kNow + seconds{1}},
                        [](std::uint64_t) { return Verdict::kWait; })
                .decision,
            Decision::kQueue);
  EXPECT_EQ(controller_.wake_at(kNow), kNow + seconds{1});
  EXPECT_EQ(controller_.expired(kNow + seconds{1}).size(), 1U);
}

TEST_F(AdmissionControllerTest, ACancelledRequestLeavesTheQueue) {
  ASSERT_EQ(arrive(1, kAcme, 10, Verdict::kWait).decision, Decision::kQueue);
  ASSERT_EQ(arrive(2, kAcme, 10, Verdict::kAdmit, Class::kInteractive, 1).decision, Decision::kAdmit);
  EXPECT_TRUE(controller_.cancelled(1));
  EXPECT_FALSE(controller_.cancelled(1));
  EXPECT_FALSE(controller_.cancelled(2));  // The request is not queued; it ends through ended().
  EXPECT_FALSE(controller_.cancelled(77));
  EXPECT_TRUE(next().empty());
  EXPECT_DOUBLE_EQ(available(kAcme), 990.0);
}

TEST_F(AdmissionControllerTest, AFullQueueRefuses) {
  AdmissionLimits small = limits();
  small.queue.requests = 2;
  controller_ = AdmissionController{small, kNow};
  controller_.set_tenant(kAcme, {"acme"}, kNow);
  ASSERT_EQ(arrive(1, kAcme, 10, Verdict::kWait).decision, Decision::kQueue);
  ASSERT_EQ(arrive(2, kAcme, 10, Verdict::kWait).decision, Decision::kQueue);
  const Answer refused = arrive(3, kAcme, 10, Verdict::kWait);
  EXPECT_EQ(refused.decision, Decision::kRefuseQueueFull);
  EXPECT_NE(refused.why.find("2 interactive requests of 20 tokens wait already; the queue is full (queue_requests 2"),
            std::string::npos)
      << refused.why;
  EXPECT_EQ(controller_.waiting_tokens(0), 20U);
}

TEST_F(AdmissionControllerTest, AClassBudgetIsSharedByTenantsInQueueOrder) {
  AdmissionLimits of_batch = limits();
  of_batch.classes[1].budget = {600.0, 100.0};
  controller_ = AdmissionController{of_batch, kNow};
  controller_.set_tenant(kAcme, {"acme"}, kNow);
  controller_.set_tenant(kZeta, {"zeta"}, kNow);
  ASSERT_EQ(arrive(1, kAcme, 90, Verdict::kAdmit, Class::kBatch).decision, Decision::kAdmit);
  EXPECT_EQ(arrive(2, kAcme, 100, Verdict::kAdmit, Class::kBatch).decision, Decision::kQueue);
  // The request is queued although 10 tokens are left.
  EXPECT_EQ(arrive(3, kZeta, 1, Verdict::kAdmit, Class::kBatch).decision, Decision::kQueue);
  EXPECT_EQ(arrive(4, kZeta, 1).decision, Decision::kAdmit);  // The other class.
  EXPECT_TRUE(next().empty());
  const core::Instant wake = controller_.wake_at(kNow);
  EXPECT_EQ(wake, kNow + seconds{9});
  EXPECT_EQ(next(admit, wake), Tickets{2});
  const Answer refused = arrive(5, kAcme, 101, Verdict::kAdmit, Class::kBatch);
  EXPECT_EQ(refused.decision, Decision::kRefuseBudget);
  EXPECT_NE(refused.why.find("classes.batch.tokens_per_minute"), std::string::npos) << refused.why;
}

TEST_F(AdmissionControllerTest, ChangedTenantLimitsKeepTheBudgetLevel) {
  ASSERT_EQ(arrive(1, kAcme, 900).decision, Decision::kAdmit);
  controller_.set_tenant(kAcme, {"acme", 2.0, 1, {60'000.0, 10'000.0}, true, 1}, kNow);
  EXPECT_DOUBLE_EQ(available(kAcme), 100.0);
  EXPECT_EQ(arrive(2, kAcme, 10).decision, Decision::kQueue);  // The tenant may have one request in flight.
  controller_.ended(1, 900, kNow);
  EXPECT_EQ(next(), Tickets{2});
}

TEST_F(AdmissionControllerTest, CountsItsDecisionsByTenant) {
  ASSERT_EQ(arrive(1, kAcme, 10, Verdict::kWait).decision, Decision::kQueue);
  ASSERT_EQ(next(), Tickets{1});
  ASSERT_EQ(arrive(2, kAcme, 5000).decision, Decision::kRefuseBudget);
  const auto decisions = controller_.tenant(kAcme, kNow).decisions;
  EXPECT_EQ(decisions, (std::array<std::uint64_t, kDecisions>{1, 1, 1, 0, 0, 0, 0}));
  EXPECT_STREQ(to_string(Decision::kRefuseQueueTime), "refuse_queue_time");
}

}  // namespace
}  // namespace penstock::admission
