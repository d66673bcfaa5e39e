#include <gtest/gtest.h>

#include "controller/kubernetes_cluster_testing.h"

namespace penstock::controller {
namespace {

using namespace testing_cluster;

class KubernetesFleetViewTest : public KubernetesFleetTest {
 protected:
  void add_crashing_pod(const std::string& name, const std::string& node) {
    cluster.add_pod(name, false);
    Json pod = cluster.pod(name);
    pod["spec"]["nodeName"] = node;
    pod["status"]["containerStatuses"] = {{{"state", {{"waiting", {{"reason", "CrashLoopBackOff"}}}}}}};
    cluster.set("pods", name, pod);
  }
};

TEST_F(KubernetesFleetViewTest, APodThatCannotStartOnItsNodeIsStuck) {
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  add_crashing_pod("chat-8", "n");
  add_crashing_pod("chat-9", "");
  ASSERT_TRUE(until([&] { return seen().starting == 2; }));
  EXPECT_EQ(seen().stuck, 0U);
  ASSERT_TRUE(until([&] { return seen().starting == 0; }));
  EXPECT_EQ(seen().stuck, 1U) << "without a node it holds no GPU";
  EXPECT_EQ(seen().stuck_ending, 0U);
  EXPECT_EQ(seen().replicas.size(), 3U);
  cluster.add_pod("chat-8");
  ASSERT_TRUE(until([&] { return seen().ready == 4; }));
  EXPECT_EQ(seen().stuck, 0U);
}

TEST_F(KubernetesFleetViewTest, APodThatDoesNotEndIsStuckUntilItIsGone) {
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  Json pod = cluster.pod("chat-1");
  pod["metadata"]["deletionTimestamp"] = "2026-11-22T13:26:51Z";
  pod["metadata"]["deletionGracePeriodSeconds"] = 0;
  cluster.set("pods", "chat-1", pod);
  ASSERT_TRUE(until([&] { return seen().draining == 1; }));
  ASSERT_TRUE(until([&] { return seen().draining == 0; }));
  EXPECT_EQ(seen().stuck_ending, 1U);
  cluster.delete_pod("chat-1");
  ASSERT_TRUE(until([&] { return seen().stuck_ending == 0; }));
  EXPECT_EQ(seen().stuck, 0U);
}

TEST_F(KubernetesFleetViewTest, StartUpTimesContinueFromThoseOfMoreReplicas) {
  using std::chrono_literals::operator""s;
  StartUpTimes& times = *fleet->start_up_times(0);
  times.restore({200s, 240s, 210s});
  EXPECT_EQ(seen().start_up, core::Duration{210s});
  times.restore({5s, 5s});
  EXPECT_EQ(times.all(), (std::vector<core::Duration>{200s, 240s, 210s}));
}

}  // namespace
}  // namespace penstock::controller
