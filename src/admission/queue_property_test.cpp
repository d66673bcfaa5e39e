// Random sequences of calls: shares are fair, the order is consistent, nothing starves and nothing is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "admission/queue.h"
#include "core/random.h"

namespace penstock::admission {
namespace {

constexpr auto kAny = [](const Waiting&) { return true; };

Waiting draw(core::RandomStream& random, std::uint64_t ticket, std::uint32_t tenants) {
  Waiting made;
  made.ticket = ticket;
  made.tenant = static_cast<std::uint32_t>(random.below(tenants));
  made.traffic_class = random.below(3) == 0 ? Class::kBatch : Class::kInteractive;
  made.tokens = 1 + random.below(random.below(10) == 0 ? 50'000 : 1000);
  made.since = core::kStart + core::Duration{static_cast<std::int64_t>(ticket)};
  if (random.below(2) == 0) made.deadline = made.since + core::Duration{static_cast<std::int64_t>(random.below(2000))};
  return made;
}

// Goyal et al., theorem 1, for any two flows that wait, over any interval.
TEST(FairQueueProperty, SharesDifferByAtMostOneLargestRequestOfEach) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    core::RandomStream random = core::RandomStream{seed}.fork("shares");
    const auto tenants = static_cast<std::uint32_t>(2 + random.below(5));
    FairQueue queue{{100'000, 1ULL << 50, 100'000}};
    std::vector<double> weights;
    std::vector<std::uint64_t> largest(tenants);
    for (std::uint32_t tenant = 0; tenant < tenants; ++tenant) {
      weights.push_back(random.uniform(0.1, 10.0));
      queue.set_weight(tenant, weights.back());
    }
    std::uint64_t ticket = 0;
    std::vector<std::uint32_t> waiting(tenants);
    const auto push = [&](std::uint32_t tenant) {
      const std::uint64_t tokens = 1 + random.below(random.below(5) == 0 ? 20'000 : 500);
      largest[tenant] = std::max(largest[tenant], tokens);
      ASSERT_TRUE(queue.push({ticket++, tenant, Class::kInteractive, tokens, 0, core::kStart}));
      ++waiting[tenant];
    };
    // Other tenants come and go; the first two wait all the time.
    std::vector<std::vector<double>> served(1, std::vector<double>(2));
    for (int step = 0; step < 600; ++step) {
      for (const std::uint32_t tenant : {0U, 1U})
        while (waiting[tenant] < 3) push(tenant);
      if (tenants > 2 && random.below(2) == 0) push(2 + static_cast<std::uint32_t>(random.below(tenants - 2)));
      const auto taken = queue.pop(kAny);
      ASSERT_TRUE(taken);
      --waiting[taken->tenant];
      served.push_back(served.back());
      if (taken->tenant < 2)
        served.back()[taken->tenant] += static_cast<double>(taken->tokens) / weights[taken->tenant];
    }
    const double bound = static_cast<double>(largest[0]) / weights[0] + static_cast<double>(largest[1]) / weights[1];
    for (std::size_t from = 0; from < served.size(); from += 7)
      for (std::size_t to = from; to < served.size(); ++to)
        ASSERT_LE(std::abs((served[to][0] - served[from][0]) - (served[to][1] - served[from][1])), bound * (1 + 1e-9))
            << "seed " << seed << ", from " << from << " to " << to;
  }
}

struct Log {
  std::vector<std::uint64_t> taken, expired, removed;
  bool operator==(const Log&) const = default;
};

void play(std::uint64_t seed, Log& log) {
  core::RandomStream random = core::RandomStream{seed}.fork("play");
  const auto tenants = static_cast<std::uint32_t>(1 + random.below(12));
  const auto batch_turn = static_cast<std::uint32_t>(1 + random.below(8));
  FairQueue queue{{200, 2'000'000, 60}, batch_turn};
  for (std::uint32_t tenant = 0; tenant < tenants; ++tenant) queue.set_weight(tenant, random.uniform(0.5, 4.0));
  std::map<std::uint64_t, Waiting> model;
  std::uint32_t since_batch = 0;
  for (std::uint64_t ticket = 0; ticket < 3000; ++ticket) {
    const core::Instant now = core::kStart + core::Duration{static_cast<std::int64_t>(ticket)};
    Waiting made = draw(random, ticket, tenants);
    made.tier = static_cast<std::int32_t>(made.tenant % 3);
    if (queue.push(made)) model.emplace(ticket, made);
    if (random.below(10) == 0) {
      const std::uint64_t gone = random.below(ticket + 1);
      ASSERT_EQ(queue.remove(gone), model.erase(gone) == 1);
      log.removed.push_back(gone);
    }
    for (const Waiting& late : queue.expired(now)) {
      ASSERT_LE(late.deadline, now);
      ASSERT_EQ(model.erase(late.ticket), 1U);
      log.expired.push_back(late.ticket);
    }
    // The request that is taken is also the first of its tenant, class and tier.
    const std::uint64_t blocked = random.below(tenants + 1);
    const bool batch_waits = queue.size(Class::kBatch) > 0;
    std::vector<Waiting> looked;
    const auto taken = random.below(2) == 0 ? std::nullopt : queue.pop([&](const Waiting& head) {
      looked.push_back(head);
      return head.tenant != blocked;
    });
    std::map<std::pair<Class, std::uint32_t>, std::uint64_t> heads;
    for (const auto& [number, waiting] : model) heads.emplace(std::pair{waiting.traffic_class, waiting.tenant}, number);
    ASSERT_LE(looked.size(), heads.size());
    for (const Waiting& head : looked) ASSERT_EQ(heads.at({head.traffic_class, head.tenant}), head.ticket);
    if (taken) {
      for (std::size_t i = 1; i < looked.size(); ++i) {
        if (looked[i - 1].traffic_class == looked[i].traffic_class) {
          ASSERT_GE(looked[i - 1].tier, looked[i].tier);
        }
      }
      ASSERT_EQ(model.erase(taken->ticket), 1U);
      log.taken.push_back(taken->ticket);
      // No starvation: once batch_turn other requests were served while batch waited, the next eligible request is a
      // batch request.
      const bool batch_could = std::any_of(heads.begin(), heads.end(), [&](const auto& head) {
        return head.first.first == Class::kBatch && head.first.second != blocked;
      });
      if (batch_could && since_batch + 1 >= batch_turn) {
        ASSERT_EQ(taken->traffic_class, Class::kBatch);
      }
      since_batch = taken->traffic_class == Class::kBatch || !batch_waits ? 0 : since_batch + 1;
    }
    if (queue.size(Class::kBatch) == 0) since_batch = 0;
    std::uint64_t tokens = 0;
    core::Instant oldest = core::kNever;
    for (const auto& [number, waiting] : model) {
      tokens += waiting.tokens;
      oldest = std::min(oldest, waiting.since);
    }
    ASSERT_EQ(queue.size(), model.size());
    ASSERT_EQ(queue.tokens(), tokens);
    ASSERT_EQ(queue.oldest(), oldest);
  }
  while (const auto taken = queue.pop(kAny)) {
    ASSERT_EQ(model.erase(taken->ticket), 1U);
    log.taken.push_back(taken->ticket);
  }
  ASSERT_TRUE(model.empty());
}

TEST(FairQueueProperty, AgreesWithAListAndNeverLosesATicket) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Log first, second;
    ASSERT_NO_FATAL_FAILURE(play(seed, first)) << "seed " << seed;
    ASSERT_NO_FATAL_FAILURE(play(seed, second));
    ASSERT_EQ(first, second) << "not deterministic: seed " << seed;
  }
}

TEST(FairQueueProperty, BatchIsNotStarvedByInteractiveRequests) {
  for (std::uint32_t batch_turn = 1; batch_turn <= 10; ++batch_turn) {
    FairQueue queue{{}, batch_turn};
    std::uint64_t ticket = 0;
    std::uint32_t batch = 0;
    for (std::uint32_t turn = 0; turn < 100 * batch_turn; ++turn) {
      while (queue.size(Class::kInteractive) < 5)
        ASSERT_TRUE(queue.push({ticket++, 0, Class::kInteractive, 10, 9, core::kStart}));
      while (queue.size(Class::kBatch) < 5)
        ASSERT_TRUE(queue.push({ticket++, 1, Class::kBatch, 10'000, 0, core::kStart}));
      batch += queue.pop(kAny)->traffic_class == Class::kBatch ? 1 : 0;
    }
    EXPECT_EQ(batch, 100U);
  }
}

}  // namespace
}  // namespace penstock::admission
