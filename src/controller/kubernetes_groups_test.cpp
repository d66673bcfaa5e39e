// Replicas that are groups of pods of a LeaderWorkerSet.
#include <gtest/gtest.h>

#include "controller/kubernetes_cluster_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using namespace testing_cluster;

// Three groups of two pods with 4 GPUs each.
class KubernetesGroupsTest : public KubernetesFleetTest {
 protected:
  KubernetesGroupsTest() : KubernetesFleetTest{{"leaderworkerset/chat", 2}, {"chat", {}, 4, true}} {}

  std::string annotation(const std::string& pod) {
    return cluster.pod(pod)["metadata"]["annotations"].value("penstock/draining", "");
  }
};

TEST_F(KubernetesGroupsTest, AGroupIsOneReplicaWithTheNameOfItsLeader) {
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  EXPECT_EQ(cluster.pod_selector, "leaderworkerset.sigs.k8s.io/name=chat");
  EXPECT_EQ(cluster.pods(), 6U);
  const auto replicas = fleet->replicas(0);
  ASSERT_EQ(replicas.size(), 3U);
  EXPECT_EQ(replicas[2].name, "chat-2");
}

TEST_F(KubernetesGroupsTest, AGroupStartsUntilItsLastPodIsReady) {
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  cluster.add_worker(3, 0, true, "n");
  ASSERT_TRUE(until([&] { return seen().starting == 1; }));
  run(300ms);
  EXPECT_EQ(seen().ready, 3U) << "the worker does not exist yet";
  cluster.add_worker(3, 1, false, "n");
  run(300ms);
  EXPECT_EQ(seen().starting, 1U);
  cluster.add_worker(3, 1, true, "n");
  EXPECT_TRUE(until([&] { return seen().ready == 4; }));
  EXPECT_EQ(seen().start_up, core::Duration{30s});
}

TEST_F(KubernetesGroupsTest, AllPodsOfTheLastGroupAreMarkedAndGoWhenTheLeaderIsIdle) {
  open = 2;
  engines.running = 1;
  fleet->set_target(0, 2);
  ASSERT_TRUE(until([&] { return annotation("chat-2") == "true" && annotation("chat-2-1") == "true"; }));
  ASSERT_TRUE(until([&] { return seen().draining == 1; }));
  EXPECT_EQ(annotation("chat-1"), "");
  run(1s);
  EXPECT_EQ(cluster.pods(), 6U);
  open = 0;
  engines.running = 0;
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
  EXPECT_EQ(cluster.deleted, (std::set<std::string>{"chat-2", "chat-2-1"}));
  EXPECT_EQ(cluster.replicas, 2U);
}

TEST_F(KubernetesGroupsTest, AGroupThatIsNeededAgainLosesAllItsMarks) {
  open = 1;
  fleet->set_target(0, 2);
  ASSERT_TRUE(until([&] { return seen().draining == 1; }));
  fleet->set_target(0, 3);
  ASSERT_TRUE(until([&] { return annotation("chat-2").empty() && annotation("chat-2-1").empty(); }));
  EXPECT_TRUE(cluster.scales.empty());
}

TEST_F(KubernetesGroupsTest, OtherGpusThanConfiguredAndSeveralNodesAreReportedOnce) {
  ASSERT_TRUE(until([&] { return log.count(Event::kActuationWarning) == 1; }));
  EXPECT_NE(log.lines(Event::kActuationWarning).at(0).find("chat-0 has 8 GPUs, and pools[].gpus is 4"),
            std::string::npos)
      << log.lines(Event::kActuationWarning).at(0);
  cluster.add_worker(3, 0, true, "node-a");
  cluster.add_worker(3, 1, true, "node-b");
  ASSERT_TRUE(until([&] { return log.count(Event::kActuationWarning) == 2; }));
  EXPECT_NE(log.lines(Event::kActuationWarning).at(1).find("the pods of chat-3 run on several nodes (node-a, node-b)"),
            std::string::npos);
  run(1s);
  EXPECT_EQ(log.count(Event::kActuationWarning), 2U);
}

}  // namespace
}  // namespace penstock::controller
