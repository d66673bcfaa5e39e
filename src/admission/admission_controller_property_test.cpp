// Random sequences of calls: each ticket ends exactly once, and no limit is exceeded.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "admission/admission_controller.h"
#include "core/random.h"

namespace penstock::admission {
namespace {

constexpr core::Instant kBegin = core::kStart + std::chrono::seconds{1};

// A simple model of the budgets of the controller.
struct BudgetModel {
  BudgetLimits limits;
  double level = 0.0;
  core::Instant at = kBegin;
  double reserved = 0.0, settled = 0.0;

  void refill(core::Instant now) {
    level = std::min(limits.capacity(), level + limits.tokens_per_minute * core::to_seconds(now - at) / 60.0);
    at = now;
  }
};

struct World {
  explicit World(std::uint64_t seed) : random(core::RandomStream{seed}.fork("controller")) {
    AdmissionLimits limits;
    limits.classes[0].queue_time = std::chrono::milliseconds{random.below(3) == 0 ? 0 : random.below(20'000)};
    limits.classes[1].queue_time = std::chrono::milliseconds{random.below(5) == 0 ? 0 : random.below(120'000)};
    if (random.below(2) == 0) limits.classes[1].budget = {30'000.0, 6'000.0};
    limits.queue = {static_cast<std::uint32_t>(1 + random.below(60)), 200'000, 30};
    limits.batch_turn = static_cast<std::uint32_t>(1 + random.below(8));
    controller = std::make_unique<AdmissionController>(limits, kBegin);
    for (auto& of_class : {0U, 1U})
      classes.push_back({limits.classes[of_class].budget, limits.classes[of_class].budget.capacity()});
    const auto count = 1 + random.below(6);
    for (std::uint32_t i = 0; i < count; ++i) {
      TenantLimits tenant{"t" + std::to_string(i),
                          random.uniform(0.5, 4.0),
                          static_cast<std::int32_t>(random.below(2)),
                          {},
                          random.below(2) == 0,
                          static_cast<std::uint32_t>(random.below(6))};
      if (random.below(4) != 0) tenant.budget = {random.uniform(1e3, 1e5), random.uniform(1e3, 2e4)};
      controller->set_tenant(i, tenant, kBegin);
      budgets.push_back({tenant.budget, tenant.budget.capacity()});
      tenants.push_back(tenant);
    }
    running.resize(tenants.size());
    models = static_cast<std::uint32_t>(1 + random.below(3));
    room.assign(models, 0);
  }

  void reserve(BudgetModel& budget, std::uint64_t tokens) {
    if (!budget.limits.limited()) return;
    budget.refill(now);
    budget.level -= static_cast<double>(tokens);
    budget.reserved += static_cast<double>(tokens);
    ASSERT_GE(budget.level, -1e-3) << "admitted over its budget";
  }
  void settle(BudgetModel& budget, std::uint64_t tokens, std::uint64_t used) {
    if (!budget.limits.limited()) return;
    budget.refill(now);
    budget.level =
        std::min(budget.limits.capacity(), budget.level + static_cast<double>(tokens) - static_cast<double>(used));
    budget.settled += static_cast<double>(tokens);
  }
  void admit(std::uint64_t ticket) {
    const Arrival& arrival = all.at(ticket);
    ASSERT_TRUE(open.emplace(ticket, arrival).second);
    ASSERT_NO_FATAL_FAILURE(reserve(budgets[arrival.tenant], arrival.estimate.total()));
    ASSERT_NO_FATAL_FAILURE(
        reserve(classes[static_cast<std::size_t>(arrival.traffic_class)], arrival.estimate.total()));
    ++running[arrival.tenant];
    const std::uint32_t limit = tenants[arrival.tenant].concurrent;
    ASSERT_TRUE(limit == 0 || running[arrival.tenant] <= limit);
    room[arrival.model] -= static_cast<std::int64_t>(arrival.estimate.total());
    ++fates[ticket];
  }
  Verdict verdict(std::uint64_t ticket) {
    const Arrival& arrival = all.at(ticket);
    if (room[arrival.model] < -20'000) return Verdict::kReject;
    return room[arrival.model] >= static_cast<std::int64_t>(arrival.estimate.total()) ? Verdict::kAdmit
                                                                                      : Verdict::kWait;
  }

  void arrive() {
    Arrival arrival;
    arrival.ticket = tickets++;
    arrival.tenant = static_cast<std::uint32_t>(random.below(tenants.size()));
    arrival.model = static_cast<std::uint32_t>(random.below(models));
    arrival.traffic_class = random.below(3) == 0 ? Class::kBatch : Class::kInteractive;
    arrival.estimate = {static_cast<std::uint32_t>(1 + random.below(random.below(8) == 0 ? 8000 : 600)),
                        static_cast<std::uint32_t>(random.below(300))};
    arrival.now = now;
    if (random.below(4) == 0)
      arrival.deadline = now + core::Duration{static_cast<std::int64_t>(random.exponential(3e9))};
    all.emplace(arrival.ticket, arrival);
    const Answer answer = controller->arrive(arrival, [&](std::uint64_t ticket) { return verdict(ticket); });
    if (answer.decision == Decision::kAdmit) {
      ASSERT_NO_FATAL_FAILURE(admit(arrival.ticket));
    } else if (answer.decision == Decision::kQueue) {
      waiting.emplace(arrival.ticket, arrival);
    } else {
      ASSERT_FALSE(answer.why.empty());
      ASSERT_LE(answer.retry_after_s, 60U);
      ++fates[arrival.ticket];
    }
  }
  void admit_next() {
    for (bool more = true; more;) {
      const Next next = controller->next(now, [&](std::uint64_t ticket) { return verdict(ticket); });
      ASSERT_LE(next.admitted.size(), AdmissionController::kAdmittedMax);
      for (const Admitted& one : next.admitted) {
        ASSERT_EQ(waiting.erase(one.ticket), 1U);
        ASSERT_NO_FATAL_FAILURE(admit(one.ticket));
      }
      more = next.more;
    }
  }
  void expire() {
    for (const Refused& refused : controller->expired(now)) {
      ASSERT_EQ(waiting.erase(refused.ticket), 1U);
      ASSERT_GE(refused.answer.retry_after_s, 1U);
      ASSERT_LE(refused.answer.retry_after_s, 60U);
      ++fates[refused.ticket];
    }
  }
  void end_one() {
    if (open.empty()) return;
    auto one = open.lower_bound(random.below(tickets));
    if (one == open.end()) one = open.begin();
    const Arrival& arrival = one->second;
    const std::uint64_t tokens = arrival.estimate.total();
    const std::uint64_t used = random.below(5) == 0 ? tokens + random.below(400) : random.below(tokens + 1);
    const bool fails = random.below(5) == 0;
    fails ? controller->failed(one->first, now) : controller->ended(one->first, used, now);
    settle(budgets[arrival.tenant], tokens, fails ? 0 : used);
    settle(classes[static_cast<std::size_t>(arrival.traffic_class)], tokens, fails ? 0 : used);
    --running[arrival.tenant];
    open.erase(one);
  }
  void cancel_one() {
    if (tickets == 0) return;
    const std::uint64_t ticket = random.below(tickets);
    const bool waited = waiting.erase(ticket) == 1;
    ASSERT_EQ(controller->cancelled(ticket), waited);
    if (waited) ++fates[ticket];
  }
  void check() {
    ASSERT_EQ(controller->waiting(), waiting.size());
    for (std::uint32_t i = 0; i < tenants.size(); ++i) {
      const AdmissionController::Tenant seen = controller->tenant(i, now);
      ASSERT_EQ(seen.running, running[i]);
      if (!budgets[i].limits.limited()) continue;
      budgets[i].refill(now);
      ASSERT_NEAR(seen.available_tokens, budgets[i].level, 1e-3);
    }
  }

  core::RandomStream random;
  std::unique_ptr<AdmissionController> controller;
  std::vector<TenantLimits> tenants;
  std::vector<BudgetModel> budgets, classes;
  std::vector<std::uint32_t> running;
  std::uint32_t models = 1;
  std::vector<std::int64_t> room;
  core::Instant now = kBegin;
  std::uint64_t tickets = 0;
  std::map<std::uint64_t, Arrival> all, waiting, open;
  std::map<std::uint64_t, int> fates;
};

// No request stays queued that neither saturation nor its own limits block, unless it is behind another one for the
// budget of its class or behind one that was overtaken too often.
void step(World& world) {
  world.now += core::Duration{static_cast<std::int64_t>(world.random.exponential(2e8))};
  for (std::int64_t& room : world.room) room = std::min<std::int64_t>(room + 400, 8000);
  const std::uint64_t action = world.random.below(10);
  if (action < 5) {
    ASSERT_NO_FATAL_FAILURE(world.arrive());
  } else if (action < 8) {
    world.end_one();
  } else if (action < 9) {
    ASSERT_NO_FATAL_FAILURE(world.cancel_one());
  }
  ASSERT_NO_FATAL_FAILURE(world.expire());
  ASSERT_NO_FATAL_FAILURE(world.admit_next());
  ASSERT_NO_FATAL_FAILURE(world.check());
}

TEST(AdmissionControllerProperty, EachTicketEndsOnceAndNoLimitIsExceeded) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    World world{seed};
    for (int i = 0; i < 1500; ++i) ASSERT_NO_FATAL_FAILURE(step(world)) << "seed " << seed;

    // Without new arrivals the queue drains, nothing runs, and all reservations are settled.
    for (int round = 0; round < 100'000 && !(world.waiting.empty() && world.open.empty()); ++round) {
      const core::Instant wake = world.controller->wake_at(world.now);
      if (wake != core::kNever) {
        ASSERT_GT(wake, world.now) << "seed " << seed;
        world.now = wake;
      }
      for (std::int64_t& room : world.room) room = 20'000;
      world.end_one();
      ASSERT_NO_FATAL_FAILURE(world.expire());
      ASSERT_NO_FATAL_FAILURE(world.admit_next()) << "seed " << seed;
    }
    ASSERT_TRUE(world.waiting.empty() && world.open.empty()) << "seed " << seed;
    for (const BudgetModel& budget : world.budgets) ASSERT_DOUBLE_EQ(budget.reserved, budget.settled);
    ASSERT_EQ(world.fates.size(), world.tickets);
    for (const auto& [ticket, count] : world.fates) ASSERT_EQ(count, 1) << "seed " << seed << ", ticket " << ticket;
  }
}

// A change happens at the time that wake_at() returns, without another event.
TEST(AdmissionControllerProperty, TimeAloneChangesNothingBeforeWakeAt) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    World world{seed};
    for (int i = 0; i < 400; ++i) {
      ASSERT_NO_FATAL_FAILURE(step(world)) << "seed " << seed;
      const core::Instant wake = world.controller->wake_at(world.now);
      if (wake == core::kNever || wake <= world.now + core::Duration{1}) continue;
      const core::Instant before = wake - core::Duration{1};
      const core::Instant at = world.now;
      world.now = before;
      ASSERT_TRUE(world.controller->expired(before).empty());
      const Next next = world.controller->next(before, [&](std::uint64_t ticket) { return world.verdict(ticket); });
      ASSERT_TRUE(next.admitted.empty()) << "seed " << seed << ", " << core::to_seconds(before - at) << " s later";
    }
  }
}

}  // namespace
}  // namespace penstock::admission
