#include "connect/kubernetes/pod_groups.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

PodState member(int group, int index) {
  const std::string name = "chat-" + std::to_string(group) + (index == 0 ? "" : "-" + std::to_string(index));
  PodState pod = parse_pod({{"metadata",
                             {{"name", name},
                              {"uid", "u-" + name},
                              {"creationTimestamp", "2026-11-22T13:26:2" + std::to_string(index) + "Z"},
                              {"labels",
                               {{kGroupSetLabel, "chat"},
                                {kGroupIndexLabel, std::to_string(group)},
                                {kWorkerIndexLabel, std::to_string(index)},
                                {kGroupRevisionLabel, "r1"},
                                {"controller-revision-hash", "own-" + name}}},
                              {"annotations", {{kGroupSizeAnnotation, "2"}}}}},
                            {"spec",
                             {{"nodeName", "n" + std::to_string(index)},
                              {"containers",
                               {{{"resources", {{"limits", {{"nvidia.com/gpu", "4"}, {"cpu", "100m"}}}}}},
                                {{"resources", {{"limits", {{"nvidia.com/gpu", "x"}}}}}}}}}},
                            {"status",
                             {{"podIP", "10.0.0." + std::to_string(10 * group + index)},
                              {"conditions",
                               {{{"type", "Ready"},
                                 {"status", "True"},
                                 {"lastTransitionTime", "2026-11-22T13:26:5" + std::to_string(index) + "Z"}}}}}}});
  return pod;
}

std::map<std::string, PodGroup> groups(const std::vector<PodState>& all, PodSelection selection = PodSelection::kAll) {
  std::map<std::string, PodState> pods;
  for (const PodState& pod : all) pods.emplace("prod/" + pod.name, pod);
  return groups_of(pods, selection);
}

TEST(PodGroups, LeaderAndWorkersAreOneReplicaWithTheAddressOfTheLeader) {
  const auto found = groups({member(0, 0), member(0, 1), member(1, 1), member(1, 0)});
  ASSERT_EQ(found.size(), 2U);
  const PodGroup& group = found.at("chat-1");
  EXPECT_EQ(group.pod.address, "10.0.0.10");
  EXPECT_EQ(group.pod.gpus, 8U);
  EXPECT_EQ(group.pod.revision, "r1") << "that of the template, which the pods have in common";
  EXPECT_TRUE(group.pod.is_ready);
  EXPECT_EQ(*group.pod.ready_s - *group.pod.created_s, 31) << "from the first creation to the last readiness";
  ASSERT_EQ(group.members.size(), 2U);
  EXPECT_EQ(group.members[0].name, "chat-1");
  EXPECT_EQ(group.members[1].uid, "u-chat-1-1");
  EXPECT_EQ(nodes_of(group), (std::vector<std::string>{"n0", "n1"}));
}

TEST(PodGroups, AGroupIsReadyWhenAllItsPodsAre) {
  PodState worker = member(0, 1);
  worker.is_ready = false;
  EXPECT_FALSE(groups({member(0, 0), worker}).at("chat-0").pod.is_ready);
  EXPECT_FALSE(groups({member(0, 0)}).at("chat-0").pod.is_ready) << "the worker does not exist yet";
  EXPECT_TRUE(groups({member(0, 0)}, PodSelection::kLeaders).at("chat-0").pod.is_ready);
  EXPECT_TRUE(groups({member(0, 1)}).empty()) << "there is no leader";
}

TEST(PodGroups, MarksMustBeOnAllPodsAndOneThatTerminatesConcernsAll) {
  PodState leader = member(0, 0), worker = member(0, 1);
  leader.is_marked = true;
  leader.deletion_cost = -5;
  EXPECT_FALSE(groups({leader, worker}).at("chat-0").pod.is_marked);
  EXPECT_EQ(groups({leader, worker}).at("chat-0").pod.deletion_cost, -5);
  worker.is_marked = worker.is_terminating = true;
  worker.blocked_by = "Unschedulable";
  const PodState all = groups({leader, worker}).at("chat-0").pod;
  EXPECT_TRUE(all.is_marked && all.is_terminating);
  EXPECT_EQ(all.blocked_by, "Unschedulable");
}

TEST(PodGroups, OtherPodsAreReplicasOfTheirOwn) {
  PodState pod;
  pod.name = "chat-7d9";
  pod.revision = "abc";
  pod.is_ready = true;
  const auto found = groups({pod, member(0, 0)}, PodSelection::kAll);
  EXPECT_EQ(found.at("chat-7d9").pod.revision, "abc");
  EXPECT_TRUE(found.at("chat-7d9").pod.is_ready);
}

}  // namespace
}  // namespace penstock::connect
