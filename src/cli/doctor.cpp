// `penstock doctor`: checks what a configuration needs from a cluster, and changes nothing.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/doctor_autoscalers.h"
#include "cli/doctor_checks.h"
#include "cli/scaled_resources.h"
#include "connect/kubernetes/lease.h"
#include "deployment/manifests.h"
#include "deployment/names.h"
#include "net/credentials.h"
#include "net/http.h"
#include "options/values.h"
#include "report/format.h"

namespace penstock::cli {
namespace {

using State = Finding::State;
using deployment::Autoscaler;

struct DoctorOptions {
  std::string kubeconfig, context, in_namespace, account, gateway;
  std::string program = "all";  // Whose permissions are checked.
  Autoscaler autoscaler = Autoscaler::kNone;
  std::string lease, state_config_map;  // NAMESPACE/NAME; empty: there is one planner.
};

options::Table doctor_table(DoctorOptions& made) {
  using namespace options;
  Table table;
  table.group("Flags");
  table
      .add({"", "--kubeconfig",
            "how the API server is reached; without it: gateway.kubernetes.kubeconfig, KUBECONFIG, the pod's service "
            "account, or ~/.kube/config"},
           text(made.kubeconfig))
      .placeholder("FILE");
  table.add({"", "--context", "context of the kubeconfig"}, text(made.context))
      .placeholder("NAME")
      .by_default("the current one");
  table.add({"", "--namespace", "namespace of gateway and planner"}, text(made.in_namespace))
      .placeholder("NAME")
      .by_default("that of the context");
  table
      .add({"", "--account", "service account of this namespace whose permissions are checked; by default one's own"},
           text(made.account))
      .placeholder("NAME");
  table
      .add({"", "--program", "whose permissions are checked: all, gateway or planner"},
           text_choice(made.program, {"all", "gateway", "planner"}))
      .placeholder("NAME");
  table
      .add({"", "--autoscaler", "what scales the pools by the planner's targets; none: the planner itself"},
           named_choice(made.autoscaler,
                        {{"none", Autoscaler::kNone}, {"keda", Autoscaler::kKeda}, {"hpa", Autoscaler::kHpa}}))
      .placeholder("KIND");
  table.add({"", "--leader-election", "Lease of several planners, as `penstock plan` takes it"}, text(made.lease))
      .placeholder("NAMESPACE/NAME");
  table.add({"", "--state-config-map", "ConfigMap of their policy's state"}, text(made.state_config_map))
      .placeholder("NAMESPACE/NAME");
  table.add({"", "--gateway", "admin address of a gateway that must answer, HOST:PORT"}, address(made.gateway));
  return table;
}

Usage doctor_usage(const options::Table& table) {
  Usage usage;
  usage.command = "doctor";
  usage.summary =
      "Checks what a configuration needs outside of this program: credentials and permissions in Kubernetes, pods,\n"
      "Prometheus, replicas, and a gateway. It changes nothing: writes are dry runs. Exit codes: 0 nothing is missing, "
      "1\n"
      "something is, 2 the file or the kubeconfig cannot be used.";
  usage.operand = "FILE";
  usage.flags = flags_of(table);
  usage.notes =
      "Examples:\n"
      "  penstock doctor penstock.yaml\n"
      "  penstock doctor penstock.yaml --namespace llm --program gateway --account penstock-gateway\n"
      "  penstock doctor penstock.yaml --namespace llm --program planner --account penstock-planner --autoscaler "
      "keda\n";
  return usage;
}

core::Result<void> check_flags(const DoctorOptions& flags) {
  for (const auto& [flag, text] : {std::pair{"--namespace", &flags.in_namespace}, {"--account", &flags.account}}) {
    if (text->empty()) continue;
    const bool is_account = text == &flags.account;
    auto good = is_account ? deployment::check_dns_name(*text) : deployment::check_dns_label(*text);
    if (!good) return core::invalid_input(flag, options::quote(*text) + " " + good.error().what, good.error().hint);
  }
  for (const auto& [flag, text] :
       {std::pair{"--leader-election", &flags.lease}, {"--state-config-map", &flags.state_config_map}})
    if (auto name = connect::parse_object_name(*text); !text->empty() && !name) {
      name.error().where = flag;
      return tl::make_unexpected(name.error());
    }
  if (flags.gateway.empty()) return {};
  const auto url = net::parse_url(flags.gateway);
  if (!url) return core::invalid_input("--gateway", "must be HOST:PORT, is " + options::quote(flags.gateway));
  return {};
}

// Adds the rules that are not there yet: those for Events are in several lists.
void add_rules(std::vector<deployment::AccessRule>& rules, const std::vector<deployment::AccessRule>& more) {
  for (const deployment::AccessRule& rule : more)
    if (std::find(rules.begin(), rules.end(), rule) == rules.end()) rules.push_back(rule);
}

// What the account must be allowed. `pods` is the namespace of pods and targets.
std::vector<deployment::AccessRule> rules_for(const DoctorOptions& flags, const configuration::Configuration& made,
                                              const std::string& pods) {
  std::vector<deployment::AccessRule> rules;
  bool is_planner = flags.program == "planner";
  if (flags.program != "gateway") {
    if (flags.autoscaler == Autoscaler::kNone)
      add_rules(rules, deployment::scaling_access(pods, scaled_resources(made)));
    if (flags.autoscaler == Autoscaler::kHpa) add_rules(rules, deployment::external_metrics_access());
    // The names were checked.
    if (const auto lease = connect::parse_object_name(flags.lease))
      add_rules(rules, deployment::lease_access(lease->in_namespace, lease->name));
    if (const auto state = connect::parse_object_name(flags.state_config_map)) {
      if (made.deployments.empty()) add_rules(rules, deployment::policy_state_access(state->in_namespace, state->name));
      for (const configuration::DeploymentSetup& each : made.deployments)
        add_rules(rules, deployment::policy_state_access(state->in_namespace, state->name + "-" + each.name));
    }
    // A planner without targets reads what a gateway reads.
    is_planner = is_planner && !(rules.empty() && flags.autoscaler == Autoscaler::kNone);
  }
  const gateway::PodOptions& followed = made.gateway.discovery.pods;
  if (!is_planner)
    add_rules(rules, deployment::gateway_access(
                         pods, {!followed.selector.empty() || followed.service.empty(), !followed.service.empty(),
                                followed.inference_pool, followed.inference_pool_group}));
  return rules;
}

// The selector of a target is often the gateway's.
void add_new(std::vector<Finding>& findings, std::vector<Finding> more) {
  for (Finding& finding : more) {
    const bool is_known =
        std::any_of(findings.begin(), findings.end(), [&](const Finding& other) { return other.what == finding.what; });
    if (!is_known) findings.push_back(std::move(finding));
  }
}

// Targets that the planner scales itself.
void check_own_targets(BlockingClient& client, const DoctorOptions& flags, const configuration::Configuration& made,
                       const std::string& in_namespace, std::vector<Finding>& findings) {
  for (const simulation::PoolSpec& pool : configuration::all_pools(made)) {
    const auto target = connect::parse_scale_target(pool.kubernetes);
    if (pool.kubernetes.empty() || !target) continue;
    add_new(findings, check_target(client, in_namespace, *target));
    add_new(findings, check_other_autoscalers(client, in_namespace, *target));
    if (!flags.account.empty() || flags.program == "gateway") continue;
    if (auto finding = check_scaling(client, in_namespace, *target)) findings.push_back(*std::move(finding));
  }
}

// Targets that KEDA or HorizontalPodAutoscalers scale.
void check_followers(BlockingClient& client, const DoctorOptions& flags, const std::string& own,
                     const std::vector<deployment::ScaleTarget>& targets, std::vector<Finding>& findings) {
  for (const deployment::ScaleTarget& target : targets) {
    const char* kind = target.kind == "StatefulSet" ? "statefulset/" : "deployment/";
    if (const auto scaled = connect::parse_scale_target(kind + target.name))
      add_new(findings, check_target(client, target.in_namespace, *scaled));
  }
  add_new(findings, flags.autoscaler == Autoscaler::kKeda ? check_scaled_objects(client, targets)
                                                          : check_external_metrics(client, own, targets));
}

// Adds what the configuration needs from the API server. Returns an error if the server cannot even be addressed.
// `followed` are the targets of another autoscaler.
core::Result<void> check_cluster(BlockingClient& client, const DoctorOptions& flags,
                                 const configuration::Configuration& made,
                                 std::vector<deployment::ScaleTarget> followed, std::vector<Finding>& findings) {
  const gateway::PodOptions& pods = made.gateway.discovery.pods;
  auto access =
      connect::find_kubernetes_access(flags.kubeconfig.empty() ? pods.kubeconfig : flags.kubeconfig, flags.context);
  if (!access) return tl::make_unexpected(access.error());
  const std::string own = flags.in_namespace.empty() ? access->default_namespace : flags.in_namespace;
  const std::string of_pods = pods.in_namespace.empty() ? own : pods.in_namespace;
  for (deployment::ScaleTarget& target : followed)
    if (target.in_namespace.empty()) target.in_namespace = own;
  for (Finding& finding : check_expiry(*access, std::time(nullptr))) findings.push_back(std::move(finding));
  const std::string server = (access->server.tls ? "https://" : "http://") + access->server.host_field();
  if (auto connected = client.connect(*std::move(access)); !connected) return connected;

  const std::string account = flags.account.empty() ? "" : own + ":" + flags.account;
  const auto failure = check_reachable(client, of_pods, account);
  findings.push_back(
      {"API server " + server, failure ? State::kMissing : State::kPresent, failure.value_or("namespace " + own)});
  if (failure) return {};  // Further requests would fail in the same way.
  for (const deployment::AccessRule& rule : rules_for(flags, made, of_pods))
    for (Finding& finding : check_access(client, rule, account)) findings.push_back(std::move(finding));
  if (!pods.selector.empty()) findings.push_back(check_selector(client, of_pods, pods.selector));
  if (!pods.service.empty()) findings.push_back(check_service(client, of_pods, pods));
  if (!pods.inference_pool.empty())
    for (Finding& finding : check_inference_pool(client, of_pods, pods)) findings.push_back(std::move(finding));
  if (flags.autoscaler == Autoscaler::kNone)
    check_own_targets(client, flags, made, of_pods, findings);
  else if (flags.program != "gateway")
    check_followers(client, flags, own, followed, findings);
  return {};
}

Finding check_server(BlockingClient& client, std::string what, const net::Url& url, const std::string& path,
                     const std::string& hint, const net::Credentials& credentials = {}) {
  const auto answer = client.get(url, path, credentials.fields, credentials.tls);
  if (!answer) return {std::move(what), State::kMissing, answer.error().message()};
  if (answer->status == 200) return {std::move(what), State::kPresent, {}};
  return {std::move(what), State::kMissing,
          fmt::format("{} answers {}; {}", path.substr(0, path.find('?')), answer->status, hint)};
}

// Whether the server answers a query with the credentials and parameters of the planner.
core::Result<Finding> check_prometheus_server(BlockingClient& client, const connect::PrometheusOptions& options) {
  const auto url = net::parse_url(options.url);
  if (!url) return core::invalid_input("prometheus.url", url.error().message());
  const auto credentials = net::CredentialStore::load(options.credentials, {});
  if (!credentials) return core::invalid_input("prometheus", credentials.error().message());
  const auto mine = credentials->of(options.url);
  std::string path = "/api/v1/query?query=1";
  for (const std::string& parameter : options.parameters) {
    const std::size_t equals = std::min(parameter.find('='), parameter.size() - 1);
    path +=
        "&" + net::encode_query(parameter.substr(0, equals)) + "=" + net::encode_query(parameter.substr(equals + 1));
  }
  return check_server(client, "Prometheus " + options.url, *url, path, "check prometheus.url and its credentials",
                      mine ? *mine : net::Credentials{});
}

}  // namespace

int run_doctor(const Arguments& arguments) {
  DoctorOptions flags;
  const options::Table own = doctor_table(flags);
  const auto parsed = parse_arguments(doctor_usage(own), arguments);
  if (!parsed) return parsed.error();
  if (const auto read = read_flags(own, *parsed); !read) return read.error();
  if (const auto good = check_flags(flags); !good) return report_error(good.error());

  configuration::Configuration made;
  const options::Table table = configuration::configuration_table(made);
  options::Source source{parsed->operands.front(), {}, {}};
  auto text = options::read_text_file(source.file, options::YamlLimits{}.bytes_max);
  if (!text) return report_input_error(text.error());
  source.yaml = *std::move(text);
  auto reading = configuration::load(made, table, source);
  if (!reading) return report_error(reading.error());
  std::vector<deployment::ScaleTarget> followed;
  if (flags.autoscaler != Autoscaler::kNone) followed = scale_targets(flags.in_namespace, made, *reading);
  if (!reading->good()) return report_error(reading->problems());

  std::vector<Finding> findings{{"configuration " + source.file, State::kPresent, {}}};
  const std::vector<simulation::PoolSpec> pools = configuration::all_pools(made);
  for (const simulation::PoolSpec& pool : pools)
    if (auto finding = check_pool_label(pool.name)) findings.push_back(*std::move(finding));
  BlockingClient client;
  const bool has_targets = std::any_of(pools.begin(), pools.end(),
                                       [](const simulation::PoolSpec& pool) { return !pool.kubernetes.empty(); });
  const bool is_asked = has_targets || made.gateway.discovery.pods.follows_any() || !flags.kubeconfig.empty() ||
                        !flags.account.empty() || !flags.lease.empty() || !flags.state_config_map.empty() ||
                        flags.autoscaler != Autoscaler::kNone;
  if (!is_asked)
    findings.push_back({"API server", State::kPresent, "not needed: the configuration names nothing in Kubernetes"});
  else if (const auto checked = check_cluster(client, flags, made, std::move(followed), findings); !checked)
    return report_input_error(checked.error());
  if (!made.prometheus.url.empty()) {
    auto finding = check_prometheus_server(client, made.prometheus);
    if (!finding) {
      reading->report(finding.error().where, finding.error());
      return report_error(reading->problems());
    }
    findings.push_back(*std::move(finding));
  }
  auto replicas = check_replicas(client, made.gateway.discovery);
  if (!replicas) return report_input_error(replicas.error());
  for (Finding& finding : *replicas) findings.push_back(std::move(finding));
  if (!flags.gateway.empty())
    findings.push_back(check_server(client, "gateway " + flags.gateway, *net::parse_url(flags.gateway), "/ready",
                                    "it drains, or it has no replicas"));
  if (const int code = print(table_of(findings)); code != kGood) return code;
  const bool is_good =
      std::all_of(findings.begin(), findings.end(), [](const Finding& each) { return each.state == State::kPresent; });
  return is_good ? kGood : kEnvironment;
}

}  // namespace penstock::cli
