#include "controller/kubernetes_fleet.h"

#include <gtest/gtest.h>

#include "controller/kubernetes_cluster_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using namespace testing_cluster;

TEST_F(KubernetesFleetTest, PodsOfTheSelectorAreReplicasAndNothingIsKnownBefore) {
  EXPECT_NE(fleet->unknown_because(), "");
  EXPECT_EQ(seen().replicas.size(), 0U);
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); })) << fleet->unknown_because();
  cluster.add_pod("chat-9", false);
  ASSERT_TRUE(until([&] { return seen().starting == 1; }));
  EXPECT_EQ(seen().ready, 3U);
  EXPECT_EQ(seen().target_replicas, 3U);
  EXPECT_EQ(fleet->replicas(0).at(0).stage, "serving");
  EXPECT_TRUE(cluster.scales.empty());
}

TEST_F(KubernetesFleetTest, ScalesUpByThePatchOfTheVersionThatWasRead) {
  fleet->set_target(0, 5);
  ASSERT_TRUE(until([&] { return cluster.pods() == 5; }));
  EXPECT_EQ(cluster.scales.size(), 1U);
  const Json body = Json::parse(cluster.scales.at(0));
  EXPECT_EQ(body["spec"]["replicas"], 5);
  EXPECT_TRUE(body["metadata"].contains("resourceVersion"));
  EXPECT_TRUE(until([&] { return log.count(Event::kScaled) == 1; }));
}

TEST_F(KubernetesFleetTest, ScalesDownOnlyPodsOnWhichNothingIsOpen) {
  open = 2;
  engines.running = 1;
  fleet->set_target(0, 1);
  ASSERT_TRUE(until([&] { return seen().draining == 2; }));
  run(1s);
  EXPECT_EQ(cluster.pods(), 3U);
  open = 0;
  run(1s);
  EXPECT_EQ(cluster.pods(), 3U) << "the engines have open requests";
  engines.running = 0;
  ASSERT_TRUE(until([&] { return cluster.pods() == 1; }));
  EXPECT_EQ(seen().target_replicas, 1U);
  ASSERT_TRUE(until([&] { return seen().draining == 0; }));
}

TEST_F(KubernetesFleetTest, TheStartUpTimeIsLearnedFromPodsThatWereSeenBeforeTheyWereReady) {
  cluster.add_pod("chat-8", false);  // It is in the first list, with a probe that fails long after the start.
  ASSERT_TRUE(until([&] { return seen().starting == 1; }));
  cluster.add_pod("chat-8");
  cluster.add_pod("chat-1", false);
  ASSERT_TRUE(until([&] { return seen().ready == 3 && seen().starting == 1; }));
  cluster.add_pod("chat-1");
  cluster.add_pod("chat-7");
  ASSERT_TRUE(until([&] { return seen().ready == 5; }));
  EXPECT_EQ(seen().start_up, core::Duration{});
  cluster.add_pod("chat-9", false);
  ASSERT_TRUE(until([&] { return seen().starting == 1; }));
  cluster.add_pod("chat-9");
  ASSERT_TRUE(until([&] { return seen().start_up == core::Duration{30s}; }));
  StartUpTimes times;
  times.add(70h);
  EXPECT_EQ(times.spread()->longest, core::Duration{1h});
}

TEST_F(KubernetesFleetTest, ASilentWatchOfPodsLetsNothingShrink) {
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  cluster.pods_watch_hangs = true;
  fleet->set_target(0, 6);
  ASSERT_TRUE(until([&] { return cluster.pods() == 6; }));
  fleet->set_target(0, 3);
  run(1s);
  EXPECT_EQ(cluster.pods(), 6U);
  EXPECT_EQ(cluster.scales.size(), 1U);
  EXPECT_EQ(fleet->scaling(0)->held_by_cause, "no_data");
  EXPECT_EQ(log.count(Event::kPoolHeld), 1U);
}

TEST_F(KubernetesFleetTest, PodsThatOnlyTheGatewayKnowsLetNothingShrink) {
  cluster.counts_replicas = false;
  listed_too = {"of-another-target"};
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  run(500ms);
  cluster.pods_watch_hangs = true;
  fleet->set_target(0, 6);
  ASSERT_TRUE(until([&] { return cluster.pods() == 6; }));
  listed_too.push_back("chat-4");
  run(500ms);
  fleet->set_target(0, 3);
  run(1s);
  EXPECT_EQ(cluster.pods(), 6U);
  EXPECT_EQ(fleet->scaling(0)->held_by_cause, "no_data");
  listed_too.pop_back();
  ASSERT_TRUE(until([&] { return cluster.pods() == 3; })) << "the other replica is no pod of the target";
}

TEST_F(KubernetesFleetTest, APodThatDoesNotEndIsNotDrainingForever) {
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  Json pod = cluster.pod("chat-1");
  pod["metadata"]["deletionTimestamp"] = "2026-11-22T13:26:51Z";
  pod["metadata"]["deletionGracePeriodSeconds"] = 1;
  cluster.set("pods", "chat-1", pod);
  ASSERT_TRUE(until([&] { return seen().draining == 1; }));
  run(500ms);
  EXPECT_EQ(seen().draining, 1U) << "its grace period is not over";
  ASSERT_TRUE(until([&] { return seen().draining == 0; }));
  EXPECT_EQ(seen().replicas.size(), 2U);
  EXPECT_EQ(fleet->replicas(0).size(), 3U) << "the live page shows it";
}

TEST_F(KubernetesFleetTest, AFailedMarkDoesNotKeepThePoolFromGrowing) {
  cluster.mark_status = 403;
  fleet->set_target(0, 2);
  ASSERT_TRUE(until([&] { return seen().shrinks_failed_total > 0; }));
  EXPECT_EQ(seen().actions_failed_total, 0U);
  fleet->set_target(0, 5);
  ASSERT_TRUE(until([&] { return cluster.pods() == 5; }));
}

TEST_F(KubernetesFleetTest, ARefusedWriteIsTriedAgainWhenTheServerAllowsIt) {
  cluster.scale_status = 429;
  cluster.retry_after = "5";
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return cluster.scales.size() == 1; }));
  run(3500ms);
  EXPECT_EQ(cluster.scales.size(), 1U);
  EXPECT_EQ(seen().actions_failed_total, 1U);
  cluster.scale_status = 200;
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
}

TEST_F(KubernetesFleetTest, AFailedReadIsNoFailedAction) {
  cluster.read_status = 403;
  fleet = *KubernetesFleet::start(loop, client, log, options);
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return cluster.refused_reads >= 2; }));
  EXPECT_EQ(seen().actions_failed_total, 0U) << "the policy may go on";
  EXPECT_EQ(seen().shrinks_failed_total, 0U);
  cluster.read_status = 200;
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
}

TEST_F(KubernetesFleetTest, WithoutALeaseANumberOfAnotherPlannerIsNamedAndNotFought) {
  options.api.may_write = {};
  fleet = *KubernetesFleet::start(loop, client, log, options);
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
  run(500ms);
  EXPECT_EQ(log.count(Event::kPoolHeld), 0U) << "its own write";
  cluster.scale(6, "penstock");
  ASSERT_TRUE(until([&] { return log.count(Event::kPoolHeld) == 1; }));
  EXPECT_NE(log.lines(Event::kPoolHeld).at(0).find("another planner set 6 replicas"), std::string::npos);
  EXPECT_EQ(cluster.scales.size(), 1U);
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; })) << "after manual_hold the planner goes on";
}

TEST_F(KubernetesFleetTest, UnderALeaseALateWriteOfThePlannerBeforeIsNoOthers) {
  fleet->set_target(0, 3);
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  run(500ms);
  cluster.scale(5, "penstock");
  ASSERT_TRUE(until([&] { return cluster.pods() == 3; }));
  EXPECT_EQ(log.count(Event::kPoolHeld), 0U);
}

TEST_F(KubernetesFleetTest, APodStaysWhileKvIsFetchedFromIt) {
  open_transfers = 2;
  fleet->set_target(0, 1);
  ASSERT_TRUE(until([&] { return seen().draining == 2; }));
  run(1s);
  EXPECT_EQ(cluster.pods(), 3U) << "the gateway knows of decode replicas that have not answered";
  engines.transfers = 1;
  open_transfers = 0;
  run(1s);
  EXPECT_EQ(cluster.pods(), 3U) << "the engines report transfers";
  engines.transfers = 0;
  ASSERT_TRUE(until([&] { return cluster.pods() == 1; }));
}

TEST_F(KubernetesFleetTest, WithoutTheGatewayNothingShrinks) {
  open.reset();
  fleet->set_target(0, 1);
  run(2s);
  EXPECT_EQ(cluster.pods(), 3U);
  EXPECT_EQ(seen().draining, 0U) << "pods serve behind other gateways";
  open = 1;
  EXPECT_TRUE(until([&] { return seen().draining == 2; }));
}

TEST_F(KubernetesFleetTest, ADrainIsCancelledWhenThePodIsNeededAgain) {
  open = 1;
  fleet->set_target(0, 2);
  ASSERT_TRUE(until([&] { return seen().draining == 1; }));
  fleet->set_target(0, 3);
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  EXPECT_TRUE(cluster.scales.empty());
}

TEST_F(KubernetesFleetTest, AConflictIsReadAgain) {
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  cluster.scale_status = 409;
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return !cluster.scales.empty(); }));
  cluster.scale_status = 200;
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
  EXPECT_GE(fleet->scaling(0)->conflicts, 1U);
}

TEST_F(KubernetesFleetTest, AClientThatChangesTheObjectWithoutAPauseIsNamedOnceUntilItEnds) {
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  run(500ms);
  cluster.annotates_before_writes = true;
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return log.count(Event::kActuationWarning) == 1; }));
  EXPECT_EQ(cluster.scales.size(), 5U);
  EXPECT_EQ(fleet->scaling(0)->conflicts, 5U);
  EXPECT_NE(log.lines(Event::kActuationWarning).at(0).find("another-client changes deployments.apps"),
            std::string::npos);
  EXPECT_EQ(fleet->unknown_because(), "");
  ASSERT_TRUE(until([&] { return cluster.scales.size() == 15; })) << "after a pause it is tried again";
  EXPECT_EQ(log.count(Event::kActuationWarning), 1U);
  EXPECT_EQ(log.count(Event::kPoolHeld), 0U) << "the number of replicas is not that client's";
  cluster.annotates_before_writes = false;
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
}

TEST_F(KubernetesFleetTest, ChangesOfOtherFieldsBetweenReadsAndWritesDoNotKeepAPoolFromScaling) {
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  run(500ms);
  // At each tick the state that was read is older than that of the watch.
  const net::Loop::Timer timer = loop.every(10ms, [&] { cluster.annotate(); });
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
  EXPECT_EQ(log.count(Event::kPoolHeld), 0U);
  // A number that another client sets is not overwritten, and that client is named.
  cluster.scale(6, "kubectl");
  ASSERT_TRUE(until([&] { return log.count(Event::kPoolHeld) == 1; }));
  EXPECT_NE(log.lines(Event::kPoolHeld).at(0).find("kubectl"), std::string::npos);
  EXPECT_EQ(cluster.replicas, 6U);
  loop.cancel(timer);
}

TEST_F(KubernetesFleetTest, ARefusedWriteIsReportedOnceAndTriedAgain) {
  cluster.scale_status = 403;
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return cluster.scales.size() == 2; }));
  EXPECT_EQ(log.count(Event::kActuationWarning), 1U);
  EXPECT_NE(log.lines(Event::kActuationWarning).at(0).find("deployments/scale"), std::string::npos);
  cluster.scale_status = 200;
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
}

TEST_F(KubernetesFleetTest, AnotherClientIsNamedAndNotFought) {
  fleet->set_target(0, 3);
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  run(500ms);
  cluster.scale(5, "kubectl");
  ASSERT_TRUE(until([&] { return log.count(Event::kPoolHeld) == 1; }));
  EXPECT_NE(log.lines(Event::kPoolHeld).at(0).find("kubectl"), std::string::npos);
  EXPECT_EQ(seen().target_replicas, 5U);
  EXPECT_TRUE(cluster.scales.empty());
  ASSERT_TRUE(until([&] { return cluster.pods() == 3; })) << "after manual_hold the planner goes on";
}

TEST_F(KubernetesFleetTest, AnnotationsOfItsAutoscalerAndOfTheTargetAreFollowed) {
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  ASSERT_EQ(fleet->annotations(0).size(), 1U);
  EXPECT_EQ(fleet->annotations(0)[0].object, "deployments.apps \"chat\"");
  const Json target = {{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"name", "chat"}};
  Json autoscaler = {
      {"metadata", {{"annotations", {{"llm-d.ai/managed", "true"}, {"llm-d.ai/model-id", "org/model"}}}}},
      {"spec", {{"scaleTargetRef", target}, {"minReplicas", 2}, {"maxReplicas", 9}}}};
  cluster.set("horizontalpodautoscalers", "chat-hpa", autoscaler);
  ASSERT_TRUE(until([&] { return fleet->annotations(0).size() == 2; }));
  EXPECT_EQ(fleet->annotations(0)[0].model, "org/model");
  EXPECT_EQ(fleet->annotations(0)[0].max_replicas, 9U);
  autoscaler["spec"]["scaleTargetRef"]["name"] = "other";
  cluster.set("horizontalpodautoscalers", "chat-hpa", autoscaler);
  ASSERT_TRUE(until([&] { return fleet->annotations(0).size() == 1; }));
}

class LatePodsTest : public KubernetesFleetTest {
 protected:
  LatePodsTest() : KubernetesFleetTest{target(), pool()} {}
  static TestTarget target() {
    TestTarget made;
    made.ready_at = "2026-11-22T13:26:21Z";
    return made;
  }
  static KubernetesPool pool() {
    KubernetesPool made{"chat", {}};
    made.start_up = 500ms;
    return made;
  }
};

TEST_F(LatePodsTest, PodsThatAreNeverReadyEndTheGrowthAndGoFirst) {
  cluster.new_pods_are_ready = false;
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
  EXPECT_EQ(fleet->scaling(0)->pending, 0U) << "it may still start";
  ASSERT_TRUE(until([&] { return seen().starting == 1; }));
  run(2s);
  EXPECT_EQ(fleet->scaling(0)->pending, 1U);
  EXPECT_EQ(seen().starting, 0U);
  fleet->set_target(0, 6);
  ASSERT_TRUE(until([&] { return cluster.pods() == 6; })) << "others may start";
  run(2s);
  fleet->set_target(0, 8);
  ASSERT_TRUE(until([&] { return log.count(Event::kPoolHeld) == 1; }));
  EXPECT_NE(log.lines(Event::kPoolHeld).at(0).find("chat-4 cannot start"), std::string::npos);
  EXPECT_NE(log.lines(Event::kPoolHeld).at(0).find("not Ready"), std::string::npos);
  run(500ms);
  EXPECT_EQ(cluster.pods(), 6U);
  EXPECT_EQ(fleet->scaling(0)->held_by_cause, "blocked");
  fleet->set_target(0, 3);
  ASSERT_TRUE(until([&] { return cluster.pods() == 3; }));
  EXPECT_EQ(cluster.deleted, (std::set<std::string>{"chat-4", "chat-5", "chat-6"}));
}

TEST_F(LatePodsTest, APodThatIsReadyInTheEndLetsTheGrowthGoOn) {
  cluster.new_pods_are_ready = false;
  fleet->set_target(0, 5);
  ASSERT_TRUE(until([&] { return cluster.pods() == 5; }));
  run(2s);
  fleet->set_target(0, 6);
  ASSERT_TRUE(until([&] { return log.count(Event::kPoolHeld) == 1; }));
  cluster.add_pod("chat-4");
  ASSERT_TRUE(until([&] { return cluster.pods() == 6; }));
  EXPECT_EQ(log.count(Event::kPoolReleased), 1U);
}

TEST_F(KubernetesFleetTest, NothingIsWrittenWhileAnotherPlannerLeads) {
  leads = false;
  fleet->set_target(0, 6);
  run(1s);
  EXPECT_TRUE(cluster.scales.empty());
  EXPECT_EQ(seen().target_replicas, 3U);
  leads = true;
  EXPECT_TRUE(until([&] { return cluster.pods() == 6; }));
}

}  // namespace
}  // namespace penstock::controller
