#include "dispatch/replica_set.h"

#include <gtest/gtest.h>

#include <set>

#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;

class ReplicaSetTest : public ::testing::Test {
 protected:
  // Sends a request where the group's picker wants it.
  std::optional<std::uint32_t> dispatch(core::Instant now = kNow) {
    const auto group = group_of("m", signals::Role::kAggregated);
    if (!group) return std::nullopt;
    const auto selection = set.choose(*group, routing::PickRequest{}, now);
    if (!selection) return std::nullopt;
    set.dispatched(routing::PickRequest{}, *selection, now);
    return selection->slot;
  }
  // Returns the period of the attempt.
  std::uint32_t dispatch_to(std::uint32_t slot, core::Instant now = kNow) {
    routing::Selection selection;
    selection.slot = slot;
    return set.dispatched(routing::PickRequest{}, selection, now);
  }
  void fail(std::uint32_t slot, int times) {
    for (int i = 0; i < times; ++i) {
      set.faulted(slot, dispatch_to(slot), kNow);
      finish(slot);
    }
  }
  void finish(std::uint32_t slot) { set.finished(slot, 0, 0, 0, false); }
  [[nodiscard]] std::optional<std::uint32_t> group_of(std::string_view model, signals::Role role) const {
    const auto number = set.model_number(model);
    return number ? set.group_of(*number, role) : std::nullopt;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const ModelListing& model : set.models()) all.push_back(model.name);
    return all;
  }
  // The slots that requests for the model go to, while each stays there.
  std::set<std::uint32_t> slots_of(const std::string& model) {
    std::set<std::uint32_t> slots;
    routing::PickRequest request;
    request.input_tokens = request.output_tokens = 1000;
    for (int i = 0; i < 40; ++i) {
      const auto chosen = set.choose(*set.model_number(model), signals::Role::kAggregated, request, kNow);
      if (!chosen) break;
      set.dispatched(request, *chosen, kNow);
      slots.insert(chosen->slot);
    }
    return slots;
  }
  [[nodiscard]] bool eligible(std::uint32_t slot, core::Instant now = kNow) const {
    return set.load(slot, now).eligible;
  }

  DispatchOptions options = [] {
    DispatchOptions made = options_for_tests();
    made.circuit_breaker.failures = 2;
    made.circuit_breaker.open = 10s;
    return made;
  }();
  ReplicaSet set{options};
};

TEST_F(ReplicaSetTest, ReplicasOfAModelAndARoleAreInterchangeable) {
  ReplicaSpec other = replica_named("o1");
  other.model = "other";
  set.set({replica_named("r1"), replica_named("r2"), replica_named("p1", signals::Role::kPrefill), other}, kNow);
  EXPECT_EQ(set.replica(*set.slot_of("r1")).group, set.replica(*set.slot_of("r2")).group);
  EXPECT_NE(set.replica(*set.slot_of("r1")).group, set.replica(*set.slot_of("p1")).group);
  EXPECT_NE(set.replica(*set.slot_of("r1")).group, set.replica(*set.slot_of("o1")).group);
  EXPECT_EQ(names(), (std::vector<std::string>{"m", "other"}));
  EXPECT_TRUE(set.serves(*set.model_number("other")));
  EXPECT_EQ(set.model_number("none"), std::nullopt);
}

TEST_F(ReplicaSetTest, AModelIsKnownWhenItIsConfiguredOrOnceItWasServed) {
  ReplicaSpec other = replica_named("o1");
  other.model = "other";
  set.set({other}, kNow);
  set.set({}, kNow);
  ASSERT_TRUE(set.model_number("other"));
  EXPECT_FALSE(set.serves(*set.model_number("other")));
  EXPECT_TRUE(set.model_number("m")) << "configured";
  EXPECT_FALSE(set.model_number("none"));
  EXPECT_EQ(names(), (std::vector<std::string>{"m", "other"}));
}

TEST_F(ReplicaSetTest, AChangedWeightTakesEffect) {
  set.set({replica_named("r1"), replica_named("r2")}, kNow);
  ReplicaSpec light = replica_named("r1");
  light.weight = 0.001;
  set.set({light, replica_named("r2")}, kNow);
  const std::uint32_t slot = *set.slot_of("r2");
  routing::PickRequest ask;
  ask.input_tokens = 1000;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(set.choose(set.replica(slot).group, ask, kNow)->slot, slot);
}

TEST_F(ReplicaSetTest, AChangedSizeOfTheCacheTakesEffect) {
  set.set({replica_named("r1")}, kNow);
  const std::uint32_t slot = *set.slot_of("r1");
  const std::vector<std::uint64_t> keys{1, 2, 3, 4, 5, 6};
  routing::PickRequest ask;
  ask.keys = keys;
  ask.key_tokens = options.key_tokens;
  ask.input_tokens = 6 * options.key_tokens;
  set.dispatched(ask, *set.choose(set.replica(slot).group, ask, kNow), kNow);
  EXPECT_EQ(set.load(slot, kNow).keys, 6U);
  ReplicaSpec small = replica_named("r1");
  small.kv_tokens = 2 * options.key_tokens;
  set.set({small}, kNow);
  EXPECT_EQ(set.load(slot, kNow).keys, 2U);
}

TEST_F(ReplicaSetTest, AChangedRoleMovesAReplicaToThoseOfThatRole) {
  set.set({replica_named("r1")}, kNow);
  const std::uint32_t before = *dispatch();
  set.set({replica_named("r1", signals::Role::kDecode)}, kNow);
  const std::uint32_t after = *set.slot_of("r1");
  EXPECT_NE(after, before) << "requests in flight end where they began";
  EXPECT_FALSE(eligible(before));
  EXPECT_TRUE(eligible(after));
  EXPECT_EQ(set.replica(after).group, group_of("m", signals::Role::kDecode));
  finish(before);
  EXPECT_EQ(set.slot_of("r1"), after);
}

TEST_F(ReplicaSetTest, ASlotIsUsedAgainOnceItsReplicaIsGone) {
  set.set({replica_named("r1"), replica_named("r2")}, kNow);
  const std::uint32_t slot = *set.slot_of("r1");
  set.set({replica_named("r2")}, kNow);
  EXPECT_EQ(set.slot_of("r1"), std::nullopt);
  set.set({replica_named("r2"), replica_named("r3")}, kNow);
  EXPECT_EQ(set.slot_of("r3"), slot);
  EXPECT_EQ(set.slots(), 2U);
  EXPECT_EQ(set.replica(slot).requests_total, 0U);
}

TEST_F(ReplicaSetTest, ASlotWithOpenRequestsIsKept) {
  set.set({replica_named("r1")}, kNow);
  const std::uint32_t slot = *dispatch();
  set.set({replica_named("r2")}, kNow);
  EXPECT_FALSE(eligible(slot));
  EXPECT_NE(*set.slot_of("r2"), slot);
  finish(slot);
  EXPECT_EQ(set.slot_of("r1"), std::nullopt);
  set.set({replica_named("r2"), replica_named("r3")}, kNow);
  EXPECT_EQ(set.slot_of("r3"), slot);
}

TEST_F(ReplicaSetTest, TheSameNameElsewhereIsAnotherReplica) {
  set.set({replica_named("r1")}, kNow);
  const std::uint32_t before = *dispatch();
  ReplicaSpec moved = replica_named("r1");
  moved.number = 7;
  set.set({moved}, kNow);
  const std::uint32_t after = *set.slot_of("r1");
  EXPECT_NE(after, before);
  EXPECT_FALSE(eligible(before));
  EXPECT_TRUE(eligible(after));
  EXPECT_EQ(set.replica(after).spec.number, 7U);
  finish(before);
  EXPECT_EQ(set.slot_of("r1"), after) << "the end of the first one is not the end of its name";
}

TEST_F(ReplicaSetTest, TheSameReplicaKeepsWhatIsKnownOfIt) {
  set.set({replica_named("r1")}, kNow);
  const std::uint32_t slot = *dispatch();
  set.set_health(slot, ReplicaHealth::kUnhealthy, kNow);
  ReplicaSpec moved = replica_named("r1");
  moved.pool = "another";
  set.set({moved}, kNow);
  EXPECT_EQ(set.slot_of("r1"), slot);
  EXPECT_EQ(set.replica(slot).spec.pool, "another");
  EXPECT_EQ(set.replica(slot).requests_total, 1U);
  EXPECT_FALSE(eligible(slot)) << "it is as unhealthy as before";
}

TEST_F(ReplicaSetTest, AReplicaThatIsListedAgainIsHealthyUntilItIsChecked) {
  for (const auto health : {ReplicaHealth::kUnhealthy, ReplicaHealth::kSlow}) {
    set.set({replica_named("r1"), replica_named("r2")}, kNow);
    const std::uint32_t slot = *set.slot_of("r1");
    static_cast<void>(dispatch_to(slot));
    set.set_health(slot, health, kNow);
    set.set({replica_named("r2")}, kNow);
    EXPECT_FALSE(eligible(slot));
    set.set({replica_named("r1"), replica_named("r2")}, kNow);
    EXPECT_EQ(set.slot_of("r1"), slot) << "it still has a request";
    EXPECT_TRUE(set.replica(slot).is_healthy());
    EXPECT_TRUE(eligible(slot));
  }
}

TEST_F(ReplicaSetTest, OnlyHealthyServingReplicasMayBeChosen) {
  ReplicaSpec spec = replica_named("r1");
  for (const auto& [phase, may] : {std::pair{ReplicaPhase::kWarming, false}, std::pair{ReplicaPhase::kServing, true},
                                   std::pair{ReplicaPhase::kDraining, false}}) {
    spec.phase = phase;
    set.set({spec}, kNow);
    EXPECT_EQ(eligible(*set.slot_of("r1")), may);
  }
  spec.phase = ReplicaPhase::kServing;
  set.set({spec}, kNow);
  set.set_health(0, ReplicaHealth::kUnhealthy, kNow);
  EXPECT_FALSE(eligible(0));
  set.set_health(0, ReplicaHealth::kHealthy, kNow);
  EXPECT_TRUE(eligible(0));
}

TEST_F(ReplicaSetTest, ADrainingReplicaFinishesItsRequests) {
  set.set({replica_named("r1")}, kNow);
  const std::uint32_t slot = *dispatch();
  ReplicaSpec draining = replica_named("r1");
  draining.phase = ReplicaPhase::kDraining;
  set.set({draining}, kNow);
  EXPECT_FALSE(dispatch());
  EXPECT_EQ(set.replica(slot).open_requests, 1U);
  finish(slot);
  EXPECT_EQ(set.slot_of("r1"), slot) << "it is there until discovery says otherwise";
}

TEST_F(ReplicaSetTest, ConsecutiveFailuresEjectAReplicaAndOneRequestTriesIt) {
  set.set({replica_named("r1"), replica_named("r2")}, kNow);
  fail(0, 2);
  EXPECT_FALSE(eligible(0));
  set.tick(kNow + 9s);
  EXPECT_FALSE(eligible(0));
  set.tick(kNow + 10s);
  EXPECT_TRUE(eligible(0));
  const std::uint32_t trial = dispatch_to(0, kNow + 10s);
  EXPECT_FALSE(eligible(0)) << "one request tries it, not all";
  set.succeeded(0, trial, kNow + 11s);
  EXPECT_TRUE(eligible(0));
  const std::vector<BreakerChange> changes = set.take_breaker_changes();
  ASSERT_EQ(changes.size(), 3U);
  EXPECT_EQ(changes[0].cause, EjectionCause::kConsecutiveFailures);
  EXPECT_EQ(changes[0].time, 10s);
  EXPECT_EQ(changes[1].state, CircuitBreaker::State::kTrying);
  EXPECT_EQ(changes[2].state, CircuitBreaker::State::kClosed);
}

TEST_F(ReplicaSetTest, AFailedTrialEjectsForTwiceAsLong) {
  set.set({replica_named("r1"), replica_named("r2")}, kNow);
  fail(0, 2);
  set.tick(kNow + 10s);
  set.faulted(0, dispatch_to(0, kNow + 10s), kNow + 11s);
  set.tick(kNow + 30s);
  EXPECT_FALSE(eligible(0));
  set.tick(kNow + 31s);
  EXPECT_TRUE(eligible(0));
}

TEST_F(ReplicaSetTest, ATrialWhoseClientLeftLeavesRoomForAnother) {
  set.set({replica_named("r1"), replica_named("r2")}, kNow);
  fail(0, 2);
  set.tick(kNow + 10s);
  set.undecided(0, dispatch_to(0, kNow + 10s), kNow + 10s);
  EXPECT_TRUE(eligible(0));
}

TEST_F(ReplicaSetTest, TheOnlyReplicaIsNeverEjected) {
  set.set({replica_named("r1")}, kNow);
  fail(0, 20);
  EXPECT_TRUE(eligible(0));
  EXPECT_TRUE(dispatch()) << "also while a request of it is open and the last one failed";
  EXPECT_TRUE(dispatch());
}

TEST_F(ReplicaSetTest, AtMostTheConfiguredShareIsEjected) {
  set.set({replica_named("r1"), replica_named("r2"), replica_named("r3"), replica_named("r4")}, kNow);
  for (std::uint32_t slot = 0; slot < 4; ++slot) fail(slot, 2);
  EXPECT_FALSE(eligible(0));
  EXPECT_FALSE(eligible(1));
  EXPECT_TRUE(eligible(2));
  EXPECT_TRUE(eligible(3));
}

TEST_F(ReplicaSetTest, AnEjectedReplicaServesIfNoOtherIsAvailable) {
  set.set({replica_named("r1"), replica_named("r2")}, kNow);
  fail(0, 2);
  set.set_health(1, ReplicaHealth::kUnhealthy, kNow);
  EXPECT_TRUE(eligible(0));
  EXPECT_TRUE(dispatch());
  EXPECT_TRUE(dispatch()) << "not only as a trial";
  set.set_health(1, ReplicaHealth::kHealthy, kNow);
  EXPECT_FALSE(eligible(0));
  EXPECT_TRUE(eligible(1));
  set.set_health(1, ReplicaHealth::kUnhealthy, kNow);
  set.succeeded(0, dispatch_to(0), kNow);
  set.set_health(1, ReplicaHealth::kHealthy, kNow);
  EXPECT_TRUE(eligible(0)) << "a whole answer ends the ejection";
}

TEST_F(ReplicaSetTest, SlowReplicasServeWhileNoneIsHealthy) {
  set.set({replica_named("r1"), replica_named("r2"), replica_named("r3")}, kNow);
  set.set_health(0, ReplicaHealth::kSlow, kNow);
  EXPECT_FALSE(eligible(0)) << "others are healthy";
  set.set_health(1, ReplicaHealth::kUnhealthy, kNow);
  EXPECT_FALSE(eligible(0));
  set.set_health(2, ReplicaHealth::kSlow, kNow);
  EXPECT_TRUE(eligible(0));
  EXPECT_FALSE(eligible(1)) << "nothing is sent to a replica that fails";
  EXPECT_TRUE(eligible(2));
  EXPECT_TRUE(set.any_available(*set.model_number("m"), signals::Role::kAggregated, std::vector{2U}));
  set.set_health(1, ReplicaHealth::kHealthy, kNow);
  EXPECT_FALSE(eligible(0));
  EXPECT_TRUE(eligible(1));
  EXPECT_FALSE(eligible(2));
  set.set({replica_named("r1"), replica_named("r3")}, kNow);
  EXPECT_TRUE(eligible(0)) << "the healthy one left the list";
  EXPECT_TRUE(eligible(2));
  EXPECT_EQ(set.replica(0).health, ReplicaHealth::kSlow);
  set.set({replica_named("r1"), replica_named("r3"), replica_named("r4")}, kNow);
  EXPECT_FALSE(eligible(0)) << "a new one is assumed to be healthy";
}

TEST_F(ReplicaSetTest, AReplicaThatIsHealthyAgainMayBeTriedAtOnce) {
  set.set({replica_named("r1"), replica_named("r2")}, kNow);
  fail(0, 2);
  set.set_health(0, ReplicaHealth::kUnhealthy, kNow + 1s);
  set.set_health(0, ReplicaHealth::kHealthy, kNow + 2s);
  EXPECT_TRUE(eligible(0));
}

TEST_F(ReplicaSetTest, AReplicaWhoseLastAttemptFailedGetsOneRequestAtATime) {
  set.set({replica_named("r1"), replica_named("r2")}, kNow);
  const std::uint32_t period = dispatch_to(0);
  set.faulted(0, dispatch_to(0), kNow);
  finish(0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(*dispatch(), 1U);
  EXPECT_TRUE(eligible(0)) << "it is not ejected";
  finish(0);
  for (int i = 0; i < 10 && set.replica(0).open_requests == 0; ++i) static_cast<void>(dispatch());
  EXPECT_EQ(set.replica(0).open_requests, 1U);
  set.succeeded(0, period, kNow);
  for (int i = 0; i < 10; ++i) static_cast<void>(dispatch());
  EXPECT_GT(set.replica(0).open_requests, 1U);
}

TEST_F(ReplicaSetTest, ABusyReplicaIsNotABrokenOne) {
  set.set({replica_named("r1"), replica_named("r2")}, kNow);
  const std::uint32_t slot = *dispatch();
  for (int i = 0; i < 5; ++i) set.busy(slot, 0, kNow);
  EXPECT_TRUE(eligible(slot));
  EXPECT_EQ(set.replica(slot).busy_total, 5U);
  for (int i = 0; i < 5; ++i) EXPECT_NE(*dispatch(), slot) << "the other is asked while it is busy";
}

// ---- aliases and adapters ------------------------------------------------------------------------------------------

TEST_F(ReplicaSetTest, AnAdapterIsServedByTheReplicasThatHaveIt) {
  ReplicaSpec with = replica_named("r1"), without = replica_named("r2");
  with.also = {{"alias", 0, 0}, {"lora", 7, 0}};
  without.also = {{"alias", 0, 0}};
  set.set({with, without}, kNow);
  const std::uint32_t r1 = *set.slot_of("r1"), r2 = *set.slot_of("r2");
  EXPECT_EQ(slots_of("alias"), (std::set<std::uint32_t>{r1, r2}));
  EXPECT_EQ(slots_of("lora"), (std::set<std::uint32_t>{r1}));
  EXPECT_EQ(set.key_salt(*set.model_number("lora")), 7U);
  EXPECT_EQ(set.key_salt(*set.model_number("alias")), 0U);
  EXPECT_EQ(names(), (std::vector<std::string>{"alias", "lora", "m"}));
  // The replica that failed the request is no candidate, and no other has the adapter.
  routing::PickRequest again;
  again.without = std::span{&r1, 1};
  EXPECT_FALSE(set.choose(*set.model_number("lora"), signals::Role::kAggregated, again, kNow));
  EXPECT_TRUE(set.any_eligible(*set.model_number("lora"), signals::Role::kAggregated));
  set.set_health(r1, ReplicaHealth::kUnhealthy, kNow);
  EXPECT_FALSE(set.any_eligible(*set.model_number("lora"), signals::Role::kAggregated));
}

TEST_F(ReplicaSetTest, AnAdapterThatWasUnloadedIsUnknownButNotOneWhoseReplicasAreAway) {
  ReplicaSpec spec = replica_named("r1");
  spec.also = {{"lora", 7, 0}};
  set.set({spec}, kNow);
  set.set({}, kNow);
  EXPECT_TRUE(set.model_number("lora")) << "requests wait for the replica";
  EXPECT_FALSE(set.serves(*set.model_number("lora")));
  set.set({spec}, kNow);
  const std::uint32_t number = *set.model_number("lora");
  set.set({replica_named("r1")}, kNow);
  EXPECT_FALSE(set.model_number("lora"));
  EXPECT_EQ(names(), (std::vector<std::string>{"m"}));
  set.set({spec}, kNow);
  EXPECT_EQ(set.model_number("lora"), number) << "it was loaded again";
}

TEST_F(ReplicaSetTest, ANameInTwoGroupsIsServedByBoth) {
  ReplicaSpec first = replica_named("r1"), second = replica_named("o1");
  second.model = "other";
  first.also = second.also = {{"chat", 0, 0}};
  set.set({first, second}, kNow);
  EXPECT_EQ(slots_of("chat").size(), 2U);
  EXPECT_EQ(slots_of("m"), (std::set<std::uint32_t>{*set.slot_of("r1")}));
}

TEST_F(ReplicaSetTest, TheSmallestContextCountsAndAdaptersCostAsMuchAsTheirModel) {
  ReplicaSpec small = replica_named("r1"), large = replica_named("r2");
  small.context_tokens = 4096;
  large.context_tokens = 65'536;
  small.also = {{"lora", 7, 2048}};
  large.also = {{"big", 8, 65'536}};
  set.set({small, large}, kNow);
  EXPECT_EQ(set.context_tokens(*set.model_number("m")), 4096U);
  EXPECT_EQ(set.context_tokens(*set.model_number("lora")), 2048U);
  EXPECT_EQ(set.context_tokens(*set.model_number("big")), 32'768U) << "the limit of the options";
  EXPECT_EQ(set.model(*set.model_number("lora")).price.output, 2.0);
  set.options_changed();
  EXPECT_EQ(set.model(*set.model_number("lora")).price.output, 2.0);
  set.set({large}, kNow);
  EXPECT_EQ(set.context_tokens(*set.model_number("m")), 32'768U);
}

}  // namespace
}  // namespace penstock::dispatch
