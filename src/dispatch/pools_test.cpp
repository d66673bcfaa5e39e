// Several pools of aggregated replicas: which pool a request goes to, and when it goes to another one.
#include <gtest/gtest.h>

#include <map>

#include "core/random.h"
#include "dispatch/dispatcher.h"
#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

PoolRule pool_rule(std::string name) {
  PoolRule rule;
  rule.name = std::move(name);
  return rule;
}

ReplicaSpec replica_in(const std::string& pool, const std::string& id) {
  ReplicaSpec spec = replica_named(id);
  spec.pool = pool;
  return spec;
}

RequestInfo prompt_of(std::uint32_t tokens, admission::Class traffic_class = admission::Class::kInteractive) {
  RequestInfo info = info_of(4 * std::size_t{tokens});
  info.prompt_tokens_given = tokens;
  info.traffic_class = traffic_class;
  info.stream = true;
  return info;
}

// Pools "nightly" for batch requests, "short" for prompts of at most 4,000 tokens, "long" for all others.
class PoolsTest : public ::testing::Test {
 protected:
  PoolsTest() {
    options = options_for_tests();
    options.pools = {pool_rule("nightly"), pool_rule("short"), pool_rule("long")};
    options.pools[0].traffic_class = "batch";
    options.pools[1].prompt_max = 4000;
    options.picker.prefill_tokens_per_s = 8000.0;
    options.pressure.prefill_tokens_per_replica = 1'000'000;
  }
  void open(const std::vector<std::string>& ids = {"nightly-1", "short-1", "long-1"}) {
    dispatcher = std::make_unique<Dispatcher>(options, nullptr, kNow - 10s, core::Duration{});
    set(ids);
  }
  // The name of a pool is the part of the id before the hyphen.
  void set(const std::vector<std::string>& ids) {
    std::vector<ReplicaSpec> specs;
    for (const std::string& id : ids) {
      specs.push_back(replica_in(id.substr(0, id.find('-')), id));
      if (const auto limit = contexts.find(specs.back().pool); limit != contexts.end())
        specs.back().context_tokens = limit->second;
    }
    dispatcher->set_replicas(specs, kNow);
  }
  ArrivalResult arrive(RequestInfo info, core::Instant now = kNow) {
    info.received_at = now;
    return dispatcher->arrive(info, listener, now);
  }
  // The pool of the replica that takes the request; "waits" if it waits.
  std::string sent_to(const RequestInfo& info) {
    const ArrivalResult result = arrive(info);
    if (result.refusal) return std::string{"refused: "} + to_string(result.refusal->reason);
    return result.grant ? pool_of(*result.grant) : "waits";
  }
  [[nodiscard]] std::string pool_of(const Grant& grant) const {
    for (const ReplicaStatus& status : dispatcher->replicas(kNow))
      if (status.slot == grant.slot) return status.spec.pool;
    return {};
  }

  DispatchOptions options;
  std::map<std::string, std::uint32_t> contexts;  // That the replicas of a pool report.
  TestListener listener;
  std::unique_ptr<Dispatcher> dispatcher;
};

TEST_F(PoolsTest, TheFirstPoolThatMatchesServesARequest) {
  open();
  EXPECT_EQ(sent_to(prompt_of(4000)), "short");
  EXPECT_EQ(sent_to(prompt_of(4001)), "long");
  EXPECT_EQ(sent_to(prompt_of(10, admission::Class::kBatch)), "nightly");
}

TEST_F(PoolsTest, WithoutRulesThePoolOfAReplicaMeansNothing) {
  options.pools.clear();
  open({"short-1"});
  EXPECT_EQ(sent_to(prompt_of(20'000)), "short");
  EXPECT_EQ(sent_to(prompt_of(10, admission::Class::kBatch)), "short");
}

TEST_F(PoolsTest, ATenantHasItsPoolToItself) {
  options.tenants.resize(2);
  options.tenants[1].name = "acme";
  options.pools = {pool_rule("acme"), pool_rule("rest")};
  options.pools[0].tenant = "acme";
  open({"acme-1"});
  RequestInfo of_acme = prompt_of(100);
  of_acme.tenant = 1;
  EXPECT_EQ(sent_to(of_acme), "acme");
  EXPECT_EQ(sent_to(prompt_of(100)), "waits") << "a pool of a tenant takes no overflow of others";
}

TEST_F(PoolsTest, AShortPromptGoesToTheLongPoolWhenItsOwnIsGoneAndNotTheReverse) {
  open({"long-1"});
  EXPECT_EQ(sent_to(prompt_of(100)), "long");
  set({"short-1"});
  EXPECT_EQ(sent_to(prompt_of(8000)), "waits");
  const ArrivalResult waits = arrive(prompt_of(8001));
  set({"short-1", "long-2"});
  ASSERT_TRUE(listener.grants.contains(waits.ticket));
  EXPECT_EQ(pool_of(listener.grants.at(waits.ticket)), "long");
}

TEST_F(PoolsTest, ARequestThatWaitsForItsPoolHoldsUpNoOther) {
  open({"short-1"});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sent_to(prompt_of(8000)), "waits");
  EXPECT_EQ(sent_to(prompt_of(100)), "short");
  const Overview seen = dispatcher->overview(kNow + 1s);
  ASSERT_EQ(seen.models.size(), 1U);
  EXPECT_EQ(seen.models[0].waiting_for_room, 20U);
  EXPECT_EQ(seen.models[0].waiting_by_pool, (std::vector<std::uint32_t>{0, 0, 20, 0}));
}

// 8,000 tokens a second and a TTFT objective of 2 s: the margin is 1 s, or 8,000 tokens in front of the request.
TEST_F(PoolsTest, ARequestOverflowsWhenAnotherPoolAnswersSoonerByHalfTheObjective) {
  open({"short-1", "long-1"});
  EXPECT_EQ(sent_to(prompt_of(4000)), "short");
  EXPECT_EQ(sent_to(prompt_of(3500)), "short") << "0.5 s of waiting";
  EXPECT_EQ(sent_to(prompt_of(400)), "short") << "0.94 s";
  EXPECT_EQ(sent_to(prompt_of(400)), "short") << "0.99 s";
  EXPECT_EQ(sent_to(prompt_of(400)), "long") << "1.04 s, and nothing waits there";
  EXPECT_EQ(sent_to(prompt_of(400)), "short") << "now less than 1 s of difference";
  const std::vector<PoolStatus> pools = dispatcher->overview(kNow).pools;
  ASSERT_EQ(pools.size(), 3U);
  EXPECT_EQ(pools[1].name, "short");
  EXPECT_EQ(pools[1].own_total, 5U);
  EXPECT_EQ(pools[1].overflow_total, 1U);
  EXPECT_EQ(pools[2].own_total, 0U);
}

TEST_F(PoolsTest, APoolMayKeepItsRequests) {
  options.pools[1].overflow = false;
  open();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sent_to(prompt_of(4000)), "short");
  set({"nightly-1", "long-1"});
  EXPECT_EQ(sent_to(prompt_of(4000)), "nightly") << "without a replica of its own it goes elsewhere all the same";
}

TEST_F(PoolsTest, TheMarginFollowsTheObjectiveOfTheSegment) {
  signals::SegmentSlo patient;
  patient.name = "patient";
  patient.prompt_max = 4000;
  patient.target.ttft = 60s;
  options.slo.segments = {patient};
  open();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(sent_to(prompt_of(4000)), "short");
}

TEST_F(PoolsTest, ABatchRequestGoesToAnotherPoolOnlyWhileThatIsIdle) {
  open({"short-1", "long-1"});
  const ArrivalResult first = arrive(prompt_of(100));
  EXPECT_EQ(pool_of(*first.grant), "short");
  EXPECT_EQ(sent_to(prompt_of(100, admission::Class::kBatch)), "long");
  EXPECT_EQ(sent_to(prompt_of(100, admission::Class::kBatch)), "waits") << "both have requests now";
}

TEST_F(PoolsTest, AnInteractiveRequestMayUseTheBatchPool) {
  open({"nightly-1"});
  EXPECT_EQ(sent_to(prompt_of(100)), "nightly");
  EXPECT_EQ(sent_to(prompt_of(100)), "nightly");
}

TEST_F(PoolsTest, ARequestThatItsPoolCannotHoldGoesToTheNextThatMatches) {
  contexts = {{"nightly", 8000}, {"short", 8000}};
  options.models[0].context_tokens = 0;
  options.context_tokens = 65'536;
  open();
  EXPECT_EQ(sent_to(prompt_of(7000, admission::Class::kBatch)), "nightly");
  EXPECT_EQ(sent_to(prompt_of(8001, admission::Class::kBatch)), "long");
  RequestInfo long_answer = prompt_of(100);
  long_answer.max_tokens = 7901;
  EXPECT_EQ(sent_to(long_answer), "long");
  EXPECT_EQ(sent_to(prompt_of(70'000)), "refused: context_length_exceeded");
  contexts["long"] = 16'000;
  set({"nightly-1", "short-1", "long-1"});
  EXPECT_EQ(sent_to(prompt_of(16'001)), "refused: context_length_exceeded") << "the largest of the pools";
}

TEST_F(PoolsTest, AReplicaOfNoConfiguredPoolTakesWhatOverflows) {
  open({"default-1"});
  EXPECT_EQ(sent_to(prompt_of(20'000)), "default");
}

TEST_F(PoolsTest, ARetryGoesToAnotherPoolThatMayTakeTheRequest) {
  open({"short-1", "long-1"});
  const ArrivalResult result = arrive(prompt_of(100));
  ASSERT_EQ(pool_of(*result.grant), "short");
  EXPECT_TRUE(dispatcher->may_retry(result.ticket, kNow));
  dispatcher->attempt_ended(result.ticket, Attempt::kFaulted, kNow + 1s);
  const auto again = dispatcher->route_again(result.ticket, kNow + 1s);
  ASSERT_TRUE(again);
  EXPECT_EQ(pool_of(*again), "long");
}

TEST_F(PoolsTest, AReplicaThatMovesToAnotherPoolIsAnotherReplica) {
  open({"short-1"});
  const std::uint32_t before = *dispatcher->slot_of("short-1");
  EXPECT_EQ(sent_to(prompt_of(100)), "short");
  dispatcher->set_replicas({replica_in("long", "short-1")}, kNow);
  EXPECT_NE(*dispatcher->slot_of("short-1"), before);
  EXPECT_EQ(sent_to(prompt_of(8000)), "long");
}

// Whatever happens, a grant is of the own pool, or of one that the rules allow.
class RandomPools final : GrantListener {
 public:
  explicit RandomPools(std::uint64_t seed) : random_(core::RandomStream{seed}) {
    options_ = options_for_tests();
    options_.models[0].context_tokens = 0;
    options_.tenants.resize(3);
    options_.tenants[1].name = "acme";
    options_.tenants[2].name = "other";
    options_.strategy = static_cast<routing::Strategy>(random_.below(5));
    options_.pressure.prefill_tokens_per_replica = 4'000 + random_.below(100'000);
    const std::size_t count = 2 + random_.below(3);
    for (std::size_t i = 0; i < count; ++i) {
      PoolRule& rule = options_.pools.emplace_back(pool_rule("p" + std::to_string(i)));
      rule.overflow = random_.below(2) == 0;
      if (i + 1 == count) break;
      if (random_.below(3) == 0) rule.traffic_class = random_.below(2) == 0 ? "batch" : "interactive";
      if (random_.below(4) == 0) rule.tenant = "acme";
      if (random_.below(2) == 0) rule.prompt_max = static_cast<std::uint32_t>(500 + random_.below(8000));
      if (random_.below(4) == 0) rule.prompt_min = static_cast<std::uint32_t>(random_.below(rule.prompt_max / 2));
    }
    dispatcher_ = std::make_unique<Dispatcher>(options_, nullptr, now_, core::Duration{});
  }

  void run(int steps) {
    change_replicas();
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      now_ += std::chrono::milliseconds{random_.below(200)};
      switch (random_.below(6)) {
        case 0: change_replicas(); break;
        case 1: dispatcher_->tick(now_); break;
        case 2: end_one(); break;
        default: arrive(); break;
      }
      EXPECT_EQ(dispatcher_->invariant_violation(now_), "");
    }
  }
  [[nodiscard]] int own() const { return own_; }
  [[nodiscard]] int elsewhere() const { return elsewhere_; }

 private:
  struct Sent {
    signals::SloTraits traits;
    bool granted = false;
  };

  void change_replicas() {
    std::vector<ReplicaSpec> specs;
    for (const PoolRule& rule : options_.pools)
      for (std::uint64_t i = random_.below(3); i > 0; --i) {
        specs.push_back(replica_in(rule.name, rule.name + "-" + std::to_string(i)));
        if (rule.prompt_max < UINT32_MAX) specs.back().context_tokens = rule.prompt_max + 1000;
      }
    dispatcher_->set_replicas(specs, now_);
  }
  void arrive() {
    const auto tokens = static_cast<std::uint32_t>(1 + random_.below(12'000));
    RequestInfo info =
        prompt_of(tokens, random_.below(3) == 0 ? admission::Class::kBatch : admission::Class::kInteractive);
    info.tenant = static_cast<std::uint32_t>(random_.below(3));
    info.received_at = now_;
    traits_ = {"m", admission::to_string(info.traffic_class), options_.tenants[info.tenant].name, tokens};
    const ArrivalResult result = dispatcher_->arrive(info, *this, now_);
    if (!result.ticket) return;
    open_[result.ticket] = {traits_, result.grant.has_value()};
    if (result.grant) check(*result.grant, traits_);
  }
  void end_one() {
    if (open_.empty()) return;
    auto chosen = open_.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(random_.below(open_.size())));
    const Ticket ticket = chosen->first;
    open_.erase(chosen);
    dispatcher_->ended(ticket, RequestOutcome{}, now_);
  }
  void deliver(Ticket ticket, const Grant& grant) override {
    open_[ticket].granted = true;
    check(grant, open_[ticket].traits);
  }
  void deliver(Ticket ticket, const Refusal&) override { open_.erase(ticket); }

  void check(const Grant& grant, const signals::SloTraits& traits) {
    std::string name;
    std::uint32_t context = 0;
    for (const ReplicaStatus& status : dispatcher_->replicas(now_))
      if (status.slot == grant.slot) {
        name = status.spec.pool;
        context = status.spec.context_tokens;
      }
    const std::uint32_t first = signals::first_match(options_.pools, traits);
    EXPECT_TRUE(context == 0 || traits.prompt_tokens <= context);
    if (options_.pools[first].name == name) {
      ++own_;
      return;
    }
    ++elsewhere_;
    for (const PoolRule& rule : options_.pools)
      if (rule.name == name) {
        EXPECT_LE(traits.prompt_tokens, rule.prompt_max) << name;
        EXPECT_TRUE(rule.tenant.empty() || rule.tenant == traits.tenant) << name;
      }
  }

  core::RandomStream random_;
  DispatchOptions options_;
  core::Instant now_ = kNow;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::map<Ticket, Sent> open_;
  signals::SloTraits traits_;
  int own_ = 0, elsewhere_ = 0;
};

TEST(PoolsProperty, ARequestGoesOnlyToAPoolThatMayTakeIt) {
  int own = 0, elsewhere = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !::testing::Test::HasFailure(); ++seed) {
    RandomPools world{seed};
    world.run(300);
    own += world.own();
    elsewhere += world.elsewhere();
    EXPECT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(own, 1000);
  EXPECT_GT(elsewhere, 100);
}

}  // namespace
}  // namespace penstock::dispatch
