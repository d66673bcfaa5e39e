// Role switches: who changes its pool, when a start is faster, and that no request is lost.
#include "actuation/advance_testing.h"

namespace penstock::actuation {
namespace {

using namespace std::chrono_literals;

// Replicas 1 … p serve in pool "prefill", p + 1 … p + d in pool "decode". A switch takes 5 s and a start-up 60 s.
class SwitchTest : public AdvanceTest {
 protected:
  void serve_two_pools(std::uint32_t prefill, std::uint32_t decode) {
    limits_.warm_up = limits_.take_back = false;
    wants_ = {{"prefill", prefill, "p"}, {"decode", decode, "d"}};
    wants_[0].role_switch = {"decode", 5s, 60s};
    wants_[1].role_switch = {"prefill", 5s, 60s};
    at_second(0);
    for (std::uint32_t id = 1; id <= prefill + decode; ++id) {
      start(id);
      seen(id);
    }
    at_second(0);
    at_second(1);
  }

  Steps at_second(int second) {
    now_ = at(std::chrono::seconds{second});
    for (Seen& one : seen_) {
      if (one.engine) one.engine->at = now_;
      if (one.gateway) one.gateway->at = now_;
    }
    Advance result = advance(fleet_, wants_, seen_, limits_, now_);
    notes_ = result.notes;
    return result.steps;
  }

  // The gateway reports that nothing is open on a draining replica.
  void empty(std::uint32_t id) { seen(id).gateway = GatewaySeen{now_, false, 0}; }
  const Replica& replica(std::uint32_t id) { return *fleet_.find(id); }

  std::vector<PoolWant> wants_;
};

TEST_F(SwitchTest, AReplicaThatOnePoolDoesNotNeedServesInTheOtherOneAfterItsDrain) {
  serve_two_pools(2, 1);
  wants_[0].replicas = 1;
  wants_[1].replicas = 2;
  seen(1).gateway->open_requests = 4;
  seen(2).gateway->open_requests = 3;
  EXPECT_EQ(at_second(10), (Steps{{StepKind::kDrain, 2, StepReason::kNeededElsewhere}}));
  EXPECT_EQ(replica(2).pool, "prefill");
  seen(2).gateway = GatewaySeen{now_, false, 1};
  EXPECT_EQ(at_second(12), Steps{});  // A request is still open, and nothing is started meanwhile.
  empty(2);
  at_second(13);
  EXPECT_EQ(at_second(14), (Steps{{StepKind::kSwitch, 2, StepReason::kDrained}}));
  EXPECT_EQ(replica(2).pool, "decode");
  EXPECT_EQ(replica(2).revision, "d");
  EXPECT_EQ(observed(replica(2)), signals::ReplicaState::kStarting);
  seen(2).engine->switching = true;
  EXPECT_EQ(at_second(15), Steps{});
  seen(2).engine->switching = false;
  EXPECT_EQ(at_second(19), (Steps{{StepKind::kAdmit, 2, StepReason::kSwitched}}));
  EXPECT_EQ(at_second(20), Steps{});
}

TEST_F(SwitchTest, WithoutASwitchTimeOneStopsAndAnotherStarts) {
  serve_two_pools(2, 1);
  wants_[1].role_switch.reset();
  wants_[0].replicas = 1;
  wants_[1].replicas = 2;
  EXPECT_EQ(at_second(10),
            (Steps{{StepKind::kDrain, 2, StepReason::kAboveTarget}, {StepKind::kStart, 4, StepReason::kBelowTarget}}));
}

TEST_F(SwitchTest, OnlyAsManySwitchAsTheOtherPoolLacks) {
  serve_two_pools(4, 1);
  wants_[0].replicas = 1;
  wants_[1].replicas = 2;
  EXPECT_EQ(at_second(10), (Steps{{StepKind::kDrain, 4, StepReason::kNeededElsewhere},
                                  {StepKind::kDrain, 3, StepReason::kAboveTarget},
                                  {StepKind::kDrain, 2, StepReason::kAboveTarget}}));
}

TEST_F(SwitchTest, WhatTheOtherPoolCannotGiveIsStarted) {
  serve_two_pools(2, 1);
  wants_[0].replicas = 1;
  wants_[1].replicas = 3;
  EXPECT_EQ(at_second(10), (Steps{{StepKind::kDrain, 2, StepReason::kNeededElsewhere},
                                  {StepKind::kStart, 4, StepReason::kBelowTarget}}));
}

TEST_F(SwitchTest, AReplicaThatDrainsAlreadySwitches) {
  serve_two_pools(2, 1);
  wants_[0].replicas = 1;
  EXPECT_EQ(at_second(10), (Steps{{StepKind::kDrain, 2, StepReason::kAboveTarget}}));
  seen(2).gateway = GatewaySeen{now_, false, 1};
  wants_[1].replicas = 2;
  EXPECT_EQ(at_second(12), Steps{});
  EXPECT_EQ(replica(2).switch_to, "decode");
}

TEST_F(SwitchTest, ADrainThatTakesAsLongAsAStartUpIsNotWaitedFor) {
  serve_two_pools(2, 1);
  wants_[0].replicas = 1;
  wants_[1].replicas = 2;
  at_second(10);
  seen(2).gateway = GatewaySeen{now_, false, 1};
  EXPECT_EQ(at_second(64), Steps{});
  EXPECT_EQ(at_second(65), (Steps{{StepKind::kStart, 4, StepReason::kBelowTarget}}));
  empty(2);
  at_second(66);
  EXPECT_EQ(at_second(67), (Steps{{StepKind::kStop, 2, StepReason::kDrained}}));
}

TEST_F(SwitchTest, NoReplicaSwitchesWhereDrainsTakeLongerThanAStartUp) {
  serve_two_pools(3, 1);
  wants_[0].replicas = 2;
  at_second(10);
  empty(3);
  at_second(99);
  EXPECT_EQ(at_second(100), (Steps{{StepKind::kStop, 3, StepReason::kDrained}}));
  EXPECT_EQ(fleet_.pools[0].drain_time, core::Duration{90s});
  wants_[0].replicas = 1;
  wants_[1].replicas = 2;
  EXPECT_EQ(at_second(110),
            (Steps{{StepKind::kDrain, 2, StepReason::kAboveTarget}, {StepKind::kStart, 5, StepReason::kBelowTarget}}));
}

TEST_F(SwitchTest, AReplicaIsNotExpectedAnyMoreWhenThePoolNeedsItNoLonger) {
  serve_two_pools(2, 1);
  wants_[0].replicas = 1;
  wants_[1].replicas = 2;
  at_second(10);
  empty(2);
  wants_[1].replicas = 1;
  at_second(11);
  EXPECT_EQ(replica(2).switch_to, "");
  EXPECT_EQ(at_second(12), (Steps{{StepKind::kStop, 2, StepReason::kDrained}}));
}

TEST_F(SwitchTest, ReplicasAsleepComeFirst) {
  serve_two_pools(2, 1);
  wants_[1].asleep = 1;
  at_second(10);
  start(4);
  seen(4).gateway = GatewaySeen{now_, false, 0};
  at_second(11);
  seen(4).engine->asleep = true;
  wants_[0].replicas = 1;
  wants_[1] = {"decode", 2, "d", 0, wants_[1].role_switch};
  EXPECT_EQ(at_second(20),
            (Steps{{StepKind::kDrain, 2, StepReason::kAboveTarget}, {StepKind::kWake, 4, StepReason::kBelowTarget}}));
}

TEST_F(SwitchTest, AReplicaThatDiesInItsDrainOrSwitchIsReplacedWhereItIsNeeded) {
  serve_two_pools(3, 1);
  wants_[0].replicas = 1;
  wants_[1].replicas = 3;
  at_second(10);
  seen(3).process = ProcessSeen::kGone;
  EXPECT_EQ(at_second(11), (Steps{{StepKind::kStart, 5, StepReason::kBelowTarget}}));
  EXPECT_EQ(stage(3), Stage::kFailed);
  empty(2);
  at_second(12);
  EXPECT_EQ(at_second(13), (Steps{{StepKind::kSwitch, 2, StepReason::kDrained}}));
  seen(2).process = ProcessSeen::kGone;
  EXPECT_EQ(at_second(14), Steps{});  // The pool waits after a crash …
  EXPECT_EQ(at_second(16), (Steps{{StepKind::kStart, 6, StepReason::kReplacesFailed}}));
  EXPECT_TRUE(replica(2).pool == "decode" && stage(2) == Stage::kFailed);
}

TEST_F(SwitchTest, ARestartedPlannerRepeatsTheSwitch) {
  serve_two_pools(2, 1);
  wants_[0].replicas = 1;
  wants_[1].replicas = 2;
  at_second(10);
  empty(2);
  at_second(11);
  at_second(12);
  const Steps again = resume(fleet_);
  EXPECT_EQ(again[1], (Step{StepKind::kSwitch, 2, StepReason::kResumed}));
}

}  // namespace
}  // namespace penstock::actuation
