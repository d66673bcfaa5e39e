#include "actuation/advance_testing.h"

namespace penstock::actuation {
namespace {

using core::Instant;
using namespace std::chrono_literals;

TEST_F(AdvanceTest, AReplicaStartsWarmsUpServesDrainsAndStops) {
  want_.replicas = 1;
  EXPECT_EQ(tick(0s), (Steps{{StepKind::kStart, 1, StepReason::kBelowTarget}}));
  EXPECT_EQ(tick(1s), Steps{});  // The start is pending and is not requested twice.
  start(1);
  seen(1).engine->healthy = false;
  EXPECT_EQ(tick(2s), Steps{});
  seen(1).engine->healthy = true;
  EXPECT_EQ(tick(3s), (Steps{{StepKind::kWarmUp, 1, StepReason::kHealthy}}));
  seen(1).warm_up = {{4, 3}};
  EXPECT_EQ(tick(4s), Steps{});
  seen(1).warm_up = {{4, 4}};
  EXPECT_EQ(tick(5s), (Steps{{StepKind::kAdmit, 1, StepReason::kWarm}}));
  EXPECT_EQ(tick(6s), Steps{});

  want_.replicas = 0;
  seen(1).gateway->open_requests = 1;
  EXPECT_EQ(tick(7s), (Steps{{StepKind::kDrain, 1, StepReason::kAboveTarget}}));
  seen(1).gateway->open_requests = 0;
  seen(1).gateway->routes = false;
  EXPECT_EQ(tick(8s), Steps{});  // The engine report is not newer than the gateway report.
  EXPECT_EQ(tick(9s), (Steps{{StepKind::kStop, 1, StepReason::kDrained}}));
  seen(1).process = ProcessSeen::kGone;
  EXPECT_EQ(tick(10s), Steps{});
  EXPECT_EQ(stage(1), Stage::kStopped);
  EXPECT_TRUE(notes_.empty());
}

TEST_F(AdvanceTest, ADrainWaitsForTheGatewayTheEngineAndItsTransfers) {
  serve(1);
  want_.replicas = 0;
  tick(10s);
  Seen& one = seen(1);
  EXPECT_EQ(tick(11s), Steps{});  // The gateway still routes to the replica.
  EXPECT_EQ(tick(12s), Steps{});
  one.gateway = {{now_, false, 2}};
  EXPECT_EQ(tick(13s), Steps{});
  one.gateway->open_requests = 0;
  one.engine->open = {{1, 0}};
  EXPECT_EQ(tick(14s), Steps{});
  EXPECT_EQ(tick(15s), Steps{});
  one.engine->open = {{0, 1}};
  EXPECT_EQ(tick(16s), Steps{});
  one.engine->open.reset();  // A missing report does not mean idle.
  EXPECT_EQ(tick(17s), Steps{});
  one.engine.reset();
  EXPECT_EQ(tick(18s), Steps{});
  one.engine = {{now_, true, OpenWork{}}};
  EXPECT_EQ(tick(19s), (Steps{{StepKind::kStop, 1, StepReason::kDrained}}));
}

TEST_F(AdvanceTest, WithoutAGatewayADrainWaitsUntilTheEngineWasQuietForAWhile) {
  limits_.gateway = false;
  serve(1);
  want_.replicas = 0;
  tick(10s);
  EXPECT_EQ(tick(11s), Steps{});
  seen(1).engine->open = {{1, 0}};
  EXPECT_EQ(tick(14s), Steps{});  // The drain starts again.
  seen(1).engine->open = {{0, 0}};
  EXPECT_EQ(tick(15s), Steps{});
  EXPECT_EQ(tick(19s), Steps{});
  EXPECT_EQ(tick(20s), (Steps{{StepKind::kStop, 1, StepReason::kDrained}}));
}

TEST_F(AdvanceTest, AReplicaThatDoesNotDrainIsStoppedAtTheDeadlineWithAWarning) {
  serve(1);
  want_.replicas = 0;
  seen(1).gateway->open_requests = 3;
  tick(10s);
  seen(1).gateway->routes = false;
  EXPECT_EQ(tick(609s), Steps{});
  EXPECT_EQ(tick(610s), (Steps{{StepKind::kStop, 1, StepReason::kDrainDeadline}}));
  EXPECT_TRUE(told(true, "default-1 is stopped although it did not drain in 600 s; open: 3 at the gateway"));
  EXPECT_EQ(tick(639s), Steps{});
  EXPECT_EQ(tick(640s), (Steps{{StepKind::kKill, 1, StepReason::kStopDeadline}}));
  EXPECT_TRUE(told(true, "did not end 30 s after SIGTERM"));
  seen(1).process = ProcessSeen::kGone;
  tick(641s);
  EXPECT_EQ(stage(1), Stage::kStopped);
}

TEST_F(AdvanceTest, ADrainingReplicaThatAnswersNoRequestIsStoppedSoon) {
  serve(2);
  seen(1).engine = {{now_, false, std::nullopt}};
  seen(1).gateway = {{now_, false, 3, false}};
  EXPECT_EQ(tick(10s), Steps{});  // Its last sign of life was before this.
  EXPECT_EQ(tick(40s), (Steps{{StepKind::kStart, 3, StepReason::kReplacesOutdated}}));
  start(3);
  seen(3);
  EXPECT_EQ(tick(41s), (Steps{{StepKind::kAdmit, 3, StepReason::kHealthy}}));
  EXPECT_EQ(tick(42s), (Steps{{StepKind::kDrain, 1, StepReason::kUnhealthy}}));
  EXPECT_EQ(tick(43s), (Steps{{StepKind::kStop, 1, StepReason::kUnhealthy}}));
  EXPECT_TRUE(
      told(true, "default-1 is stopped although it did not drain: its engine has not answered for 33 s; open: 3"));
  EXPECT_EQ(tick(73s), (Steps{{StepKind::kKill, 1, StepReason::kStopDeadline}}));
}

TEST_F(AdvanceTest, ADrainingReplicaWhoseRequestsAreAnsweredKeepsItsDeadlineAlthoughItsEngineIsSilent) {
  limits_.drain_deadline = 5min;  // As planner.drain_deadline sets it.
  serve(1);
  want_.replicas = 0;
  seen(1).engine = {{now_, false, std::nullopt}};
  seen(1).gateway = {{now_, false, 3, true}};
  EXPECT_EQ(tick(10s), (Steps{{StepKind::kDrain, 1, StepReason::kAboveTarget}}));
  EXPECT_EQ(tick(309s), Steps{});
  EXPECT_EQ(tick(310s), (Steps{{StepKind::kStop, 1, StepReason::kDrainDeadline}}));
}

TEST_F(AdvanceTest, APoolMayHaveDrainDeadlinesOfItsOwn) {
  limits_.drain_deadline = 5min;
  limits_.unhealthy_drain_deadline = 5min;
  want_.drain_deadline = 20min;
  serve(1);
  want_.replicas = 0;
  seen(1).gateway = {{now_, false, 3, true}};
  EXPECT_EQ(tick(10s), (Steps{{StepKind::kDrain, 1, StepReason::kAboveTarget}}));
  EXPECT_EQ(tick(1209s), Steps{});
  EXPECT_EQ(tick(1210s), (Steps{{StepKind::kStop, 1, StepReason::kDrainDeadline}}));
}

TEST_F(AdvanceTest, APoolMayStopDeadEnginesSooner) {
  limits_.unhealthy_drain_deadline = 5min;
  want_.unhealthy_drain_deadline = 10s;
  serve(1);
  want_.replicas = 0;
  seen(1).engine = {{now_, false, std::nullopt}};
  seen(1).gateway = {{now_, false, 3, false}};
  EXPECT_EQ(tick(10s), (Steps{{StepKind::kDrain, 1, StepReason::kAboveTarget}}));
  EXPECT_EQ(tick(19s), Steps{});
  EXPECT_EQ(tick(20s), (Steps{{StepKind::kStop, 1, StepReason::kUnhealthy}}));
}

TEST_F(AdvanceTest, ASilentEngineIsNotStoppedSoonWhileTheGatewayIsSilentToo) {
  serve(1);
  want_.replicas = 0;
  EXPECT_EQ(tick(10s), (Steps{{StepKind::kDrain, 1, StepReason::kAboveTarget}}));
  seen(1).engine = {{now_, false, std::nullopt}};
  seen(1).gateway.reset();
  EXPECT_EQ(tick(11s), Steps{});
  EXPECT_EQ(tick(609s), Steps{});
  EXPECT_EQ(tick(610s), (Steps{{StepKind::kStop, 1, StepReason::kDrainDeadline}}));
}

TEST_F(AdvanceTest, ScaleDownStopsStartingThenWarmingThenIdleReplicas) {
  serve(3);
  limits_.warm_up = true;
  want_.replicas = 6;
  tick(10s);
  for (const std::uint32_t id : {4U, 5U, 6U}) start(id);
  seen(4);
  tick(11s);  // Replica 4 warms up.
  seen(1).gateway->open_requests = 5;
  seen(2).gateway->open_requests = 1;
  seen(3).gateway->open_requests = 5;
  want_.replicas = 5;
  EXPECT_EQ(tick(12s), (Steps{{StepKind::kStop, 6, StepReason::kAboveTarget}}));
  want_.replicas = 1;
  EXPECT_EQ(tick(13s), (Steps{{StepKind::kStop, 5, StepReason::kAboveTarget},
                              {StepKind::kStop, 4, StepReason::kAboveTarget},
                              {StepKind::kDrain, 2, StepReason::kAboveTarget},
                              // The newer of two equal replicas.
                              {StepKind::kDrain, 3, StepReason::kAboveTarget}}));
}

TEST_F(AdvanceTest, TakesDrainingReplicasBackBeforeItStartsOthers) {
  serve(3);
  want_.replicas = 2;
  EXPECT_EQ(tick(10s), (Steps{{StepKind::kDrain, 3, StepReason::kAboveTarget}}));
  want_.replicas = 1;
  seen(1).gateway->open_requests = 9;
  EXPECT_EQ(tick(11s), (Steps{{StepKind::kDrain, 2, StepReason::kAboveTarget}}));
  want_.replicas = 2;
  // The last one that started to drain.
  EXPECT_EQ(tick(11500ms), (Steps{{StepKind::kAdmit, 2, StepReason::kTakenBack}}));
  want_.replicas = 4;
  EXPECT_EQ(tick(11700ms),
            (Steps{{StepKind::kAdmit, 3, StepReason::kTakenBack}, {StepKind::kStart, 4, StepReason::kBelowTarget}}));
}

TEST_F(AdvanceTest, StartsAnotherWhereADrainingReplicaIsNotTakenBack) {
  serve(2);
  limits_.take_back = false;
  want_.replicas = 1;
  EXPECT_EQ(tick(10s), (Steps{{StepKind::kDrain, 2, StepReason::kAboveTarget}}));
  seen(2).gateway->open_requests = 1;
  want_.replicas = 2;
  EXPECT_EQ(tick(11s), (Steps{{StepKind::kStart, 3, StepReason::kBelowTarget}}));
  EXPECT_EQ(stage(2), Stage::kDraining);
}

TEST_F(AdvanceTest, ARepeatedDrainStartsItsQuietTimeAgain) {
  serve(2);
  want_.replicas = 1;
  tick(10s);
  seen(2).gateway->routes = false;
  tick(11s);  // Nothing is open.
  want_.replicas = 2;
  seen(2).gateway->open_requests = 1;
  EXPECT_EQ(tick(11500ms), (Steps{{StepKind::kAdmit, 2, StepReason::kTakenBack}}));
  want_.replicas = 1;
  seen(1).gateway->open_requests = 9;
  tick(12s);
  EXPECT_EQ(tick(13s), Steps{});
  EXPECT_EQ(stage(2), Stage::kDraining);
}

TEST_F(AdvanceTest, ACrashIsReplacedAfterAWaitThatDoubles) {
  serve(1);
  seen(1).process = ProcessSeen::kGone;
  seen(1).exit_message = "exit code 1: out of memory";
  EXPECT_EQ(tick(10s), Steps{});
  EXPECT_EQ(stage(1), Stage::kFailed);
  EXPECT_TRUE(told(true, "default-1 died while serving: exit code 1: out of memory; the pool starts"));
  EXPECT_EQ(tick(10900ms), Steps{});
  EXPECT_EQ(tick(11s), (Steps{{StepKind::kStart, 2, StepReason::kReplacesFailed}}));
  core::Duration time = 11s, wait = 1s;
  for (std::uint32_t id = 2; id < 12; ++id) {
    start(id);
    seen_ = {{id, ProcessSeen::kGone}};
    EXPECT_EQ(tick(time), Steps{});
    wait = std::min<core::Duration>(2 * wait, 60s);
    EXPECT_EQ(tick(time + wait - 1ms), Steps{});
    time += wait;
    EXPECT_EQ(tick(time).size(), 1U) << id;
  }
  EXPECT_EQ(wait, 60s);
}

TEST_F(AdvanceTest, SimultaneousCrashesCountAsOneIncident) {
  serve(4);
  for (const std::uint32_t id : {1U, 2U, 3U, 4U}) seen(id).process = ProcessSeen::kGone;
  tick(10s);
  EXPECT_EQ(fleet_.pools[0].crashes, 1U);
  EXPECT_EQ(tick(11s).size(), 4U);
}

TEST_F(AdvanceTest, CrashesAreForgottenOnceAReplacementServesForAWhile) {
  serve(1);
  seen(1).process = ProcessSeen::kGone;
  tick(10s);
  tick(11s);
  start(2);
  seen(2);
  tick(12s);
  tick(71s);
  EXPECT_EQ(fleet_.pools[0].crashes, 1U);
  tick(72s);
  EXPECT_EQ(fleet_.pools[0].crashes, 0U);
}

TEST_F(AdvanceTest, AFailedStartIsReportedAndRetried) {
  want_.replicas = 1;
  tick(0s);
  const auto notes = start_failed(fleet_, 1, "engine: no such program", limits_, now_);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].text, "default-1 could not be started: engine: no such program; tries again in 1 s");
  EXPECT_TRUE(start_failed(fleet_, 1, "again", limits_, now_).empty());
  EXPECT_EQ(tick(500ms), Steps{});
  EXPECT_EQ(tick(1s), (Steps{{StepKind::kStart, 2, StepReason::kReplacesFailed}}));
}

TEST_F(AdvanceTest, AReplicaThatIsNotHealthyInTimeIsGivenUp) {
  want_.replicas = 1;
  tick(0s);
  start(1);
  seen(1).engine->healthy = false;
  EXPECT_EQ(tick(599s), Steps{});
  EXPECT_EQ(tick(600s), (Steps{{StepKind::kStop, 1, StepReason::kStartDeadline}}));
  EXPECT_TRUE(told(true, "was not healthy after 600 s"));
  EXPECT_EQ(tick(601s), (Steps{{StepKind::kStart, 2, StepReason::kReplacesFailed}}));
  seen(1).process = ProcessSeen::kGone;
  tick(602s);
  EXPECT_EQ(stage(1), Stage::kFailed);
}

TEST_F(AdvanceTest, AReplicaServesAfterTheWarmUpDeadlineWithANote) {
  want_.replicas = 1;
  tick(0s);
  start(1);
  seen(1);
  tick(1s);
  seen(1).warm_up = {{8, 5}};
  EXPECT_EQ(tick(60s), Steps{});
  EXPECT_EQ(tick(61s), (Steps{{StepKind::kAdmit, 1, StepReason::kWarmUpLate}}));
  EXPECT_TRUE(told(false, "only 5 of 8 warm-up prompts"));
}

TEST_F(AdvanceTest, AnUnhealthyReplicaDoesNotServeAfterItsWarmUp) {
  want_.replicas = 1;
  tick(0s);
  start(1);
  seen(1);
  tick(1s);
  seen(1).engine->healthy = false;
  EXPECT_EQ(tick(61s), (Steps{{StepKind::kStop, 1, StepReason::kStartDeadline}}));
}

TEST_F(AdvanceTest, ReplacesAnOldRevisionOneByOneAndNeverBeforeTheNewOneTakesTraffic) {
  serve(2);
  want_.revision = "r2";
  EXPECT_EQ(tick(10s), (Steps{{StepKind::kStart, 3, StepReason::kReplacesOutdated}}));
  start(3);
  EXPECT_EQ(tick(11s), Steps{});
  seen(3).gateway->routes = false;
  EXPECT_EQ(tick(12s), (Steps{{StepKind::kAdmit, 3, StepReason::kHealthy}}));
  EXPECT_EQ(tick(13s), Steps{});  // The gateway does not route to it yet.
  seen(3).gateway->routes = true;
  EXPECT_EQ(tick(14s), (Steps{{StepKind::kDrain, 2, StepReason::kOutdated}}));
  EXPECT_EQ(tick(15s), Steps{});  // Three replicas hold GPUs until it has ended.
  seen(2).gateway->routes = false;
  tick(16s);
  EXPECT_EQ(tick(17s), (Steps{{StepKind::kStop, 2, StepReason::kDrained}}));
  seen(2).process = ProcessSeen::kGone;
  EXPECT_EQ(tick(18s), (Steps{{StepKind::kStart, 4, StepReason::kReplacesOutdated}}));
}

TEST_F(AdvanceTest, AReplicaThatStaysUnhealthyIsReplaced) {
  serve(2);
  seen(1).engine->healthy = false;
  EXPECT_EQ(tick(10s), Steps{});
  EXPECT_EQ(tick(39s), Steps{});
  EXPECT_EQ(tick(40s), (Steps{{StepKind::kStart, 3, StepReason::kReplacesOutdated}}));
  start(3);
  seen(3);
  EXPECT_EQ(tick(41s), (Steps{{StepKind::kAdmit, 3, StepReason::kHealthy}}));
  EXPECT_EQ(tick(42s), (Steps{{StepKind::kDrain, 1, StepReason::kUnhealthy}}));
  seen(1).engine->healthy = true;
  tick(43s);
  want_.replicas = 3;
  EXPECT_EQ(tick(44s), (Steps{{StepKind::kAdmit, 1, StepReason::kTakenBack}}));
}

TEST_F(AdvanceTest, AnEngineThatDoesNotReportIsNotReplaced) {
  serve(2);
  seen(1).engine.reset();
  seen(2).engine.reset();
  EXPECT_EQ(tick(10s), Steps{});
  EXPECT_EQ(tick(2h), Steps{});
}

TEST_F(AdvanceTest, StartsStopAtTheLimitWhichIsReportedOnce) {
  limits_.replicas_max = 3;
  want_.replicas = 5;
  EXPECT_EQ(tick(0s).size(), 3U);
  EXPECT_TRUE(told(true, "pool default needs 5 more replicas, but 0 run already, and 3 may"));
  EXPECT_EQ(tick(1s), Steps{});
  EXPECT_TRUE(notes_.empty());
}

TEST_F(AdvanceTest, APoolWithoutTargetIsDrainedAndForgotten) {
  serve(1);
  EXPECT_EQ(advance(fleet_, {}, seen_, limits_, at(10s)).steps,
            (Steps{{StepKind::kDrain, 1, StepReason::kAboveTarget}}));
  EXPECT_EQ(fleet_.pools.size(), 1U);
  seen(1).process = ProcessSeen::kGone;
  const auto result = advance(fleet_, {}, seen_, limits_, at(11s));
  EXPECT_TRUE(fleet_.pools.empty());
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_NE(result.notes[0].text.find("died while it drained"), std::string::npos);
}

TEST_F(AdvanceTest, OnlyTheLatestEndedReplicasAreKept) {
  limits_.ended_kept = 2;
  serve(4);
  for (const std::uint32_t id : {1U, 2U, 3U}) seen(id).process = ProcessSeen::kGone;
  tick(10s);
  EXPECT_EQ(fleet_.find(1), nullptr);
  EXPECT_NE(fleet_.find(2), nullptr);
  EXPECT_EQ(fleet_.replicas.size(), 3U);
}

TEST_F(AdvanceTest, ResumeRepeatsStepsThatMayBeMissing) {
  serve(3);
  limits_.warm_up = true;
  want_.replicas = 5;
  tick(10s);
  start(4);
  seen(4);
  tick(11s);
  fleet_.find(1)->stage = Stage::kDraining;
  fleet_.find(2)->stage = Stage::kStopping;
  EXPECT_EQ(resume(fleet_), (Steps{{StepKind::kDrain, 1, StepReason::kResumed},
                                   {StepKind::kStop, 2, StepReason::kResumed},
                                   {StepKind::kAdmit, 3, StepReason::kResumed},
                                   {StepKind::kWarmUp, 4, StepReason::kResumed},
                                   {StepKind::kStart, 5, StepReason::kResumed}}));
}

}  // namespace
}  // namespace penstock::actuation
