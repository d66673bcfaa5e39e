#include "actuation/pod_switch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace penstock::actuation {
namespace {

using namespace std::chrono_literals;
using Kind = PodStepKind;
using Steps = std::vector<PodStep>;

// Pods "p-0" … of prefill, from which decode may take some in 5 s, where a start-up takes 60 s. At 100 s.
class PodSwitchTest : public testing::Test {
 protected:
  PodSwitchTest() {
    prefill.seen = pods("p", 3);
    decode.seen = pods("d", 2);
  }

  struct Side {
    PodScaling state;
    TargetSeen seen;
    std::uint32_t wanted = 0;
    HoldCause held = HoldCause::kNone;
  };

  TargetSeen pods(const std::string& name, std::uint32_t count) const {
    TargetSeen made;
    made.replicas = count;
    made.existing = count;
    made.is_own_write = made.is_settled = true;
    made.gateway_at = now;
    for (std::uint32_t i = 0; i < count; ++i) made.pods.push_back(pod(name + "-" + std::to_string(i)));
    return made;
  }
  PodSeen pod(const std::string& name) const {
    PodSeen made;
    made.name = name;
    made.is_scheduled = made.is_ready = made.can_switch = true;
    made.gateway = GatewaySeen{now, true, 1};
    made.engine = EngineSeen{now, true, OpenWork{1, 0}};
    return made;
  }
  void pass(core::Duration time) {
    now = now + time;
    for (Side* side : {&prefill, &decode}) {
      side->seen.gateway_at = now;
      for (PodSeen& each : side->seen.pods) {
        each.gateway->at = now;
        each.engine->at = now + 1ms;
      }
    }
  }
  // One tick of both; the steps of prefill.
  Steps tick() {
    for (PodSeen& each : prefill.seen.pods) each.leaves = each.may_join = false;
    asked = *exchange({prefill.state, prefill.seen, prefill.wanted, prefill.held},
                      {decode.state, decode.seen, decode.wanted, decode.held}, by, now);
    Steps steps = advance(prefill.state, prefill.wanted, prefill.seen, limits, now).steps;
    for (const PodStep& step : steps)
      if (step.kind == Kind::kMove) {
        moved(prefill.state, prefill.seen, step);
      } else if (step.kind == Kind::kMark) {
        PodSeen& marked = find(step.pod);
        marked.is_marked = true;
        marked.marked_since = now;
        marked.deletion_cost = kDrainingCost;
        marked.gateway->routes = false;
      }
    return steps;
  }
  PodSeen& find(const std::string& name) {
    return *std::find_if(prefill.seen.pods.begin(), prefill.seen.pods.end(),
                         [&](const PodSeen& each) { return each.name == name; });
  }
  void empty(const std::string& name) {
    find(name).gateway->open_requests = find(name).engine->open->requests = 0;
    pass(2s);
  }
  void want(std::uint32_t of_prefill, std::uint32_t of_decode) {
    prefill.wanted = of_prefill;
    decode.wanted = of_decode;
  }
  // p-0 is drained and its engine has the role of decode.
  void switch_first() {
    want(2, 3);
    tick();
    empty("p-0");
    tick();
    find("p-0").has_role = false;
    find("p-0").is_committed = find("p-0").has_next_role = true;
  }

  core::Instant now = core::kStart + 100s;
  PodLimits limits;
  RoleSwitch by{"prefill", 5s, 60s};
  Side prefill, decode;
  std::uint32_t asked = 0;  // Of decode.
};

TEST_F(PodSwitchTest, APodThatOneTargetDoesNotNeedDrainsAndNothingIsStartedMeanwhile) {
  want(2, 3);
  EXPECT_EQ(tick(), (Steps{{Kind::kMark, "p-0"}}));
  EXPECT_EQ(asked, 2U);
  pass(10s);
  EXPECT_EQ(tick(), Steps{}) << "a request is open";
  EXPECT_EQ(asked, 2U);
  empty("p-0");
  EXPECT_EQ(tick(), (Steps{{Kind::kSwitch, "p-0"}}));
  EXPECT_EQ(asked, 2U);
}

TEST_F(PodSwitchTest, APlaceIsAskedForWhenTheEngineHasItsRoleAndThePodComesOnceThatIsSeen) {
  switch_first();
  EXPECT_EQ(tick(), Steps{});
  EXPECT_EQ(asked, 3U);
  decode.seen.replicas = 3;
  decode.seen.is_settled = false;
  EXPECT_EQ(tick(), Steps{}) << "the controller has not seen the place yet";
  decode.seen.is_settled = true;
  decode.seen.pods.push_back(pod("d-2"));  // Made in the place.
  decode.seen.pods.back().is_ready = false;
  EXPECT_EQ(tick(), (Steps{{Kind::kMove, "p-0"}}));
  EXPECT_EQ(asked, 3U);
}

TEST_F(PodSwitchTest, APodThatIsReadyInThePlaceBeforeKeepsTheOtherOneWhereItIs) {
  switch_first();
  decode.seen.replicas = 3;
  decode.seen.pods.push_back(pod("d-2"));
  const Steps steps = tick();
  EXPECT_EQ(steps, (Steps{{Kind::kDrained, "p-0"}})) << "it is an ordinary pod that goes";
}

TEST_F(PodSwitchTest, NothingShrinksUntilTheControllerHasReleasedThePod) {
  switch_first();
  decode.seen.replicas = 3;
  ASSERT_EQ(tick(), (Steps{{Kind::kMove, "p-0"}}));
  prefill.seen.pods.erase(prefill.seen.pods.begin());
  prefill.seen.departing = decode.seen.joining = 1;
  EXPECT_EQ(tick(), Steps{});
  EXPECT_EQ(advance(prefill.state, 2, prefill.seen, limits, now).hold.cause, HoldCause::kDraining);
  prefill.seen.departing = 0;
  prefill.seen.released = {"p-0"};
  PodSeen made = pod("p-9");
  made.is_ready = false;
  prefill.seen.pods.push_back(made);
  EXPECT_EQ(tick(), (Steps{{Kind::kDrained, "p-9"}, {Kind::kScale, {}, 2}})) << "made in its place, and not needed";
}

TEST_F(PodSwitchTest, APlaceWithoutAPodGoesAtOnce) {
  switch_first();
  decode.seen.replicas = 3;
  tick();
  prefill.seen.pods.erase(prefill.seen.pods.begin());
  prefill.seen.departing = decode.seen.joining = 1;
  tick();
  prefill.seen.departing = 0;
  prefill.seen.existing = 2;  // A quota allows no other pod.
  EXPECT_EQ(tick(), (Steps{{Kind::kScale, {}, 2}}));
}

TEST_F(PodSwitchTest, OnlyAsManyGoAsTheOtherTargetLacks) {
  want(1, 3);
  EXPECT_EQ(tick(), (Steps{{Kind::kMark, "p-0"}, {Kind::kMark, "p-1"}}));
  empty("p-0");
  empty("p-1");
  EXPECT_EQ(tick(), (Steps{{Kind::kDrained, "p-1"}, {Kind::kSwitch, "p-0"}}));
  find("p-1").deletion_cost = kDrainedCost;
  const Steps next = tick();
  EXPECT_EQ(next.back(), (PodStep{Kind::kScale, {}, 2, true})) << "p-1 does not wait for p-0";
}

TEST_F(PodSwitchTest, WhatTheOtherTargetCannotGiveIsStarted) {
  want(2, 5);
  tick();
  EXPECT_EQ(asked, 4U);
}

TEST_F(PodSwitchTest, ADrainThatTakesAsLongAsAStartUpIsNotWaitedFor) {
  want(2, 3);
  tick();
  pass(54s);
  tick();
  EXPECT_EQ(asked, 2U);
  pass(1s);
  tick();
  EXPECT_EQ(asked, 3U);
  empty("p-0");
  EXPECT_EQ(tick(), (Steps{{Kind::kDrained, "p-0"}}));
  EXPECT_GE(*prefill.state.drain_time, core::Duration{55s});
}

TEST_F(PodSwitchTest, NoPodGoesWhereDrainsTakeLongerThanAStartUp) {
  prefill.state.drain_time = 55s;
  want(2, 3);
  tick();
  EXPECT_EQ(asked, 3U);
}

TEST_F(PodSwitchTest, APodThatCannotBeMarkedIsNotWaitedForEither) {
  want(2, 3);
  for (PodSeen& each : prefill.seen.pods) each.gateway.reset();
  const auto ask = [&] {
    return *exchange({prefill.state, prefill.seen, 2, HoldCause::kNone},
                     {decode.state, decode.seen, 3, HoldCause::kNone}, by, now);
  };
  EXPECT_EQ(ask(), 2U);
  now = now + 55s;
  EXPECT_EQ(ask(), 3U);
}

TEST_F(PodSwitchTest, APodWithoutANodeIsNoReasonToStart) {
  want(2, 3);
  decode.seen.replicas = 3;
  decode.seen.pods.push_back(pod("d-2"));
  decode.seen.pods.back().is_ready = decode.seen.pods.back().is_scheduled = false;
  tick();
  EXPECT_TRUE(find("p-0").leaves);
  decode.seen.pods.back().is_scheduled = true;
  tick();
  EXPECT_FALSE(find("p-0").leaves) << "it starts, and is waited for";
}

TEST_F(PodSwitchTest, NothingIsExchangedDuringARolloutOrAHoldOfOneOfThem) {
  want(2, 3);
  const auto is_exchanged = [&] {
    tick();
    return find("p-0").leaves;
  };
  ASSERT_TRUE(is_exchanged());
  for (Side* side : {&prefill, &decode}) {
    side->seen.has_rollout = true;
    EXPECT_FALSE(is_exchanged());
    side->seen.has_rollout = false;
    side->seen.autoscaler = "ScaledObject \"chat\"";
    EXPECT_FALSE(is_exchanged());
    side->seen.autoscaler.clear();
    side->held = HoldCause::kManual;
    EXPECT_FALSE(is_exchanged());
    EXPECT_EQ(asked, 3U);
    side->held = HoldCause::kNone;
    side->seen.missing = "pods: the API server has not answered yet";
    EXPECT_FALSE(is_exchanged());
    side->seen.missing.clear();
  }
  find("p-0").can_switch = false;
  EXPECT_FALSE(is_exchanged()) << "Triton cannot";
}

TEST_F(PodSwitchTest, ADisruptionBudgetKeepsAPodWhereItIs) {
  prefill.seen.budgets = {{"chat", 0, "1"}};
  want(2, 3);
  tick();
  empty("p-0");
  EXPECT_EQ(tick(), Steps{});
  prefill.seen.budgets = {{"chat", 1, "2"}};
  EXPECT_EQ(tick(), (Steps{{Kind::kSwitch, "p-0"}}));
}

TEST_F(PodSwitchTest, APodThatIsNeededAgainGetsTheRoleOfItsPoolBeforeItServes) {
  switch_first();
  want(3, 2);
  EXPECT_EQ(tick(), (Steps{{Kind::kRestore, "p-0"}}));
  find("p-0").has_role = true;
  find("p-0").is_committed = find("p-0").has_next_role = false;
  EXPECT_EQ(tick(), (Steps{{Kind::kUnmark, "p-0"}}));
}

TEST_F(PodSwitchTest, AnEngineThatLostItsRoleByARestartIsMarkedAndGetsItAgain) {
  want(3, 2);
  find("p-0").has_role = false;
  prefill.seen.gateway_at.reset();  // Whether gateways answer or not.
  EXPECT_EQ(tick(), (Steps{{Kind::kMark, "p-0"}}));
  EXPECT_EQ(tick(), (Steps{{Kind::kRestore, "p-0"}}));
}

TEST_F(PodSwitchTest, ARestartedPlannerTakesUpAPodWhoseEngineWasAsked) {
  switch_first();
  decode.seen.replicas = 3;  // The place was asked for.
  decode.seen.pods.push_back(pod("d-2"));
  decode.seen.pods.back().is_ready = false;  // It starts, and has a node.
  prefill.state = decode.state = {};
  find("p-0").has_next_role = false;
  EXPECT_EQ(tick(), (Steps{{Kind::kSwitch, "p-0"}}));
  EXPECT_EQ(asked, 3U);
  find("p-0").has_next_role = true;
  EXPECT_EQ(tick(), (Steps{{Kind::kMove, "p-0"}}));
}

}  // namespace
}  // namespace penstock::actuation
