#include "connect/kubernetes/scale_target.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "connect/kubernetes/pods.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

TEST(ScaleTarget, IsReadFromKindAndNameOrFromGroupVersionAndPlural) {
  const auto text = [](const char* target) { return to_string(*parse_scale_target(target)); };
  EXPECT_EQ(text("deployment/chat"), "deployments.apps \"chat\"");
  EXPECT_EQ(text("dynamographdeploymentscalingadapter/g-decode"),
            "dynamographdeploymentscalingadapters.nvidia.com \"g-decode\"");
  EXPECT_EQ(text("example.org/v1/engines/chat"), "engines.example.org \"chat\"");
  EXPECT_FALSE(parse_scale_target("deployment/chat")->is_ordered);
  EXPECT_TRUE(parse_scale_target("statefulset/chat")->is_ordered);
  EXPECT_TRUE(parse_scale_target("leaderworkerset/chat")->is_ordered);
  EXPECT_TRUE(parse_scale_target("apps/v1/statefulsets/chat")->is_ordered);
  EXPECT_TRUE(is_same(*parse_scale_target("apps/v1/deployments/chat"), *parse_scale_target("deployment/chat")));
  for (const char* wrong : {"", "chat", "deployment/", "deployment/Chat", "pod/chat", "a/b/c", "a//c/d", "a/b/c/d/e"})
    EXPECT_FALSE(parse_scale_target(wrong)) << wrong;
}

TEST(ScaleTarget, AComponentOfADynamoGraphDeploymentHasItsOwnReplicasAndAnAdapter) {
  const ScaleTarget target = *parse_scale_target("dynamographdeployment/g/VllmDecode");
  EXPECT_EQ(to_string(target), "dynamographdeployments.nvidia.com \"g\" component \"VllmDecode\"");
  EXPECT_EQ(to_string(adapter_of(target)), "dynamographdeploymentscalingadapters.nvidia.com \"g-vllmdecode\"");
  EXPECT_EQ(adapter_of(*parse_scale_target("nvidia.com/v1alpha1/dynamographdeployments/g/d")).resource.version,
            "v1alpha1");
  EXPECT_EQ(kind_of(target), "DynamoGraphDeployment");
  EXPECT_TRUE(is_same(target, *parse_scale_target("dynamographdeploymentscalingadapter/g-vllmdecode")));
  EXPECT_TRUE(is_same(*parse_scale_target("dynamographdeploymentscalingadapter/g-vllmdecode"), target));
  EXPECT_FALSE(is_same(target, *parse_scale_target("dynamographdeployment/g/VllmPrefill")));
  EXPECT_EQ(pod_selector(target, ""),
            "nvidia.com/dynamo-graph-deployment-name=g,nvidia.com/dynamo-component=VllmDecode");
  const auto without = parse_scale_target("dynamographdeployment/g");
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().message().find("dynamographdeployment/g/COMPONENT"), std::string::npos);
  for (const char* wrong : {"deployment/g/decode", "dynamographdeployment/g/", "dynamographdeployment/g/a b"})
    EXPECT_FALSE(parse_scale_target(wrong)) << wrong;
}

TEST(ScaleTarget, ComponentsAreReadAndPatchedInBothVersions) {
  const auto written = [](const char* manager, Json spec) {
    return Json{{"manager", manager}, {"time", "2026-11-22T13:26:21Z"}, {"fieldsV1", {{"f:spec", std::move(spec)}}}};
  };
  const Json replicas{{"f:replicas", Json::object()}};
  const ScaledObject beta =
      parse_scaled_object({{"metadata",
                            {{"resourceVersion", "7"},
                             {"managedFields",
                              {written("kubectl", {{"f:components", {{R"(k:{"name":"decode"})", replicas}}}}),
                               written("helm", {{"f:components", {{R"(k:{"name":"prefill"})", replicas}}}})}}}},
                           {"spec", {{"components", {{{"name", "prefill"}}, {{"name", "decode"}, {"replicas", 3}}}}}}});
  const ScaleTarget target = *parse_scale_target("dynamographdeployment/g/decode");
  EXPECT_EQ(component_scale(target, beta)->replicas, 3U);
  EXPECT_EQ(component_scale(target, beta)->resource_version, "7");
  EXPECT_EQ(beta.components.at("prefill").replicas, 1U) << "as Dynamo's operator takes it";
  EXPECT_EQ(writers_of(target, beta), std::vector<std::string>{"kubectl"});
  const ApiCall patch = set_component_call(target, "prod", beta, 4);
  EXPECT_EQ(target_of(patch),
            "/apis/nvidia.com/v1beta1/namespaces/prod/dynamographdeployments/g?fieldManager=penstock");
  EXPECT_EQ(patch.content_type, "application/json-patch+json");
  EXPECT_EQ(patch.body, R"([{"op":"replace","path":"/metadata/resourceVersion","value":"7"},)"
                        R"({"op":"add","path":"/spec/components/1/replicas","value":4}])");

  const ScaleTarget old = *parse_scale_target("nvidia.com/v1alpha1/dynamographdeployments/g/Decode");
  const ScaledObject alpha =
      parse_scaled_object({{"metadata",
                            {{"resourceVersion", "8"},
                             {"managedFields", {written("kubectl", {{"f:services", {{"f:Decode", replicas}}}})}}}},
                           {"spec", {{"services", {{"Decode", {{"replicas", 2}}}}}}}});
  EXPECT_EQ(component_scale(old, alpha)->replicas, 2U);
  EXPECT_EQ(writers_of(old, alpha), std::vector<std::string>{"kubectl"});
  EXPECT_EQ(set_component_call(old, "prod", alpha, 4).body,
            R"({"metadata":{"resourceVersion":"8"},"spec":{"services":{"Decode":{"replicas":4}}}})");
  EXPECT_FALSE(component_scale(target, alpha));
  for (const Json& odd : {Json{{"spec", {{"components", "x"}}}}, Json{{"spec", {{"components", {1, "x"}}}}},
                          Json{{"spec", {{"services", {{"a", 1}}}}}}})
    EXPECT_LE(parse_scaled_object(odd).components.size(), 1U);
}

TEST(ScaleTarget, AllPodsOfALeaderWorkerSetAreSelected) {
  EXPECT_EQ(pod_selector(*parse_scale_target("leaderworkerset/chat"), "leaders=only"),
            "leaderworkerset.sigs.k8s.io/name=chat");
  EXPECT_EQ(pod_selector(*parse_scale_target("deployment/chat"), "app=chat"), "app=chat");
  EXPECT_EQ(parse_scaled_object({{"spec", {{"ordinals", {{"start", 3}}}}}}).first_ordinal, 3);
}

TEST(ScaleTarget, NamesTheManagersOfItsReplicasByTime) {
  const auto fields = [](const char* manager, const char* time, bool has_replicas) {
    Json spec = has_replicas ? Json{{"f:replicas", Json::object()}} : Json{{"f:template", Json::object()}};
    return Json{{"manager", manager}, {"time", time}, {"fieldsV1", {{"f:spec", std::move(spec)}}}};
  };
  const ScaledObject object = parse_scaled_object(
      {{"metadata",
        {{"resourceVersion", "7"},
         {"managedFields",
          {fields("kubectl", "2026-11-22T13:26:22Z", true), fields("helm", "2026-11-22T13:26:23Z", false),
           fields("penstock", "2026-11-22T13:26:21Z", true)}}}}});
  EXPECT_EQ(object.version, "7");
  EXPECT_EQ(object.writers, (std::vector<std::string>{"penstock", "kubectl"}));
  EXPECT_EQ(object.last_writer, "helm");
}

TEST(ScaleTarget, NamesTheLastManagerWhichIsNotTheControllerThatAnswersIt) {
  const auto last = [](std::initializer_list<Json> fields) {
    return parse_scaled_object({{"metadata", {{"managedFields", fields}}}}).last_writer;
  };
  const Json client{{"manager", "client"}, {"time", "2026-11-22T13:26:22Z"}};
  Json status{{"manager", "controller"}, {"time", "2026-11-22T13:26:22Z"}, {"subresource", "status"}};
  EXPECT_EQ(last({client, status}), "client");
  EXPECT_EQ(last({client, {{"manager", "penstock"}, {"time", "2026-11-22T13:26:23Z"}}}), "client");
  status["time"] = "2026-11-22T13:26:23Z";
  EXPECT_EQ(last({client, status}), "controller");
  EXPECT_EQ(last({}), "");
}

TEST(ScaleTarget, AnAutoscalerOfTheTargetHasTheNameOfItsOwner) {
  Json hpa{{"metadata", {{"name", "keda-hpa-chat"}}},
           {"spec", {{"scaleTargetRef", {{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"name", "chat"}}}}}};
  EXPECT_EQ(parse_horizontal_autoscaler(hpa).title, "HorizontalPodAutoscaler \"keda-hpa-chat\"");
  hpa["metadata"]["ownerReferences"] = {{{"kind", "ScaledObject"}, {"name", "chat"}}};
  const HorizontalAutoscaler parsed = parse_horizontal_autoscaler(hpa);
  EXPECT_EQ(parsed.title, "ScaledObject \"chat\"");
  EXPECT_TRUE(scales(parsed, *parse_scale_target("deployment/chat")));
  EXPECT_FALSE(scales(parsed, *parse_scale_target("statefulset/chat")));
  EXPECT_FALSE(scales(parsed, *parse_scale_target("deployment/other")));
  EXPECT_FALSE(scales(parsed, *parse_scale_target("example.org/v1/deployments/chat")));
}

TEST(ScaleTarget, ABudgetSelectsByLabelsAndExpressions) {
  const auto budget = [](const Json& selector) {
    return parse_disruption_budget({{"metadata", {{"name", "b"}, {"resourceVersion", "3"}}},
                                    {"spec", {{"selector", selector}}},
                                    {"status", {{"disruptionsAllowed", 2}}}});
  };
  const DisruptionBudget made = budget(
      {{"matchLabels", {{"app", "chat"}}},
       {"matchExpressions",
        {{{"key", "zone"}, {"operator", "NotIn"}, {"values", {"a", "b"}}}, {{"key", "gpu"}, {"operator", "Exists"}}}}});
  EXPECT_EQ(made.allowed, 2U);
  EXPECT_TRUE(made.selector.selects({{"app", "chat"}, {"gpu", "1"}, {"zone", "c"}}));
  EXPECT_FALSE(made.selector.selects({{"app", "chat"}, {"gpu", "1"}, {"zone", "a"}}));
  EXPECT_FALSE(made.selector.selects({{"app", "chat"}}));
  EXPECT_TRUE(budget(Json::object()).selector.selects({{"app", "any"}})) << "an empty selector selects all pods";
  EXPECT_FALSE(budget(Json::object()).selects_none);
  EXPECT_TRUE(budget(nullptr).selects_none) << "without a selector it selects none";
}

TEST(Pods, AreReadWithMarksTimesAndWhyTheyCannotStart) {
  const PodState pod = parse_pod(
      {{"metadata",
        {{"name", "chat-1"},
         {"uid", "u"},
         {"creationTimestamp", "2026-11-22T13:26:21Z"},
         {"labels", {{"app", "chat"}, {"pod-template-hash", "abc"}}},
         {"annotations", {{kDrainAnnotation, "true"}, {"controller.kubernetes.io/pod-deletion-cost", "-1000000000"}}}}},
       {"spec", {{"nodeName", "n"}}},
       {"status",
        {{"phase", "Running"},
         {"podIP", "10.0.0.1"},
         {"conditions", {{{"type", "Ready"}, {"status", "True"}, {"lastTransitionTime", "2026-11-22T13:27:21Z"}}}},
         {"containerStatuses", {{{"restartCount", 2}, {"state", {{"running", Json::object()}}}}}}}}});
  EXPECT_TRUE(pod.is_ready && pod.is_marked && !pod.is_terminating && !pod.has_ended);
  EXPECT_EQ(pod.deletion_cost, -1'000'000'000);
  EXPECT_EQ(*pod.ready_s - *pod.created_s, 60);
  EXPECT_EQ(pod.revision, "abc");
  EXPECT_EQ(pod.restarts, 2);
  EXPECT_EQ(pod.blocked_by, "");

  const PodState pending = parse_pod(
      {{"metadata", {{"name", "chat-2"}}},
       {"status",
        {{"phase", "Pending"},
         {"conditions",
          {{{"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}, {"message", "no GPU"}}}}}}});
  EXPECT_EQ(pending.blocked_by, "Unschedulable: no GPU");
  EXPECT_EQ(pending.node, "");
  const auto waiting = [](const char* list, const char* reason) {
    const PodState read =
        parse_pod({{"status", {{list, {{{"restartCount", 3}, {"state", {{"waiting", {{"reason", reason}}}}}}}}}}});
    return fmt::format("{}, {} restarts", read.blocked_by, read.restarts);
  };
  EXPECT_EQ(waiting("containerStatuses", "CrashLoopBackOff"), "CrashLoopBackOff, 3 restarts");
  EXPECT_EQ(waiting("containerStatuses", "ContainerCreating"), ", 3 restarts");
  EXPECT_EQ(waiting("initContainerStatuses", "ImagePullBackOff"), "ImagePullBackOff, 0 restarts")
      << "the restarts are those of the engine";
  for (const Json& odd : {Json{}, Json{1, 2}, Json("x"), Json{{"metadata", "x"}, {"status", {{"conditions", 7}}}}})
    EXPECT_EQ(parse_pod(odd).name, "");
}

TEST(Pods, AMarkIsOneMergePatchOfTheSamePod) {
  const PodIdentity pod{"chat-1", "u", "n"};
  const ApiCall mark = mark_pod_call("prod", pod, -5), unmark = mark_pod_call("prod", pod, std::nullopt);
  EXPECT_EQ(target_of(mark), "/api/v1/namespaces/prod/pods/chat-1?fieldManager=penstock");
  EXPECT_EQ(mark.content_type, "application/merge-patch+json");
  EXPECT_EQ(mark.body,
            R"({"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-5","penstock/draining":)"
            R"("true"},"uid":"u"}})");
  EXPECT_EQ(unmark.body,
            R"({"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":null,"penstock/draining":)"
            R"(null},"uid":"u"}})");
}

}  // namespace
}  // namespace penstock::connect
