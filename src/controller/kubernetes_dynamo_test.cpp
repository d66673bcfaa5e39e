// Components of DynamoGraphDeployments as targets.
#include <gtest/gtest.h>

#include "controller/kubernetes_cluster_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using namespace testing_cluster;

constexpr const char* kComponent = "dynamographdeployment/graph/Decode";

class DynamoComponentTest : public KubernetesFleetTest {
 protected:
  explicit DynamoComponentTest(const TestTarget& target = {kComponent, 1, true, false}) : KubernetesFleetTest{target} {}
};

TEST_F(DynamoComponentTest, WithoutAnAdapterTheGraphIsPatched) {
  fleet->set_target(0, 5);
  ASSERT_TRUE(until([&] { return cluster.pods() == 5; })) << fleet->unknown_because();
  EXPECT_EQ(cluster.pod_selector, "nvidia.com/dynamo-graph-deployment-name=graph,nvidia.com/dynamo-component=Decode");
  ASSERT_EQ(cluster.scales.size(), 1U);
  const Json patch = Json::parse(cluster.scales[0]);
  EXPECT_EQ(patch[0]["path"], "/metadata/resourceVersion");
  EXPECT_EQ(patch[1], (Json{{"op", "add"}, {"path", "/spec/components/1/replicas"}, {"value", 5}}));
  run(500ms);
  EXPECT_EQ(log.count(Event::kPoolHeld), 0U);
  EXPECT_EQ(cluster.scales.size(), 1U);
  fleet->set_target(0, 3);
  ASSERT_TRUE(until([&] { return cluster.pods() == 3; }));
  EXPECT_EQ(fleet->scaling(0)->conflicts, 0U);
}

TEST_F(DynamoComponentTest, AConflictIsReadAgain) {
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  cluster.scale_status = 409;
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return !cluster.scales.empty(); }));
  cluster.scale_status = 200;
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
  EXPECT_GE(fleet->scaling(0)->conflicts, 1U);
}

TEST_F(DynamoComponentTest, AnotherClientIsNamed) {
  fleet->set_target(0, 3);
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  run(500ms);
  cluster.scale(5, "kubectl-edit");
  ASSERT_TRUE(until([&] { return log.count(Event::kPoolHeld) == 1; }));
  EXPECT_NE(log.lines(Event::kPoolHeld).at(0).find("kubectl-edit"), std::string::npos);
}

class DynamoAdapterTest : public DynamoComponentTest {
 protected:
  DynamoAdapterTest() : DynamoComponentTest{{kComponent, 1, true, true}} {}
};

TEST_F(DynamoAdapterTest, AnAdapterIsScaledInPlaceOfTheGraphUntilItIsGone) {
  fleet->set_target(0, 5);
  ASSERT_TRUE(until([&] { return cluster.pods() == 5; })) << fleet->unknown_because();
  ASSERT_EQ(cluster.scales.size(), 1U);
  EXPECT_EQ(Json::parse(cluster.scales[0])["spec"]["replicas"], 5);
  EXPECT_EQ(fleet->target_object(0)->name, "graph-decode");
  cluster.remove_adapter();
  ASSERT_TRUE(until([&] { return fleet->target_object(0)->name == "graph"; }));
  fleet->set_target(0, 6);
  ASSERT_TRUE(until([&] { return cluster.pods() == 6; })) << fleet->unknown_because();
  EXPECT_TRUE(Json::parse(cluster.scales.at(1)).is_array());
}

class NoAdaptersTest : public DynamoComponentTest {
 protected:
  NoAdaptersTest() : DynamoComponentTest{{kComponent, 1, false, false}} {}
};

TEST_F(NoAdaptersTest, AClusterThatServesNoAdaptersHasNone) {
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; })) << fleet->unknown_because();
  EXPECT_EQ(log.count(Event::kActuationWarning), 0U);
}

TEST_F(DynamoComponentTest, AComponentThatDoesNotExistIsNamedWithThoseThatDo) {
  options.pools = {{"chat", *connect::parse_scale_target("dynamographdeployment/graph/Prefill")}};
  fleet = *KubernetesFleet::start(loop, client, log, options);
  EXPECT_TRUE(until([&] {
    return fleet->unknown_because() ==
           "dynamographdeployments.nvidia.com \"graph\" component \"Prefill\" does not exist; its components are: "
           "Decode, Frontend";
  })) << fleet->unknown_because();
}

TEST_F(DynamoComponentTest, AnAbsentDefinitionIsNamed) {
  options.pools = {{"chat", *connect::parse_scale_target("example.org/v1/engines/chat")}};
  fleet = *KubernetesFleet::start(loop, client, log, options);
  EXPECT_TRUE(until([&] {
    return fleet->unknown_because().find(
               "the cluster does not serve engines.example.org v1; install its definition "
               "(CRD), or name another version") != std::string::npos;
  })) << fleet->unknown_because();
}

}  // namespace
}  // namespace penstock::controller
