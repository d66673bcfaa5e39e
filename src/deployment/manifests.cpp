#include "deployment/manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "deployment/assets.h"
#include "deployment/objects.h"
#include "deployment/yaml_text.h"

namespace penstock::deployment {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint16_t kMetricsPort = 6443;
constexpr std::uint32_t kSecretMode = 0440;
constexpr std::int64_t kSettleTime = 5;  // Seconds after the drain in which requests that were cut are settled.
constexpr const char* kMetric = "penstock_target_replicas";
constexpr const char* kExternalMetrics = "external.metrics.k8s.io";
constexpr const char* kMonitoring = "monitoring.coreos.com/v1";
constexpr const char* kPickerPort = "grpc-ext-proc";
constexpr const char* kRbac = "rbac.authorization.k8s.io";

// RFC 4648, section 4, as caBundle has it.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string made;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = i; k < i + 3; ++k)
      group = group << 8U | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) made += i + k <= bytes.size() ? kDigits[group >> (18U - 6U * k) & 63U] : '=';
  }
  return made;
}

Json labels_of(const std::string& name, const char* component) {
  return {{"app.kubernetes.io/name", "penstock"},
          {"app.kubernetes.io/instance", name},
          {"app.kubernetes.io/component", component}};
}

Json claim_of_ledger() {
  return {{"accessModes", {"ReadWriteOnce"}}, {"resources", {{"requests", {{"storage", "10Gi"}}}}}};
}

std::string memory_text(std::uint64_t mib) {
  return mib % 1024 == 0 ? fmt::format("{}Gi", mib / 1024) : fmt::format("{}Mi", mib);
}

// The objects of one program, in the order in which they are created.
class Objects {
 public:
  Objects(const ProgramManifest& program, const char* component)
      : program_{program}, labels_(labels_of(program.name, component)), selector_(labels_) {
    selector_.erase("app.kubernetes.io/component");
  }

  Json& add(const char* api_version, const char* kind, const std::string& name, const std::string& in_namespace) {
    return all_.emplace_back(object_of(api_version, kind, name, in_namespace, labels_));
  }
  Json& add(const char* api_version, const char* kind, const std::string& suffix = {}) {
    return add(api_version, kind, program_.name + suffix, program_.in_namespace);
  }

  void add_account() {
    add("v1", "ServiceAccount")["automountServiceAccountToken"] = false;
    std::map<std::string, Json> rules;
    for (const AccessRule& rule : program_.access) {
      Json made{{"apiGroups", {rule.group}}, {"resources", {rule.resource}}};
      if (!rule.names.empty()) made["resourceNames"] = rule.names;
      made["verbs"] = rule.verbs;
      rules[rule.in_namespace].push_back(std::move(made));
    }
    for (auto& [in_namespace, list] : rules) {
      const bool of_cluster = in_namespace.empty();
      // A name elsewhere contains the namespace, because others may have the same program.
      const bool is_own = in_namespace == program_.in_namespace;
      const std::string name = is_own ? program_.name : program_.in_namespace + "-" + program_.name;
      const std::string role = kRbac + std::string{"/v1"};
      add(role.c_str(), of_cluster ? "ClusterRole" : "Role", name, in_namespace)["rules"] = std::move(list);
      bind(of_cluster ? "ClusterRole" : "Role", name, name, in_namespace);
    }
  }
  // Gives the account a role in a namespace, or in the whole cluster if that is empty.
  void bind(const char* kind, const std::string& role, const std::string& name, const std::string& in_namespace) {
    const std::string version = kRbac + std::string{"/v1"};
    Json& binding =
        add(version.c_str(), in_namespace.empty() ? "ClusterRoleBinding" : "RoleBinding", name, in_namespace);
    binding["roleRef"] = {{"apiGroup", kRbac}, {"kind", kind}, {"name", role}};
    binding["subjects"] =
        Json::array({{{"kind", "ServiceAccount"}, {"name", program_.name}, {"namespace", program_.in_namespace}}});
  }

  void add_configuration() {
    Json& object = add("v1", program_.configuration_is_secret ? "Secret" : "ConfigMap");
    object[program_.configuration_is_secret ? "stringData" : "data"] = {{"penstock.yaml", program_.configuration}};
  }

  Json& add_service(const std::string& suffix, const Json& ports) {
    Json& service = add("v1", "Service", suffix);
    service["spec"] = {{"selector", selector_}, {"ports", ports}};
    return service;
  }

  // Its name has the addresses of all pods, also of those that are not ready or that end.
  void add_headless_service(const std::string& suffix, const Json& ports) {
    Json& spec = add_service(suffix, ports)["spec"];
    spec["clusterIP"] = "None";
    spec["publishNotReadyAddresses"] = true;
  }

  void add_disruption_budget() {
    // With one replica this allows its eviction, which a minimum of 1 would prevent for ever.
    add("policy/v1", "PodDisruptionBudget")["spec"] = {{"maxUnavailable", 1},
                                                       {"selector", {{"matchLabels", selector_}}}};
  }

  void add_pod_monitor(const char* port, bool has_tls, std::initializer_list<const char*> paths) {
    if (!program_.pod_monitor) return;
    Json endpoints = Json::array();
    for (const char* path : paths) {
      Json& endpoint = endpoints.emplace_back(Json{{"port", port}, {"path", path}, {"interval", "15s"}});
      if (has_tls) {
        endpoint["scheme"] = "https";
        // Prometheus scrapes by address, which certificates of Services do not contain.
        endpoint["tlsConfig"] = {{"serverName", program_.name + "-admin." + program_.in_namespace + ".svc"}};
        if (!program_.metrics_ca_key.empty())
          endpoint["tlsConfig"]["ca"]["secret"] = secret_key(program_.metrics_ca_key);
      }
      if (!program_.metrics_token_key.empty())
        endpoint["authorization"] = {{"credentials", secret_key(program_.metrics_token_key)}};
    }
    add(kMonitoring, "PodMonitor")["spec"] = {{"selector", {{"matchLabels", selector_}}},
                                              {"podMetricsEndpoints", std::move(endpoints)}};
  }

  struct Shape {
    std::uint32_t replicas = 1;
    bool replaces = false;    // The old pod ends before the new one starts.
    bool has_claims = false;  // Each pod keeps its state in a claim of its own: a StatefulSet.
    std::int64_t grace_s = 0;
    bool calls_api_server = false;
  };
  // `state` is the volume of kStateFolder, unless pods have claims.
  void add_deployment(const Shape& shape, Json container, Json state) {
    Json environment = Json::array();
    for (const std::string& variable : program_.variables)
      environment.push_back({{"name", variable}, {"valueFrom", {{"secretKeyRef", secret_key(variable)}}}});
    if (!environment.empty()) container["env"] = std::move(environment);
    container["securityContext"] = {
        {"allowPrivilegeEscalation", false}, {"readOnlyRootFilesystem", true}, {"capabilities", {{"drop", {"ALL"}}}}};
    Json mounts = Json::array({{{"name", "configuration"}, {"mountPath", "/etc/penstock"}, {"readOnly", true}},
                               {{"name", "state"}, {"mountPath", kStateFolder}},
                               {{"name", "tmp"}, {"mountPath", "/tmp"}}});
    Json configuration{{"name", "configuration"}};
    if (program_.configuration_is_secret)
      configuration["secret"] = {{"secretName", program_.name}, {"defaultMode", kSecretMode}};
    else
      configuration["configMap"] = {{"name", program_.name}};
    Json volumes = Json::array({configuration});
    state["name"] = "state";
    if (!shape.has_claims) volumes.push_back(std::move(state));
    volumes.push_back({{"name", "tmp"}, {"emptyDir", {{"sizeLimit", "64Mi"}}}});
    if (program_.mounts_secrets) {
      mounts.push_back({{"name", "secrets"}, {"mountPath", kSecretsFolder}, {"readOnly", true}});
      volumes.push_back({{"name", "secrets"},
                         {"secret", {{"secretName", program_.name + "-secrets"}, {"defaultMode", kSecretMode}}}});
    }
    container["volumeMounts"] = std::move(mounts);

    Json pod{{"serviceAccountName", program_.name},
             {"automountServiceAccountToken", shape.calls_api_server},
             {"terminationGracePeriodSeconds", shape.grace_s},
             {"securityContext",
              {{"runAsNonRoot", true},
               {"runAsUser", kUser},
               {"runAsGroup", kUser},
               {"fsGroup", kUser},
               {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
             {"containers", Json::array({std::move(container)})},
             {"volumes", std::move(volumes)}};
    if (shape.replicas > 1)  // The loss of a node should not end all of them.
      pod["topologySpreadConstraints"] = Json::array({{{"maxSkew", 1},
                                                       {"topologyKey", "kubernetes.io/hostname"},
                                                       {"whenUnsatisfiable", "ScheduleAnyway"},
                                                       {"labelSelector", {{"matchLabels", selector_}}}}});
    Json pods{{"metadata", {{"labels", labels_}}}, {"spec", std::move(pod)}};
    if (shape.has_claims) {
      add("apps/v1", "StatefulSet")["spec"] = {
          {"replicas", shape.replicas},
          {"serviceName", program_.name + "-admin"},
          {"podManagementPolicy", "Parallel"},
          {"selector", {{"matchLabels", selector_}}},
          {"template", std::move(pods)},
          {"volumeClaimTemplates", Json::array({{{"metadata", {{"name", "state"}}}, {"spec", claim_of_ledger()}}})}};
      return;
    }
    Json strategy{{"type", shape.replaces ? "Recreate" : "RollingUpdate"}};
    if (!shape.replaces) strategy["rollingUpdate"] = {{"maxUnavailable", 0}, {"maxSurge", 1}};
    add("apps/v1", "Deployment")["spec"] = {{"replicas", shape.replicas},
                                            {"selector", {{"matchLabels", selector_}}},
                                            {"strategy", std::move(strategy)},
                                            {"template", std::move(pods)}};
  }

  [[nodiscard]] std::vector<Json> take() { return std::move(all_); }

 private:
  [[nodiscard]] Json secret_key(const std::string& key) const {
    return {{"name", program_.name + "-secrets"}, {"key", key}};
  }

  const ProgramManifest& program_;
  const Json labels_;
  Json selector_;
  std::vector<Json> all_;
};

Json container_of(const ProgramManifest& program, const char* component, Json arguments, Json ports, Json resources) {
  for (const std::string& argument : program.arguments) arguments.push_back(argument);
  return {{"name", component},
          {"image", program.image},
          {"args", std::move(arguments)},
          {"ports", std::move(ports)},
          {"resources", std::move(resources)}};
}

// The names of a Service, which the program then accepts as its own.
std::string hosts_of(const ProgramManifest& program, const char* suffix) {
  const std::string service = program.name + suffix;
  std::string made = fmt::format("{0},{0}.{1},{0}.{1}.svc,{0}.{1}.svc.cluster.local", service, program.in_namespace);
  for (const std::string& host : program.hosts) made += "," + host;
  return made;
}

void add_scaled_object(Objects& objects, const PlannerManifest& planner, std::size_t index) {
  const ScaleTarget& target = planner.targets[index];
  ScaledObject object;
  object.target = target;
  if (index < planner.keda.size()) object.keda = planner.keda[index];
  object.scaler = scaler_address(planner.name, planner.in_namespace);
  objects.add("keda.sh/v1alpha1", "ScaledObject", target.name, target.in_namespace)["spec"] = spec_of(object);
}

void add_autoscaler(Objects& objects, const ScaleTarget& target) {
  Json metric{{"name", kMetric}, {"selector", {{"matchLabels", {{"pool", target.pool}}}}}};
  Json source{
      {"type", "External"},
      {"external", {{"metric", std::move(metric)}, {"target", {{"type", "AverageValue"}, {"averageValue", "1"}}}}}};
  objects.add("autoscaling/v2", "HorizontalPodAutoscaler", target.name, target.in_namespace)["spec"] = {
      {"scaleTargetRef", reference_of(target)},
      {"minReplicas", target.replicas_min},
      {"maxReplicas", target.replicas_max},
      {"metrics", Json::array({std::move(source)})},
      {"behavior", exact_behaviour(target)}};
}

// Registers the planner as the provider of external metrics, which the API server calls.
void add_external_metrics(Objects& objects, const PlannerManifest& planner) {
  objects.bind("ClusterRole", "system:auth-delegator", planner.in_namespace + "-" + planner.name + "-auth-delegator",
               {});
  objects.bind("Role", "extension-apiserver-authentication-reader", planner.in_namespace + "-" + planner.name,
               "kube-system");
  objects.add("apiregistration.k8s.io/v1", "APIService", std::string{"v1beta1."} + kExternalMetrics, {})["spec"] = {
      {"group", kExternalMetrics},
      {"version", "v1beta1"},
      {"service", {{"name", planner.name}, {"namespace", planner.in_namespace}, {"port", kMetricsPort}}},
      {"caBundle", base64(planner.ca_bundle)},
      {"groupPriorityMinimum", 100},
      {"versionPriority", 100}};
}

}  // namespace

std::vector<Json> manifests_of(const GatewayManifest& gateway) {
  Objects objects{gateway, "gateway"};
  objects.add_account();
  objects.add_configuration();
  // A ledger is written on one machine, so that several pods cannot share a claim.
  const bool has_claims = gateway.keeps_ledger && gateway.has_ledger_claims;
  const bool has_claim = gateway.keeps_ledger && !has_claims && gateway.replicas == 1;
  if (has_claim) objects.add("v1", "PersistentVolumeClaim")["spec"] = claim_of_ledger();
  Json service_ports = Json::array({service_port("http", gateway.port)});
  Json ports = Json::array({container_port("http", gateway.port), container_port("admin", gateway.admin_port)});
  if (gateway.picker_port != 0) {
    ports.push_back(container_port(kPickerPort, gateway.picker_port));
    Json& port = service_ports.emplace_back(service_port(kPickerPort, gateway.picker_port));
    // Gateways connect by TLS unless the port says that it is HTTP/2 without.
    if (!gateway.picker_has_tls) port["appProtocol"] = "kubernetes.io/h2c";
  }
  objects.add_service({}, service_ports);
  // Planners observe each gateway, also one that is not ready because it has no replicas or drains. Gateways that share
  // budgets do so, too.
  objects.add_headless_service("-admin", Json::array({service_port("admin", gateway.admin_port)}));
  objects.add_disruption_budget();

  Json arguments{"gateway",
                 "--config",
                 kConfigurationFile,
                 "--listen",
                 fmt::format(":{}", gateway.port),
                 "--admin-listen",
                 fmt::format(":{}", gateway.admin_port),
                 "--admin-hosts",
                 hosts_of(gateway, "-admin")};
  if (gateway.shares_budgets)
    for (const std::string& argument :
         {std::string{"--peers"}, fmt::format("{}://{}-admin.{}.svc:{}", gateway.admin_has_tls ? "https" : "http",
                                              gateway.name, gateway.in_namespace, gateway.admin_port)})
      arguments.push_back(argument);
  if (gateway.picker_port != 0)
    for (const std::string& argument :
         {std::string{"--endpoint-picker-listen"}, fmt::format(":{}", gateway.picker_port)})
      arguments.push_back(argument);
  Json container = container_of(gateway, "gateway", std::move(arguments), std::move(ports),
                                {{"requests", {{"cpu", "1"}, {"memory", memory_text(gateway.memory_mib / 2)}}},
                                 {"limits", {{"memory", memory_text(gateway.memory_mib)}}}});
  container["livenessProbe"] = http_probe("/health", "admin", gateway.admin_has_tls, 10);
  container["readinessProbe"] = http_probe("/ready", "admin", gateway.admin_has_tls, 2);
  const Json state =
      has_claim ? Json{{"persistentVolumeClaim", {{"claimName", gateway.name}}}} : Json{{"emptyDir", Json::object()}};
  objects.add_deployment(
      {gateway.replicas, has_claim, has_claims, gateway.drain_time_s + kSettleTime, !gateway.access.empty()},
      std::move(container), state);
  objects.add_pod_monitor("admin", gateway.admin_has_tls, {"/metrics"});
  return objects.take();
}

std::vector<Json> manifests_of(const PlannerManifest& planner) {
  Objects objects{planner, "planner"};
  objects.add_account();
  objects.add_configuration();
  Json ports = Json::array({container_port("http", planner.port)});
  Json service_ports = Json::array({service_port("http", planner.port)});
  Json arguments{"plan",
                 "--config",
                 kConfigurationFile,
                 "--gateway",
                 planner.gateway,
                 "--dashboard",
                 fmt::format(":{}", planner.port),
                 "--dashboard-hosts",
                 hosts_of(planner, ""),
                 "--state-dir",
                 kStateFolder};
  // A single planner has a Lease, too, because another one may be started beside it, and its pod may move to another
  // node, where its folder is empty.
  const std::string lease = planner.in_namespace + "/" + planner.name;
  for (const std::string& argument :
       {std::string{"--leader-election"}, lease, std::string{"--state-config-map"}, lease + kStateSuffix})
    arguments.push_back(argument);
  const auto serve = [&](const char* name, std::uint16_t port, std::initializer_list<std::string> flags) {
    ports.push_back(container_port(name, port));
    service_ports.push_back(service_port(name, port));
    for (const std::string& flag : flags) arguments.push_back(flag);
  };
  const std::string certificates = kSecretsFolder + std::string{"/tls."};
  if (planner.autoscaler == Autoscaler::kKeda)
    serve("scaler", kScalerPort, {"--external-scaler", fmt::format(":{}", kScalerPort)});
  if (planner.autoscaler == Autoscaler::kHpa)
    serve("metrics", kMetricsPort,
          {"--external-metrics", fmt::format(":{}", kMetricsPort), "--external-metrics-certificate",
           certificates + "crt", "--external-metrics-key", certificates + "key"});
  objects.add_service({}, service_ports);
  objects.add_disruption_budget();
  if (planner.autoscaler == Autoscaler::kHpa) add_external_metrics(objects, planner);

  Json container =
      container_of(planner, "planner", std::move(arguments), std::move(ports),
                   {{"requests", {{"cpu", "500m"}, {"memory", "256Mi"}}}, {"limits", {{"memory", "1Gi"}}}});
  container["livenessProbe"] = http_probe("/health", "http", false, 10);
  // A follower is ready once it knows who leads: then it answers as the leader does.
  container["readinessProbe"] = http_probe("/ready", "http", false, 2);
  objects.add_deployment({planner.replicas, false, false, kSettleTime, true}, std::move(container),
                         {{"emptyDir", Json::object()}});
  for (std::size_t i = 0; i < planner.targets.size(); ++i)
    if (planner.autoscaler == Autoscaler::kKeda)
      add_scaled_object(objects, planner, i);
    else if (planner.autoscaler == Autoscaler::kHpa)
      add_autoscaler(objects, planner.targets[i]);
  objects.add_pod_monitor("http", false, {"/metrics", "/metrics/engines"});
  return objects.take();
}

std::string prometheus_rule_of(const ProgramManifest& program, std::string_view runbooks) {
  constexpr std::string_view kDocs = "https://penstock.example.com/docs";
  Objects objects{program, "planner"};
  objects.add(kMonitoring, "PrometheusRule");
  std::string text = to_yaml(objects.take()) + "spec:\n";
  while (runbooks.ends_with('/')) runbooks.remove_suffix(1);
  for (std::string_view rest = assets::rules(); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    std::string line{rest.substr(0, end)};
    rest.remove_prefix(end);
    if (const std::size_t docs = line.find(kDocs); docs != std::string::npos) {
      if (runbooks.empty()) continue;
      line.replace(docs, kDocs.size(), runbooks);
    }
    text += (line == "\n" ? "" : "  ") + line;
  }
  return text;
}

}  // namespace penstock::deployment
