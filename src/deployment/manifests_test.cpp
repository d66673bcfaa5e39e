#include "deployment/manifests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace penstock::deployment {
namespace {

using Json = nlohmann::ordered_json;

template <class Manifest>
Manifest with_names() {
  Manifest made;
  made.name = "gw";
  made.in_namespace = "llm";
  made.image = "penstock:1";
  made.configuration = "slo: {ttft: 1s}\n";
  return made;
}

const Json& find(const std::vector<Json>& objects, const std::string& kind) {
  static const Json none;
  const auto at = std::find_if(objects.begin(), objects.end(), [&](const Json& each) { return each["kind"] == kind; });
  return at == objects.end() ? none : *at;
}
Json pod_of(const std::vector<Json>& objects) { return find(objects, "Deployment")["spec"]["template"]["spec"]; }

TEST(Manifests, ContainersMayDoNothingThatTheyNeedNotDo) {
  const Json pod = pod_of(manifests_of(with_names<GatewayManifest>()));
  EXPECT_EQ(pod["securityContext"]["runAsUser"], 65532);
  EXPECT_EQ(pod["securityContext"]["runAsNonRoot"], true);
  EXPECT_EQ(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
  const Json security = pod["containers"][0]["securityContext"];
  EXPECT_EQ(security["readOnlyRootFilesystem"], true);
  EXPECT_EQ(security["allowPrivilegeEscalation"], false);
  EXPECT_EQ(security["capabilities"], (Json{{"drop", {"ALL"}}}));
}

TEST(Manifests, TheGraceEndsAfterTheDrain) {
  auto gateway = with_names<GatewayManifest>();
  gateway.drain_time_s = 600;
  EXPECT_EQ(pod_of(manifests_of(gateway))["terminationGracePeriodSeconds"], 605);
}

TEST(Manifests, AProgramWithoutPermissionsHasNoTokenAndNoRole) {
  const auto objects = manifests_of(with_names<GatewayManifest>());
  EXPECT_TRUE(find(objects, "Role").is_null());
  EXPECT_EQ(pod_of(objects)["automountServiceAccountToken"], false);
}

TEST(Manifests, AnEndpointPickerIsAPortOfTheService) {
  auto gateway = with_names<GatewayManifest>();
  gateway.picker_port = 9002;
  for (const bool has_tls : {true, false}) {
    gateway.picker_has_tls = has_tls;
    const auto objects = manifests_of(gateway);
    const Json& port = find(objects, "Service")["spec"]["ports"].at(1);
    EXPECT_EQ(port["name"], "grpc-ext-proc");
    EXPECT_EQ(port["port"], 9002);
    EXPECT_EQ(port.value("appProtocol", ""), has_tls ? "" : "kubernetes.io/h2c");
    EXPECT_NE(pod_of(objects)["containers"][0]["args"].dump().find(R"("--endpoint-picker-listen",":9002")"),
              std::string::npos);
  }
}

TEST(Manifests, ARoleIsInTheNamespaceOfItsResources) {
  auto gateway = with_names<GatewayManifest>();
  gateway.access = gateway_access("engines");
  const auto objects = manifests_of(gateway);
  EXPECT_EQ(find(objects, "Role")["metadata"]["namespace"], "engines");
  EXPECT_EQ(find(objects, "Role")["rules"].dump(),
            R"([{"apiGroups":[""],"resources":["pods"],"verbs":["list","watch"]}])");
  const Json& binding = find(objects, "RoleBinding");
  EXPECT_EQ(binding["metadata"]["namespace"], "engines");
  EXPECT_EQ(binding["subjects"].dump(), R"([{"kind":"ServiceAccount","name":"gw","namespace":"llm"}])");
  EXPECT_EQ(pod_of(objects)["automountServiceAccountToken"], true);
}

TEST(Manifests, ProgramsOfSeveralNamespacesHaveRolesOfTheirOwnInThatOfTheEngines) {
  const auto names_of = [](const std::string& in_namespace, const std::string& engines) {
    auto gateway = with_names<GatewayManifest>();
    gateway.in_namespace = in_namespace;
    gateway.access = gateway_access(engines);
    const auto objects = manifests_of(gateway);
    EXPECT_EQ(find(objects, "RoleBinding")["roleRef"]["name"], find(objects, "Role")["metadata"]["name"]);
    EXPECT_EQ(find(objects, "RoleBinding")["metadata"]["name"], find(objects, "Role")["metadata"]["name"]);
    return find(objects, "Role")["metadata"]["name"].get<std::string>();
  };
  EXPECT_EQ(names_of("llm", "llm"), "gw");
  EXPECT_EQ(names_of("llm", "engines"), "llm-gw");
  EXPECT_EQ(names_of("staging", "engines"), "staging-gw");
}

TEST(Manifests, AConfigurationWithKeysIsASecret) {
  auto gateway = with_names<GatewayManifest>();
  EXPECT_EQ(find(manifests_of(gateway), "ConfigMap")["data"]["penstock.yaml"], gateway.configuration);
  gateway.configuration_is_secret = true;
  const auto objects = manifests_of(gateway);
  EXPECT_TRUE(find(objects, "ConfigMap").is_null());
  EXPECT_EQ(find(objects, "Secret")["stringData"]["penstock.yaml"], gateway.configuration);
  EXPECT_EQ(pod_of(objects)["volumes"][0]["secret"]["secretName"], "gw");
}

TEST(Manifests, ALedgerOutlivesThePodAndHasOneWriter) {
  auto gateway = with_names<GatewayManifest>();
  gateway.keeps_ledger = true;
  const auto objects = manifests_of(gateway);
  EXPECT_FALSE(find(objects, "PersistentVolumeClaim").is_null());
  EXPECT_EQ(find(objects, "Deployment")["spec"]["strategy"]["type"], "Recreate");
}

const Json& service_of(const std::vector<Json>& objects, const std::string& name) {
  static const Json none;
  const auto at = std::find_if(objects.begin(), objects.end(), [&](const Json& each) {
    return each["kind"] == "Service" && each["metadata"]["name"] == name;
  });
  return at == objects.end() ? none : *at;
}

TEST(Manifests, AnAdminAddressIsThatOfEachPod) {
  const auto objects = manifests_of(with_names<GatewayManifest>());
  const Json& spec = service_of(objects, "gw-admin")["spec"];
  EXPECT_EQ(spec["clusterIP"], "None");
  EXPECT_EQ(spec["publishNotReadyAddresses"], true);
  EXPECT_EQ(spec["ports"][0]["port"], 8081) << "a name of pods leads to their own port";
  EXPECT_FALSE(service_of(objects, "gw")["spec"].contains("clusterIP"));
}

TEST(Manifests, SeveralGatewaysAreSpreadAndHaveALedgerEach) {
  auto gateway = with_names<GatewayManifest>();
  gateway.keeps_ledger = true;
  EXPECT_FALSE(pod_of(manifests_of(gateway)).contains("topologySpreadConstraints"));
  gateway.replicas = 3;
  const auto objects = manifests_of(gateway);
  const Json& spec = find(objects, "Deployment")["spec"];
  EXPECT_EQ(spec["replicas"], 3);
  EXPECT_EQ(spec["strategy"]["type"], "RollingUpdate");
  EXPECT_TRUE(find(objects, "PersistentVolumeClaim").is_null()) << "a claim has one writer";
  EXPECT_TRUE(pod_of(objects)["volumes"][1].contains("emptyDir"));
  const Json constraint = pod_of(objects)["topologySpreadConstraints"][0];
  EXPECT_EQ(constraint["whenUnsatisfiable"], "ScheduleAnyway");
  EXPECT_EQ(constraint["labelSelector"]["matchLabels"], spec["selector"]["matchLabels"]);
  EXPECT_EQ(find(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
}

TEST(Manifests, EachOfSeveralGatewaysCanKeepItsLedger) {
  auto gateway = with_names<GatewayManifest>();
  gateway.keeps_ledger = gateway.has_ledger_claims = true;
  gateway.replicas = 3;
  const auto objects = manifests_of(gateway);
  EXPECT_TRUE(find(objects, "Deployment").is_null());
  EXPECT_TRUE(find(objects, "PersistentVolumeClaim").is_null());
  const Json& spec = find(objects, "StatefulSet")["spec"];
  EXPECT_EQ(spec["replicas"], 3);
  EXPECT_EQ(spec["serviceName"], "gw-admin");
  EXPECT_EQ(spec["volumeClaimTemplates"][0]["metadata"]["name"], "state");
  const Json& pod = spec["template"]["spec"];
  EXPECT_EQ(pod["containers"][0]["volumeMounts"][1]["name"], "state") << "the mount of the claim";
  for (const Json& volume : pod["volumes"]) EXPECT_NE(volume["name"], "state");
  EXPECT_EQ(pod["topologySpreadConstraints"].size(), 1U);
}

TEST(Manifests, AutoscalersFollowEachChange) {
  auto planner = with_names<PlannerManifest>();
  planner.targets = {{"chat", "apps/v1", "Deployment", "chat", "llm", 1, 16}};
  planner.autoscaler = Autoscaler::kHpa;
  const Json hpa = find(manifests_of(planner), "HorizontalPodAutoscaler")["spec"];
  planner.autoscaler = Autoscaler::kKeda;
  const Json keda = find(manifests_of(planner), "ScaledObject")["spec"];
  for (const Json& behaviour : {hpa["behavior"], keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]})
    for (const char* direction : {"scaleUp", "scaleDown"}) {
      EXPECT_EQ(behaviour[direction]["tolerance"], "0");
      EXPECT_EQ(behaviour[direction]["stabilizationWindowSeconds"], 0);
      EXPECT_EQ(behaviour[direction]["policies"].dump(), R"([{"type":"Pods","value":16,"periodSeconds":1}])")
          << "the whole way in one step";
    }
  EXPECT_EQ(keda["triggers"][0]["metadata"]["scalerAddress"], "gw.llm.svc:9090");
  EXPECT_EQ(hpa["maxReplicas"], 16);
}

TEST(Manifests, TheApiServiceTrustsTheCa) {
  auto planner = with_names<PlannerManifest>();
  planner.autoscaler = Autoscaler::kHpa;
  for (const auto& [text, base64] :
       {std::pair{"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"\xff\xfe\xfd\xfc", "//79/A=="}}) {
    planner.ca_bundle = text;
    EXPECT_EQ(find(manifests_of(planner), "APIService")["spec"]["caBundle"], base64);
  }
}

TEST(Manifests, APlannerMayScaleItsTargetsOnly) {
  const auto rules = scaling_access("llm", {{"apps", "deployments", "a"}, {"apps", "deployments", "b"}});
  ASSERT_EQ(rules.size(), 6U);
  EXPECT_EQ(
      role_line(rules[1]),
      R"({apiGroups: ["apps"], resources: ["deployments/scale"], resourceNames: ["a", "b"], verbs: ["get", "patch"]})");
  EXPECT_TRUE(scaling_access("llm", {}).empty());
}

TEST(Manifests, APlannerReadsReplicaSetsOnlyWherePodsChangeTheirRole) {
  ScaledResource target{"apps", "deployments", "a"};
  EXPECT_EQ(scaling_access("llm", {target}).size(), 6U);
  target.gives_pods = true;
  const auto rules = scaling_access("llm", {target});
  ASSERT_EQ(rules.size(), 7U);
  EXPECT_EQ(role_line(rules[3]), R"({apiGroups: ["apps"], resources: ["replicasets"], verbs: ["list", "watch"]})");
}

TEST(Manifests, ASinglePlannerHasALeaseAndKeepsWhatItLearnedInAConfigMap) {
  const auto objects = manifests_of(with_names<PlannerManifest>());
  const Json& spec = find(objects, "Deployment")["spec"];
  EXPECT_EQ(spec["replicas"], 1);
  EXPECT_EQ(spec["strategy"]["type"], "RollingUpdate");
  EXPECT_EQ(pod_of(objects)["automountServiceAccountToken"], true);
  const std::string arguments = pod_of(objects)["containers"][0]["args"].dump();
  EXPECT_NE(arguments.find(R"("--leader-election","llm/gw","--state-config-map","llm/gw-state")"), std::string::npos)
      << arguments;
}

TEST(Manifests, OfSeveralPlannersOneLeadsAndAllAreReady) {
  auto planner = with_names<PlannerManifest>();
  planner.replicas = 2;
  planner.access = leader_election_access("llm", "gw", "gw-state");
  const auto objects = manifests_of(planner);
  const Json& spec = find(objects, "Deployment")["spec"];
  EXPECT_EQ(spec["replicas"], 2);
  EXPECT_EQ(spec["strategy"]["type"], "RollingUpdate");
  const Json container = pod_of(objects)["containers"][0];
  EXPECT_EQ(container["readinessProbe"]["httpGet"]["path"], "/ready");
  EXPECT_EQ(container["livenessProbe"]["httpGet"]["path"], "/health");
  const std::string arguments = container["args"].dump();
  EXPECT_NE(arguments.find(R"("--leader-election","llm/gw","--state-config-map","llm/gw-state")"), std::string::npos)
      << arguments;
  EXPECT_EQ(
      find(objects, "Role")["rules"].dump(),
      R"([{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["create"]},)"
      R"({"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["gw"],"verbs":["get","update"]},)"
      R"({"apiGroups":[""],"resources":["configmaps"],"verbs":["create"]},)"
      R"({"apiGroups":[""],"resources":["configmaps"],"resourceNames":["gw-state"],"verbs":["get","patch"]},)"
      R"({"apiGroups":["events.k8s.io"],"resources":["events"],"verbs":["create","patch"]}])");
}

TEST(Manifests, APlannerMayPatchObjectsWithoutAScale) {
  const auto rules = scaling_access("llm", {{"nvidia.com", "dynamographdeployments", "g", false},
                                            {"nvidia.com", "dynamographdeployments", "g", false},
                                            {"nvidia.com", "dynamographdeploymentscalingadapters", "g-d"}});
  ASSERT_EQ(rules.size(), 8U);
  EXPECT_EQ(
      role_line(rules[1]),
      R"({apiGroups: ["nvidia.com"], resources: ["dynamographdeployments"], resourceNames: ["g"], verbs: ["patch"]})");
  EXPECT_EQ(rules[3].resource, "dynamographdeploymentscalingadapters/scale");
}

TEST(Manifests, ARuleIsShownAsALineOfARole) {
  EXPECT_EQ(role_line(gateway_access("a")[0]), R"({apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"]})");
  EXPECT_EQ(role_line(gateway_access("a", {true, false, "chat", "inference.networking.k8s.io"}).at(1)),
            R"({apiGroups: ["inference.networking.k8s.io"], resources: ["inferencepools"], resourceNames: ["chat"], )"
            R"(verbs: ["list", "watch"]})");
  const auto rules = gateway_access("a", {false, true});
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(role_line(rules[0]),
            R"({apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"]})");
}

TEST(Manifests, TheEnginesAreScrapedThroughThePlannerOnly) {
  auto planner = with_names<PlannerManifest>();
  planner.pod_monitor = true;
  auto gateway = with_names<GatewayManifest>();
  gateway.pod_monitor = true;
  const auto paths_of = [](const std::vector<Json>& objects) {
    std::vector<std::string> paths;
    for (const Json& endpoint : find(objects, "PodMonitor")["spec"]["podMetricsEndpoints"])
      paths.push_back(endpoint["path"]);
    return paths;
  };
  EXPECT_EQ(paths_of(manifests_of(planner)), (std::vector<std::string>{"/metrics", "/metrics/engines"}));
  EXPECT_EQ(paths_of(manifests_of(gateway)), std::vector<std::string>{"/metrics"});
}

TEST(Manifests, PrometheusVerifiesTheAdminAddressWithTheCaOfTheSecret) {
  auto gateway = with_names<GatewayManifest>();
  gateway.pod_monitor = gateway.admin_has_tls = true;
  gateway.metrics_ca_key = "ca.crt";
  const auto tls_of = [](const std::vector<Json>& objects) {
    return find(objects, "PodMonitor")["spec"]["podMetricsEndpoints"][0]["tlsConfig"];
  };
  EXPECT_EQ(tls_of(manifests_of(gateway))["ca"]["secret"].dump(), R"({"name":"gw-secrets","key":"ca.crt"})");
  gateway.metrics_ca_key.clear();
  EXPECT_FALSE(tls_of(manifests_of(gateway)).contains("ca"));
}

TEST(Manifests, ThePrometheusRuleHasTheEmbeddedRulesAsItsSpec) {
  const std::string text = prometheus_rule_of(with_names<PlannerManifest>(), {});
  EXPECT_TRUE(text.starts_with("apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: gw\n"))
      << text.substr(0, 200);
  EXPECT_NE(text.find("\nspec:\n  # Recording and alerting rules"), std::string::npos);
  EXPECT_NE(text.find("\n  groups:\n    - name: penstock-recording\n"), std::string::npos);
  EXPECT_NE(text.find("{{ $labels.pool }}"), std::string::npos);
}

}  // namespace
}  // namespace penstock::deployment
