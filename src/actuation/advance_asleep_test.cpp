// Replicas that are asleep: who sleeps, who wakes up, and that no request is lost by either.
#include "actuation/advance_testing.h"

namespace penstock::actuation {
namespace {

using namespace std::chrono_literals;

class AsleepTest : public AdvanceTest {
 protected:
  // Replica 1 serves, and replicas 2 … 1 + count sleep since 10 s.
  void serve_one_with(std::uint32_t count) {
    serve(1);
    want_.asleep = count;
    tick(10s);
    for (std::uint32_t id = 2; id <= count + 1; ++id) {
      start(id);
      seen(id).gateway = GatewaySeen{now_, false, 0};
    }
    tick(10s);
    for (std::uint32_t id = 2; id <= count + 1; ++id) seen(id).engine->asleep = true;
  }

  // The gateway and the engine report that nothing is open on a draining replica.
  void empty(std::uint32_t id) { seen(id).gateway = GatewaySeen{now_, false, 0}; }
};

TEST_F(AsleepTest, AReplicaThatIsMissingAsleepStartsWarmsUpAndSleeps) {
  serve(1);
  limits_.warm_up = true;
  want_.asleep = 1;
  EXPECT_EQ(tick(10s), (Steps{{StepKind::kStart, 2, StepReason::kBelowAsleep}}));
  start(2);
  seen(2);
  EXPECT_EQ(tick(20s), (Steps{{StepKind::kWarmUp, 2, StepReason::kHealthy}}));
  EXPECT_EQ(observed(*fleet_.find(2)), signals::ReplicaState::kAsleep);
  seen(2).warm_up = {{4, 4}};
  EXPECT_EQ(tick(21s), (Steps{{StepKind::kSleep, 2, StepReason::kWarm}}));
  EXPECT_EQ(stage(2), Stage::kAsleep);
  EXPECT_EQ(tick(22s), Steps{});
}

TEST_F(AsleepTest, GrowthWakesAReplicaAndAdmitsItOnceItsEngineIsAwake) {
  serve_one_with(1);
  want_ = {"default", 2, "r1", 0};
  EXPECT_EQ(tick(20s), (Steps{{StepKind::kWake, 2, StepReason::kBelowTarget}}));
  EXPECT_EQ(observed(*fleet_.find(2)), signals::ReplicaState::kStarting);
  EXPECT_EQ(tick(25s), Steps{});  // The engine is still asleep.
  seen(2).engine->asleep = false;
  EXPECT_EQ(tick(28s), (Steps{{StepKind::kAdmit, 2, StepReason::kAwake}}));
}

TEST_F(AsleepTest, GrowthBeyondThoseAsleepStartsTheRestAndReplacesThoseThatWoke) {
  serve_one_with(1);
  want_.replicas = 3;
  EXPECT_EQ(tick(20s), (Steps{{StepKind::kWake, 2, StepReason::kBelowTarget},
                              {StepKind::kStart, 3, StepReason::kBelowTarget},
                              {StepKind::kStart, 4, StepReason::kBelowAsleep}}));
}

TEST_F(AsleepTest, GrowthTakesAReplicaThatStartsInOrderToSleepBeforeItStartsAnother) {
  serve(1);
  want_.asleep = 1;
  tick(10s);
  start(2);
  seen(2).engine->healthy = false;
  want_ = {"default", 2, "r1", 0};
  EXPECT_EQ(tick(11s), Steps{});
  seen(2).engine->healthy = true;
  EXPECT_EQ(tick(12s), (Steps{{StepKind::kAdmit, 2, StepReason::kHealthy}}));
}

TEST_F(AsleepTest, AReplicaThatIsNotNeededDrainsBeforeItSleeps) {
  serve(2);
  want_ = {"default", 1, "r1", 1};
  seen(2).gateway->open_requests = 3;
  seen(1).gateway->open_requests = 9;
  EXPECT_EQ(tick(10s), (Steps{{StepKind::kDrain, 2, StepReason::kAboveTarget}}));
  seen(2).gateway = GatewaySeen{now_, false, 1};
  EXPECT_EQ(tick(11s), Steps{});  // Nothing else starts, because this replica is going to sleep.
  empty(2);
  seen(2).engine->open = {{1, 0}};
  tick(12s);
  EXPECT_EQ(tick(13s), Steps{});
  seen(2).engine->open = {{0, 0}};
  EXPECT_EQ(tick(14s), (Steps{{StepKind::kSleep, 2, StepReason::kDrained}}));
}

TEST_F(AsleepTest, AReplicaThatDoesNotDrainInTimeIsStoppedAndNotPutToSleep) {
  serve(2);
  want_ = {"default", 1, "r1", 1};
  tick(10s);
  seen(2).gateway = GatewaySeen{now_, false, 1};
  EXPECT_EQ(tick(10s + limits_.drain_deadline),
            (Steps{{StepKind::kStop, 2, StepReason::kDrainDeadline}, {StepKind::kStart, 3, StepReason::kBelowAsleep}}));
}

TEST_F(AsleepTest, AReplicaThatIsNotNeededEndsIfEnoughAreAsleep) {
  serve_one_with(1);
  want_.replicas = 2;
  tick(20s);
  seen(2).engine->asleep = false;
  tick(21s);
  want_ = {"default", 1, "r1", 0};
  tick(22s);
  empty(2);
  empty(3);
  tick(23s);
  const Steps steps = tick(24s);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].kind, StepKind::kStop);
  EXPECT_EQ(steps[0].why, StepReason::kDrained);
}

TEST_F(AsleepTest, ADrainedReplicaTakesThePlaceOfOneThatIsStillStarting) {
  serve(2);
  want_ = {"default", 2, "r1", 1};
  tick(10s);
  start(3);
  seen(3).engine->healthy = false;
  want_.replicas = 1;
  const Steps drains = tick(11s);
  ASSERT_EQ(drains.size(), 1U);
  const std::uint32_t drained = drains.front().replica;
  empty(drained);
  tick(12s);
  EXPECT_EQ(tick(13s),
            (Steps{{StepKind::kSleep, drained, StepReason::kDrained}, {StepKind::kStop, 3, StepReason::kAboveAsleep}}));
}

TEST_F(AsleepTest, AStartingReplicaThatIsNotNeededSleepsOnceItIsReady) {
  serve(1);
  want_.replicas = 2;
  tick(10s);
  start(2);
  seen(2).engine->healthy = false;
  want_ = {"default", 1, "r1", 1};
  EXPECT_EQ(tick(11s), Steps{});
  seen(2).engine->healthy = true;
  EXPECT_EQ(tick(12s), (Steps{{StepKind::kSleep, 2, StepReason::kHealthy}}));
}

TEST_F(AsleepTest, AWakingReplicaThatIsNotNeededSleepsAgain) {
  serve_one_with(1);
  want_ = {"default", 2, "r1", 0};
  tick(20s);
  want_ = {"default", 1, "r1", 1};
  EXPECT_EQ(tick(21s), Steps{});
  seen(2).engine->asleep = false;
  EXPECT_EQ(tick(22s), (Steps{{StepKind::kSleep, 2, StepReason::kAwake}}));
}

TEST_F(AsleepTest, ReplicasBeyondTheWantedNumberAsleepEndTheNewestFirst) {
  serve_one_with(2);
  want_.asleep = 1;
  EXPECT_EQ(tick(20s), (Steps{{StepKind::kStop, 3, StepReason::kAboveAsleep}}));
}

TEST_F(AsleepTest, AReplicaThatDiesAsleepIsReplaced) {
  serve_one_with(1);
  seen(2).process = ProcessSeen::kGone;
  EXPECT_EQ(tick(20s), Steps{});
  EXPECT_TRUE(told(true, "default-2 died while asleep"));
  EXPECT_EQ(tick(22s), (Steps{{StepKind::kStart, 3, StepReason::kBelowAsleep}}));
}

TEST_F(AsleepTest, AReplicaThatDoesNotWakeUpIsGivenUp) {
  serve_one_with(1);
  want_ = {"default", 2, "r1", 0};
  tick(20s);
  EXPECT_EQ(tick(20s + limits_.start_deadline), (Steps{{StepKind::kStop, 2, StepReason::kStartDeadline}}));
  EXPECT_TRUE(told(true, "was not awake after 600 s"));
}

TEST_F(AsleepTest, ReplicasOfAnOldRevisionDoNotStayAsleep) {
  serve_one_with(1);
  want_.revision = "r2";
  const Steps steps = tick(20s);
  EXPECT_NE(std::find(steps.begin(), steps.end(), Step{StepKind::kStop, 2, StepReason::kOutdated}), steps.end());
}

TEST_F(AsleepTest, ARestartRepeatsTheRequestsToSleepAndToWakeUp) {
  serve_one_with(2);
  want_ = {"default", 2, "r1", 1};
  tick(20s);
  EXPECT_EQ(resume(fleet_), (Steps{{StepKind::kAdmit, 1, StepReason::kResumed},
                                   {StepKind::kWake, 2, StepReason::kResumed},
                                   {StepKind::kSleep, 3, StepReason::kResumed}}));
}

}  // namespace
}  // namespace penstock::actuation
