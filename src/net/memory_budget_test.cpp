#include "net/memory_budget.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "net/body.h"

namespace penstock::net {
namespace {

TEST(MemoryBudget, LimitsEachAccountAndTheTotal) {
  MemoryBudget budget{100, 60};
  MemoryAccount &first = budget.account("first"), &second = budget.account("second");
  EXPECT_EQ(&budget.account("first"), &first);
  EXPECT_TRUE(first.take(60));
  EXPECT_FALSE(first.take(1)) << "the limit of an account";
  EXPECT_TRUE(second.take(40));
  EXPECT_FALSE(second.take(1)) << "the limit of the total";
  EXPECT_FALSE(budget.unattributed().take(1));
  EXPECT_EQ(budget.held(), 100u);
  first.give_back(60);
  EXPECT_TRUE(budget.unattributed().has_room(60));
  EXPECT_FALSE(budget.unattributed().has_room(61));
  EXPECT_TRUE(budget.unattributed().take(60));
  EXPECT_FALSE(first.has_room(1));
  EXPECT_FALSE(first.take(SIZE_MAX)) << "a sum that overflows";
  EXPECT_EQ(budget.held(), 100u);
}

TEST(MemoryBudget, HoldsReturnWhatTheyTook) {
  MemoryBudget budget{100, 100};
  {
    MemoryHold hold{budget.account("tenant")};
    EXPECT_TRUE(hold.resize(80));
    EXPECT_FALSE(hold.resize(101));
    EXPECT_EQ(hold.bytes(), 80u);
    EXPECT_TRUE(hold.resize(30));
    MemoryHold moved = std::move(hold);
    EXPECT_EQ(budget.held(), 30u);
    hold = MemoryHold{budget.account("tenant")};
    EXPECT_TRUE(hold.resize(5));
    moved = std::move(hold);
    EXPECT_EQ(budget.held(), 5u);
  }
  EXPECT_EQ(budget.held(), 0u);
}

TEST(MemoryBudget, ThreadsTogetherStayWithinTheLimit) {
  MemoryBudget budget{1000, 1000};
  std::atomic<bool> exceeded{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&budget, &exceeded, i] {
      MemoryHold hold{budget.account(std::to_string(i % 2))};
      for (std::size_t round = 0; round < 2000; ++round) {
        const bool granted = hold.resize(round * 7 % 600);
        if (granted && hold.bytes() > 1000) exceeded = true;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(budget.held(), 0u);
}

TEST(Body, CountsItsCapacityUntilItIsCleared) {
  MemoryBudget budget{10'000'000, 10'000'000};
  Body body;
  ASSERT_TRUE(body.charge_to(budget.account("first")));
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string piece(static_cast<std::size_t>(i), static_cast<char>('a' + i % 26));
    ASSERT_TRUE(body.append(piece));
    expected += piece;
  }
  EXPECT_EQ(body.view(), expected);
  EXPECT_EQ(budget.held(), body.capacity());
  ASSERT_TRUE(body.charge_to(budget.account("second")));
  EXPECT_EQ(budget.account("first").held(), 0u);
  EXPECT_EQ(budget.account("second").held(), body.capacity());
  Body moved = std::move(body);
  EXPECT_EQ(moved.view(), expected);
  moved.clear();
  EXPECT_EQ(budget.held(), 0u);
}

TEST(Body, IsUnchangedWhenMemoryIsRefused) {
  MemoryBudget budget{10'000, 10'000};
  Body body;
  ASSERT_TRUE(body.charge_to(budget.account("tenant")));
  ASSERT_TRUE(body.append(std::string(9'000, 'x')));
  EXPECT_FALSE(body.append(std::string(2'000, 'y')));
  EXPECT_EQ(body.view(), std::string(9'000, 'x'));
  EXPECT_EQ(budget.held(), body.capacity());
  Body free;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // Both end the process instead.
  EXPECT_FALSE(free.reserve(SIZE_MAX / 2)) << "more than the system has";
#endif
  EXPECT_TRUE(free.append("hello"));
}

TEST(Body, MemoryThatIsKeptCountsForTheTenantOfTheNextContent) {
  MemoryBudget budget{10'000, 10'000};
  Body body;
  ASSERT_TRUE(body.charge_to(budget.account("tenant")));
  ASSERT_TRUE(body.append(std::string(5'000, 'x')));
  body.clear(8'000);
  EXPECT_EQ(body.account(), nullptr);
  EXPECT_EQ(budget.held(), 0u);
  ASSERT_TRUE(body.charge_to(budget.account("next")));
  ASSERT_TRUE(body.append("hello"));
  EXPECT_EQ(body.view(), "hello");
  EXPECT_EQ(budget.account("tenant").held(), 0u);
  EXPECT_EQ(budget.account("next").held(), 5'000u);
}

TEST(Body, SmallBodiesAreNotCounted) {
  MemoryBudget budget{1, 1};
  Body body;
  ASSERT_TRUE(body.charge_to(budget.account("tenant")));
  EXPECT_TRUE(body.append(std::string(kUncountedBytesMax, 'x')));
  EXPECT_EQ(budget.held(), 0u);
  EXPECT_FALSE(body.append("x"));
}

}  // namespace
}  // namespace penstock::net
