#include "connect/kubernetes/replica_sets.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "connect/kubernetes/pods.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

Json replica_set(const std::string& uid, const std::string& revision, int replicas, int observed = 3) {
  return {
      {"metadata",
       {{"uid", uid},
        {"generation", 3},
        {"annotations", {{"deployment.kubernetes.io/revision", revision}}},
        {"ownerReferences", {{{"uid", "a config map"}}, {{"uid", "d"}, {"controller", true}}}}}},
      {"spec", {{"replicas", replicas}, {"template", {{"metadata", {{"labels", {{"app", "chat"}, {"hash", uid}}}}}}}}},
      {"status", {{"observedGeneration", observed}}}};
}

std::map<std::string, ReplicaSetState> sets_of(const std::vector<Json>& objects) {
  std::map<std::string, ReplicaSetState> sets;
  for (const Json& object : objects) sets.emplace("prod/" + std::to_string(sets.size()), parse_replica_set(object));
  return sets;
}

TEST(ReplicaSets, ThePresentOneHasTheLargestRevision) {
  const auto sets = sets_of({replica_set("old", "9", 0), replica_set("new", "10", 2)});
  const DeploymentPods found = pods_of_deployment(sets, "d");
  ASSERT_NE(found.current, nullptr);
  EXPECT_EQ(found.current->uid, "new");
  EXPECT_EQ(found.current->replicas, 2U);
  EXPECT_TRUE(found.current->is_observed);
  EXPECT_EQ(found.current->labels, (Labels{{"app", "chat"}, {"hash", "new"}}));
  EXPECT_FALSE(found.has_rollout);
  EXPECT_EQ(pods_of_deployment(sets, "another").current, nullptr);
}

TEST(ReplicaSets, TwoWithPodsAreARollout) {
  EXPECT_TRUE(pods_of_deployment(sets_of({replica_set("old", "1", 1), replica_set("new", "2", 2)}), "d").has_rollout);
  EXPECT_TRUE(pods_of_deployment(sets_of({replica_set("old", "1", 1), replica_set("new", "2", 0)}), "d").has_rollout);
}

TEST(ReplicaSets, WhatIsMissingIsNotObserved) {
  EXPECT_FALSE(parse_replica_set(replica_set("new", "2", 2, 2)).is_observed);
  const ReplicaSetState empty = parse_replica_set(Json::object());
  EXPECT_TRUE(empty.uid.empty() && empty.deployment_uid.empty() && empty.labels.empty());
}

TEST(ReplicaSets, APodThatMovesKeepsTheLabelsThatNoTemplateHas) {
  const ApiCall call = move_pod_call("prod", {"p", "u", "n"}, {{"app", "a"}, {"only", "old"}}, {{"app", "b"}});
  const Json patch = Json::parse(call.body);
  EXPECT_EQ(patch["metadata"]["uid"], "u");
  EXPECT_EQ(patch["metadata"]["labels"], (Json{{"app", "b"}, {"only", nullptr}}));
  Json pod{{"metadata", {{"labels", {{"app", "a"}, {"only", "old"}, {"added", "later"}}}}}};
  pod.merge_patch(patch);
  const PodState moved = parse_pod(pod);
  EXPECT_EQ(moved.labels, (Labels{{"added", "later"}, {"app", "b"}}));
  EXPECT_TRUE(moved.has_moved && moved.is_marked);
}

TEST(ReplicaSets, TheRoleThatAnEngineWasAskedToTakeIsReadAsItIsWritten) {
  const Json patch = Json::parse(set_role_call("prod", {"p", "u", "n"}, {"decode", 2}).body);
  EXPECT_EQ(parse_pod(patch).requested_role, (RequestedRole{"decode", 2}));
  for (const char* text : {"", "decode", "decode/", "decode/x", "decode/1x"})
    EXPECT_EQ(parse_pod({{"metadata", {{"annotations", {{kRoleAnnotation, text}}}}}}).requested_role, std::nullopt)
        << text;
}

}  // namespace
}  // namespace penstock::connect
