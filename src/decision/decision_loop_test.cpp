#include "decision/decision_loop.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace penstock::decision {
namespace {

// Two pools, "first" with 1 to 8 replicas and "second" with 2 to 4, and a policy that does what a test says.
class Loop : private Policy {
 public:
  std::function<void(Decision&)> say = [](Decision&) {};
  std::vector<std::uint32_t> targets{3, 3};
  std::vector<std::size_t> refused;  // pools
  core::Instant now;                 // as the policy saw it last
  int decided = 0;
  bool wants_more = false;  // Its state has a value that others lack.
  core::Duration wake_time{};
  std::uint32_t min_asleep = 0, asleep_target = 0;
  Policy& policy() { return *this; }

  Tick tick(double seconds) {
    const signals::Observation seen = look(seconds);
    return loop.tick(seen, [&](std::size_t pool, std::uint32_t target) {
      if (std::find(refused.begin(), refused.end(), pool) != refused.end()) return false;
      targets[pool] = target;
      return true;
    });
  }

  [[nodiscard]] signals::Observation look(double seconds) const {
    signals::Observation seen;
    seen.now = core::kStart + core::from_seconds(seconds);
    for (const char* name : {"first", "second"}) {
      signals::PoolObservation& pool = seen.pools.emplace_back();
      pool.name = name;
      pool.target_replicas = pool.ready = targets[seen.pools.size() - 1];
      pool.min_replicas = seen.pools.size() == 1 ? 1 : 2;
      pool.max_replicas = seen.pools.size() == 1 ? 8 : 4;
      pool.wake_time = wake_time;
      pool.min_asleep = min_asleep;
      pool.asleep_target = asleep_target;
    }
    return seen;
  }

  DecisionLoop loop{*this, {2.0}};

 private:
  [[nodiscard]] std::string_view name() const override { return "scripted"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{5}; }
  [[nodiscard]] Decision decide(const signals::Observation& seen) override {
    Decision made;
    for (const signals::PoolObservation& pool : seen.pools)
      made.pools.push_back({pool.target_replicas, pool.target_replicas, Reason::kSloMet});
    say(made);
    now = seen.now;
    ++decided;
    return made;
  }
  void archive(core::StateArchive& state) override {
    state("scripted", decided);
    if (wants_more) state("more", decided);
  }
};

void grow_first(Decision& made) { made.pools[0].target = made.pools[0].current + 1; }
TEST(DecisionLoop, ReplicasAsleepFitBelowTheMaximumBesideTheTarget) {
  Loop loop;
  loop.wake_time = std::chrono::seconds{8};
  loop.say = [](Decision& made) {
    made.pools[0].target = 6;
    made.pools[0].asleep = made.pools[1].asleep = 5;
  };
  const Tick tick = loop.tick(0.0);
  EXPECT_EQ(tick.decision.pools[0].asleep, 2U);  // 8 − 6
  EXPECT_EQ(tick.decision.pools[1].asleep, 1U);  // 4 − 3
  EXPECT_EQ(tick.records[0].asleep, 2U);
}

TEST(DecisionLoop, TheConfiguredNumberAsleepHoldsForEveryPolicy) {
  Loop loop;
  loop.min_asleep = 2;
  EXPECT_EQ(loop.tick(0.0).decision.pools[0].asleep, 0U);  // Without a wake time none sleeps.
  loop.wake_time = std::chrono::seconds{8};
  EXPECT_EQ(loop.tick(5.0).decision.pools[0].asleep, 2U);
  loop.say = [](Decision& made) { made.pools[0].asleep = 4; };
  EXPECT_EQ(loop.tick(10.0).decision.pools[0].asleep, 4U);
}

TEST(DecisionLoop, AnotherNumberAsleepIsRecorded) {
  Loop loop;
  loop.wake_time = std::chrono::seconds{8};
  static_cast<void>(loop.tick(0.0));
  EXPECT_TRUE(loop.tick(5.0).records.empty());
  loop.say = [](Decision& made) { made.pools[0].asleep = 1; };
  const Tick tick = loop.tick(10.0);
  ASSERT_EQ(tick.records.size(), 1U);
  EXPECT_EQ(tick.records[0].asleep, 1U);
  EXPECT_FALSE(tick.records[0].changes());
}

TEST(DecisionLoop, WithoutDataTheNumberAsleepStays) {
  Loop loop;
  loop.wake_time = std::chrono::seconds{8};
  loop.asleep_target = 3;
  EXPECT_EQ(loop.loop.hold(loop.look(0.0), "no data").decision.pools[0].asleep, 3U);
}

void shrink_first(Decision& made) { made.pools[0].target = made.pools[0].current - 1; }

TEST(DecisionLoop, AHoldThatLastsIsRecordedOnce) {
  Loop loop;
  const Tick first = loop.tick(5);
  ASSERT_EQ(first.records.size(), 2U);
  EXPECT_EQ(first.records[0].pool, "first");
  EXPECT_EQ(first.records[1].pool, "second");
  EXPECT_EQ(first.records[0].policy, "scripted");
  EXPECT_FALSE(first.records[0].changes());
  EXPECT_TRUE(loop.tick(10).records.empty());
  EXPECT_EQ(loop.loop.changes(), 0U);
}

TEST(DecisionLoop, EveryHoldIsRecordedOnRequest) {
  Loop loop;
  loop.loop.record_every_hold();
  for (const int at_s : {5, 10, 15}) {
    const Tick tick = loop.tick(at_s);
    ASSERT_EQ(tick.records.size(), 2U);
    EXPECT_EQ(tick.records[1].pool, "second");
    EXPECT_EQ(tick.records[1].at, core::kStart + std::chrono::seconds{at_s});
  }
}

TEST(DecisionLoop, AHoldIsRecordedAgainWhenReasonLimitCauseOrNextPhaseChange) {
  const std::vector<std::function<void(Decision&)>> changes = {
      [](Decision& made) { made.pools[1].reason = Reason::kSloAtRisk; },
      [](Decision& made) { made.pools[1].limited_by = Limit::kCooldown; },
      [](Decision& made) { made.cause = Cause::kQueue; },
      [](Decision& made) { made.pools[1].next_phase_target = 7; },
  };
  for (const auto& change : changes) {
    Loop loop;
    static_cast<void>(loop.tick(5));
    loop.say = change;
    const Tick tick = loop.tick(10);
    ASSERT_FALSE(tick.records.empty());
    EXPECT_EQ(tick.records.back().pool, "second");
    EXPECT_TRUE(loop.tick(15).records.empty());
  }
  Loop loop;
  static_cast<void>(loop.tick(5));
  loop.say = [](Decision& made) {
    made.diagnosis = "other words";
    made.pools[0].evidence = {{"rate", 7.0, "1/s"}};
    made.forecast.emplace();
  };
  EXPECT_TRUE(loop.tick(10).records.empty());
}

TEST(DecisionLoop, AChangeIsAppliedWithinTheBoundsOfItsPool) {
  Loop loop;
  loop.say = [](Decision& made) {
    made.pools[0].target = 12;
    made.pools[1].target = 0;
  };
  const Tick tick = loop.tick(5);
  EXPECT_EQ(loop.targets, (std::vector<std::uint32_t>{8, 2}));
  ASSERT_EQ(tick.records.size(), 2U);
  EXPECT_EQ(tick.records[0].current, 3U);
  EXPECT_EQ(tick.records[0].target, 8U);
  EXPECT_EQ(tick.records[1].target, 2U);
  EXPECT_EQ(loop.loop.changes(), 2U);
}

TEST(DecisionLoop, ARefusedChangeIsAHoldAndChangesNothing) {
  Loop loop;
  loop.refused = {0};
  loop.say = grow_first;
  const Tick tick = loop.tick(5);
  EXPECT_EQ(loop.targets[0], 3U);
  ASSERT_EQ(tick.records.size(), 2U);
  EXPECT_EQ(tick.records[0].target, 3U);
  EXPECT_EQ(tick.records[0].limited_by, Limit::kRefused);
  EXPECT_TRUE(loop.tick(10).records.empty());
  EXPECT_EQ(loop.loop.changes(), 0U);
  loop.refused.clear();
  EXPECT_EQ(loop.tick(15).records.size(), 1U);
  EXPECT_EQ(loop.loop.changes(), 1U);
}

TEST(DecisionLoop, AChangeThatTheFleetDoesNotFollowIsRecordedOnce) {
  Loop loop;
  std::uint32_t target = 5;
  loop.say = [&](Decision& made) { made.pools[0].target = target; };
  const auto observe_only = [](std::size_t, std::uint32_t) { return true; };
  EXPECT_EQ(loop.loop.tick(loop.look(0.0), observe_only).records.size(), 2U);  // The change, and a hold of the second.
  for (int i = 1; i < 10; ++i) EXPECT_TRUE(loop.loop.tick(loop.look(5.0 * i), observe_only).records.empty()) << i;
  EXPECT_EQ(loop.loop.changes(), 1U);
  target = 6;
  EXPECT_EQ(loop.loop.tick(loop.look(50.0), observe_only).records.size(), 1U);
  loop.targets[0] = 4;  // An operator scaled the fleet.
  EXPECT_EQ(loop.loop.tick(loop.look(55.0), observe_only).records.size(), 1U);
  target = 4;
  EXPECT_EQ(loop.loop.tick(loop.look(60.0), observe_only).records.size(), 1U) << "now it holds";
  EXPECT_TRUE(loop.loop.tick(loop.look(65.0), observe_only).records.empty());
  EXPECT_EQ(loop.loop.changes(), 3U);
  target = 3;
  EXPECT_EQ(loop.loop.tick(loop.look(70.0), observe_only).records.size(), 1U);
  EXPECT_EQ(loop.loop.direction_changes(), 1U);
}

TEST(DecisionLoop, CountsTurnsOfDirectionByPool) {
  Loop loop;
  loop.say = grow_first;
  static_cast<void>(loop.tick(5));
  static_cast<void>(loop.tick(10));
  EXPECT_EQ(loop.loop.direction_changes(), 0U);
  loop.say = shrink_first;
  static_cast<void>(loop.tick(15));
  EXPECT_EQ(loop.loop.direction_changes(), 1U);
  loop.say = [](Decision& made) { made.pools[1].target = 4; };  // another pool
  static_cast<void>(loop.tick(20));
  loop.say = grow_first;
  static_cast<void>(loop.tick(25));
  EXPECT_EQ(loop.loop.direction_changes(), 2U);
  EXPECT_EQ(loop.loop.changes(), 5U);
}

TEST(DecisionLoop, ARecordNamesThePoolsOfItsCandidates) {
  Loop loop;
  loop.say = [](Decision& made) { made.candidates = {{{1, 2}, 0.5, 0.6, 0.7, true}}; };
  const Tick tick = loop.tick(5);
  EXPECT_EQ(tick.records[0].pools, (std::vector<std::string>{"first", "second"}));
  EXPECT_TRUE(tick.records[1].candidates[0].chosen);
}

TEST(DecisionLoop, TotalsCountEveryDecisionAndTheTimeOfItsGpus) {
  Loop loop;
  static_cast<void>(loop.tick(0));
  static_cast<void>(loop.tick(1200));
  EXPECT_EQ(loop.loop.totals().gpu_time(0), std::chrono::hours{1});
  EXPECT_EQ(loop.loop.totals().cost(0), 2.0);
  EXPECT_FALSE(loop.loop.totals().cost(1));
  ASSERT_EQ(loop.loop.totals().decisions().size(), 2U);
  EXPECT_EQ(loop.loop.totals().decisions()[0].decisions, 2U);
}

const std::vector<std::string> kPools{"first", "second"};

TEST(DecisionLoop, ARestoredLoopContinuesWithThePolicysClock) {
  Loop before;
  EXPECT_FALSE(before.loop.save());
  before.say = grow_first;
  static_cast<void>(before.tick(100));
  const auto state = before.loop.save();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->policy, "scripted");
  EXPECT_EQ(state->pools, kPools);

  Loop after;
  after.targets = before.targets;
  const auto restored = after.loop.restore(*state, kPools, core::kStart, std::chrono::seconds{3});
  ASSERT_TRUE(restored) << restored.error().message();
  EXPECT_EQ(after.decided, 1);
  after.say = grow_first;
  const Tick tick = after.tick(2);  // By its own clock.
  EXPECT_EQ(after.now, core::kStart + std::chrono::seconds{105});
  ASSERT_EQ(tick.records.size(), 2U) << "the log of a process begins with the decisions in force";
  EXPECT_EQ(tick.records[0].at, core::kStart + std::chrono::seconds{2});
  EXPECT_FALSE(tick.records[1].changes());
  EXPECT_EQ(after.loop.save()->at, core::kStart + std::chrono::seconds{105});
  after.say = [](Decision&) {};
  static_cast<void>(after.tick(7));
  EXPECT_TRUE(after.tick(12).records.empty());
}

TEST(DecisionLoop, AReplacedPolicyLeavesItsStateToTheNextOne) {
  Loop loop, next;
  loop.say = next.say = grow_first;
  static_cast<void>(loop.tick(100));
  static_cast<void>(loop.tick(105));
  ASSERT_TRUE(loop.loop.replace(next.policy()));
  EXPECT_EQ(next.decided, 2);
  const Tick tick = loop.tick(110);
  EXPECT_EQ(next.decided, 3);
  EXPECT_EQ(loop.decided, 2);
  ASSERT_EQ(tick.records.size(), 1U) << "the hold of the second pool is known";
  EXPECT_EQ(loop.targets[0], 6U);
  EXPECT_EQ(loop.loop.changes(), 3U);
}

TEST(DecisionLoop, ARestoredStateOutlivesAReloadBeforeTheFirstTick) {
  Loop before;
  static_cast<void>(before.tick(100));
  Loop after, next;
  ASSERT_TRUE(after.loop.restore(*before.loop.save(), kPools, core::kStart, std::chrono::seconds{3}));
  static_cast<void>(after.loop.hold(after.look(1), "no gateway"));
  ASSERT_TRUE(after.loop.replace(next.policy()));
  EXPECT_EQ(next.decided, 1);
}

TEST(DecisionLoop, APolicyThatCannotReadTheStateBeginsAnew) {
  Loop loop, next;
  static_cast<void>(loop.tick(100));
  next.wants_more = true;
  const auto replaced = loop.loop.replace(next.policy());
  ASSERT_FALSE(replaced);
  EXPECT_EQ(next.decided, 0);
  static_cast<void>(loop.tick(105));
  EXPECT_EQ(next.decided, 1);
}

TEST(DecisionLoop, AStateOfAnotherVersionPolicyOrPoolsOrTimeIsRefused) {
  Loop before;
  static_cast<void>(before.tick(100));
  const PolicyState good = *before.loop.save();
  const auto refusal = [&](const std::function<void(PolicyState&)>& change, core::Duration passed = {}) {
    PolicyState state = good;
    change(state);
    Loop after;
    const auto restored = after.loop.restore(state, kPools, core::kStart, passed);
    EXPECT_EQ(after.decided, restored ? 1 : 0);
    EXPECT_EQ(after.tick(5).records.size(), 2U);
    return restored ? "" : restored.error().what;
  };
  EXPECT_EQ(refusal([](PolicyState&) {}), "");
  EXPECT_EQ(refusal([](PolicyState& state) { state.version = 999; }),
            fmt::format("has version 999, this program knows version {}", PolicyState::kVersion));
  EXPECT_EQ(refusal([](PolicyState& state) { state.policy = "kpa"; }), "is of policy kpa, not of scripted");
  EXPECT_EQ(refusal([](PolicyState& state) { state.pools = {"one"}; }), "is of pools one, not of first, second");
  EXPECT_EQ(refusal([](PolicyState& state) { state.values += " 7"; }), "has more values than expected");
  EXPECT_EQ(refusal([](PolicyState& state) { state.values.clear(); }), "ends too early");
  EXPECT_EQ(refusal([](PolicyState&) {}, std::chrono::hours{7}), "is older than 6 h");
  EXPECT_EQ(refusal([](PolicyState&) {}, std::chrono::seconds{-1}), "was saved in the future");
}

TEST(DecisionLoop, TheFirstTickAfterATakeOverSetsAllTargetsAndShrinksNothing) {
  Loop loop;
  loop.targets = {9, 3};  // Above the maximum of the pool, which is 8.
  loop.say = [](Decision& made) {
    made.pools[0].target = 2;
    made.pools[1].target = 4;
  };
  loop.loop.take_over();
  const Tick first = loop.tick(5);
  EXPECT_EQ(loop.targets, (std::vector<std::uint32_t>{9, 4})) << "it grows, and shrinks nothing";
  ASSERT_FALSE(first.records.empty());
  EXPECT_EQ(first.records[0].limited_by, Limit::kTakeOver);
  EXPECT_EQ(first.decision.pools[0].target, 9U) << "other autoscalers follow it";
  static_cast<void>(loop.tick(10));
  EXPECT_EQ(loop.targets, (std::vector<std::uint32_t>{2, 4}));
}

TEST(DecisionLoop, AFollowerHoldsWithoutItsPolicy) {
  Loop loop;
  signals::Observation seen;
  seen.pools.emplace_back().name = "first";
  seen.pools[0].target_replicas = 5;
  const Tick tick = loop.loop.follow(seen, "planner b leads");
  EXPECT_EQ(loop.decided, 0);
  ASSERT_EQ(tick.records.size(), 1U);
  EXPECT_EQ(tick.records[0].reason, Reason::kFollower);
  EXPECT_EQ(tick.records[0].target, 5U);
  EXPECT_EQ(tick.decision.diagnosis, "planner b leads");
  EXPECT_FALSE(loop.loop.save()) << "there is nothing to save";
}

TEST(DecisionLoop, AResetForgetsAndARestoredStateFollows) {
  Loop loop;
  const std::string fresh = loop.loop.snapshot();
  static_cast<void>(loop.tick(5));
  static_cast<void>(loop.tick(10));
  const auto saved = loop.loop.save();
  ASSERT_TRUE(saved);
  loop.loop.reset(fresh);
  EXPECT_EQ(loop.decided, 0);
  EXPECT_FALSE(loop.loop.save());
  ASSERT_TRUE(loop.loop.restore(*saved, {"first", "second"}, core::kStart + std::chrono::seconds{60},
                                std::chrono::seconds{20}));
  EXPECT_EQ(loop.decided, 2);
  static_cast<void>(loop.tick(65));
  EXPECT_EQ(loop.now, core::kStart + std::chrono::seconds{35})
      << "5 s after the state, which is 20 s older than second 60";
}

}  // namespace
}  // namespace penstock::decision
