#include "admission/queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::admission {
namespace {

using std::chrono::seconds;

constexpr auto kAny = [](const Waiting&) { return true; };

Waiting request(std::uint64_t ticket, std::uint32_t tenant, std::uint64_t tokens = 100,
                Class of = Class::kInteractive) {
  return {ticket, tenant, of, tokens, 0, core::kStart + seconds{ticket}};
}

std::vector<std::uint64_t> drain(FairQueue& queue) {
  std::vector<std::uint64_t> order;
  while (const auto taken = queue.pop(kAny)) order.push_back(taken->ticket);
  return order;
}

using Tickets = std::vector<std::uint64_t>;

TEST(FairQueue, OneTenantIsServedInOrder) {
  FairQueue queue;
  for (const std::uint64_t ticket : {4, 2, 9, 7}) ASSERT_TRUE(queue.push(request(ticket, 0, ticket * 10)));
  EXPECT_EQ(drain(queue), (Tickets{4, 2, 9, 7}));
  EXPECT_FALSE(queue.pop(kAny));
}

TEST(FairQueue, ATenantWithManyRequestsDoesNotBlockOneWithFew) {
  FairQueue queue;
  for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(queue.push(request(i, 0)));
  ASSERT_TRUE(queue.push(request(6, 1)));
  EXPECT_EQ(drain(queue), (Tickets{1, 6, 2, 3, 4, 5}));
}

TEST(FairQueue, SharesAreByWeight) {
  FairQueue queue;
  queue.set_weight(0, 3.0);
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(queue.push(request(i, 0)));
    ASSERT_TRUE(queue.push(request(100 + i, 1)));
  }
  std::vector<int> served(2);
  for (int i = 0; i < 8; ++i) ++served[queue.pop(kAny)->tenant];
  EXPECT_EQ(served, (std::vector<int>{6, 2}));
}

TEST(FairQueue, AnIdleTenantEarnsNoCredit) {
  FairQueue queue;
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(queue.push(request(i, 0)));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(queue.pop(kAny));
  for (std::uint64_t i = 100; i < 110; ++i) ASSERT_TRUE(queue.push(request(i, 1)));
  std::vector<int> served(2);
  for (int i = 0; i < 10; ++i) ++served[queue.pop(kAny)->tenant];
  EXPECT_EQ(served, (std::vector<int>{5, 5}));
}

TEST(FairQueue, ASkippedTenantKeepsItsPositionWithoutCredit) {
  FairQueue queue;
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(queue.push(request(i, 0)));
    ASSERT_TRUE(queue.push(request(100 + i, 1)));
  }
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(queue.pop([](const Waiting& head) { return head.tenant == 1; }));
  EXPECT_EQ(queue.pop(kAny)->tenant, 0U);
  std::vector<int> served(2);
  for (int i = 0; i < 8; ++i) ++served[queue.pop(kAny)->tenant];
  EXPECT_EQ(served, (std::vector<int>{4, 4}));
}

TEST(FairQueue, AnEmptyQueueResetsShares) {
  FairQueue queue;
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(queue.push(request(i, 0, 10'000)));
  ASSERT_EQ(drain(queue).size(), 10U);
  ASSERT_TRUE(queue.push(request(20, 1)));
  ASSERT_TRUE(queue.push(request(21, 0)));
  ASSERT_TRUE(queue.push(request(22, 1)));
  EXPECT_EQ(drain(queue), (Tickets{20, 21, 22}));
}

TEST(FairQueue, AHigherTierIsServedFirst) {
  FairQueue queue;
  queue.set_weight(0, 1000.0);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(queue.push(request(i, 0)));
  for (std::uint64_t i = 10; i < 13; ++i) {
    Waiting urgent = request(i, 1, 100'000);
    urgent.tier = 1;
    ASSERT_TRUE(queue.push(urgent));
  }
  Waiting lowest = request(20, 2, 1);
  lowest.tier = -1;
  ASSERT_TRUE(queue.push(lowest));
  EXPECT_EQ(drain(queue), (Tickets{10, 11, 12, 0, 1, 2, 20}));
}

TEST(FairQueue, InteractiveIsServedBeforeBatchExceptInBatchTurns) {
  FairQueue queue{{}, 4};
  for (std::uint64_t i = 0; i < 9; ++i) {
    ASSERT_TRUE(queue.push(request(i, 0)));
    ASSERT_TRUE(queue.push(request(100 + i, 0, 100, Class::kBatch)));
  }
  EXPECT_EQ(drain(queue), (Tickets{0, 1, 2, 100, 3, 4, 5, 101, 6, 7, 8, 102, 103, 104, 105, 106, 107, 108}));
}

TEST(FairQueue, ABlockedBatchRequestKeepsItsTurn) {
  FairQueue queue{{}, 3};
  for (std::uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(queue.push(request(i, 0)));
  ASSERT_TRUE(queue.push(request(100, 1, 100, Class::kBatch)));
  for (std::uint64_t i = 0; i < 5; ++i)
    EXPECT_EQ(queue.pop([](const Waiting& head) { return head.traffic_class == Class::kInteractive; })->ticket, i);
  EXPECT_EQ(queue.pop(kAny)->ticket, 100U);
}

TEST(FairQueue, ABlockedTenantDoesNotBlockOthers) {
  FairQueue queue;
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(queue.push(request(i, static_cast<std::uint32_t>(i % 2))));
  const auto not_zero = [](const Waiting& head) { return head.tenant != 0; };
  EXPECT_EQ(queue.pop(not_zero)->ticket, 1U);
  EXPECT_EQ(queue.pop(not_zero)->ticket, 3U);
  EXPECT_FALSE(queue.pop(not_zero));
  EXPECT_EQ(queue.size(), 2U);
}

TEST(FairQueue, VisitsEachTenantsHeadOnceInServiceOrder) {
  FairQueue queue;
  for (std::uint32_t tenant = 0; tenant < 5; ++tenant)
    for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(queue.push(request(tenant * 10 + i, tenant, 50 + tenant)));
  ASSERT_TRUE(queue.push(request(100, 2, 50, Class::kBatch)));
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(queue.pop(kAny));
  Tickets seen;
  EXPECT_FALSE(queue.pop([&](const Waiting& head) {
    seen.push_back(head.ticket);
    return VisitResult::kPass;
  }));
  ASSERT_EQ(seen.size(), 6U);
  EXPECT_EQ(seen.back(), 100U);
  Tickets stopped;
  EXPECT_FALSE(queue.pop([&](const Waiting& head) {
    stopped.push_back(head.ticket);
    return stopped.size() == 3 ? VisitResult::kStop : VisitResult::kPass;
  }));
  EXPECT_EQ(stopped, (Tickets{seen[0], seen[1], seen[2]}));
  EXPECT_EQ(queue.pop(kAny)->ticket, seen[0]);
}

TEST(FairQueue, ARequestIsRemovedFromTheMiddle) {
  FairQueue queue;
  for (std::uint64_t i = 0; i < 6; ++i) ASSERT_TRUE(queue.push(request(i, 0)));
  ASSERT_TRUE(queue.push(request(10, 1)));
  EXPECT_TRUE(queue.remove(3));
  EXPECT_TRUE(queue.remove(0));
  EXPECT_TRUE(queue.remove(10));
  EXPECT_FALSE(queue.remove(3));
  EXPECT_FALSE(queue.remove(77));
  EXPECT_EQ(queue.oldest(), core::kStart + seconds{1});
  EXPECT_EQ(drain(queue), (Tickets{1, 2, 4, 5}));
  EXPECT_EQ(queue.tokens(), 0U);
  EXPECT_EQ(queue.oldest(), core::kNever);
}

TEST(FairQueue, ExpiredRequestsLeaveOldestFirst) {
  FairQueue queue;
  for (const std::uint64_t ticket : {3, 1, 2, 5}) {
    Waiting waiting = request(ticket, static_cast<std::uint32_t>(ticket % 2));
    waiting.deadline = core::kStart + seconds{10 * ticket};
    ASSERT_TRUE(queue.push(waiting));
  }
  ASSERT_TRUE(queue.push(request(9, 0)));  // No deadline.
  EXPECT_EQ(queue.next_deadline(), core::kStart + seconds{10});
  EXPECT_TRUE(queue.expired(core::kStart + seconds{9}).empty());
  const auto gone = queue.expired(core::kStart + seconds{30});
  ASSERT_EQ(gone.size(), 3U);
  EXPECT_EQ(gone[0].ticket, 1U);
  EXPECT_EQ(gone[1].ticket, 2U);
  EXPECT_EQ(gone[2].ticket, 3U);
  EXPECT_EQ(drain(queue), (Tickets{5, 9}));
  EXPECT_EQ(queue.next_deadline(), core::kNever);
}

TEST(FairQueue, IsLimitedByRequestsTokensAndTenant) {
  FairQueue queue{{3, 1000, 2}};
  EXPECT_TRUE(queue.push(request(1, 0)));
  EXPECT_TRUE(queue.push(request(2, 0)));
  EXPECT_FALSE(queue.push(request(3, 0)));  // The limit is two requests per tenant.
  EXPECT_FALSE(queue.push(request(4, 1, 801)));
  EXPECT_TRUE(queue.push(request(5, 1, 800)));
  EXPECT_FALSE(queue.push(request(6, 2, 0)));                   // The limit is three requests per class.
  EXPECT_TRUE(queue.push(request(7, 2, 1000, Class::kBatch)));  // The other class has its own limit.
  EXPECT_FALSE(queue.push(request(8, 3, 1, Class::kBatch)));
  EXPECT_FALSE(queue.push(request(9, 3, ~0ULL, Class::kBatch)));
  EXPECT_EQ(queue.size(), 4U);
  EXPECT_EQ(queue.size(Class::kBatch), 1U);
  EXPECT_EQ(queue.tokens(), 2000U);
  EXPECT_TRUE(queue.remove(2));
  EXPECT_TRUE(queue.push(request(3, 0)));
}

TEST(FairQueue, ClassesHaveNames) {
  EXPECT_STREQ(to_string(Class::kInteractive), "interactive");
  EXPECT_STREQ(to_string(Class::kBatch), "batch");
}

}  // namespace
}  // namespace penstock::admission
