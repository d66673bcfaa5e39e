// `penstock doctor`: checks what a configuration needs from a cluster, and changes nothing.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/doctor_checks.h"
#include "cli/scaled_resources.h"
#include "deployment/names.h"
#include "options/values.h"
#include "report/format.h"

namespace penstock::cli {
namespace {

using State = Finding::State;

struct DoctorOptions {
  std::string kubeconfig, context, in_namespace, account, gateway;
  std::string program = "all";  // Whose permissions are checked.
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
  table.add({"", "--gateway", "admin address of a gateway that must answer, HOST:PORT"}, address(made.gateway));
  return table;
}

Usage doctor_usage(const options::Table& table) {
  Usage usage;
  usage.command = "doctor";
  usage.summary =
      "Checks what a configuration needs outside of this program: credentials and permissions in Kubernetes, pods,\n"
      "Prometheus, and a gateway. It changes nothing: writes are dry runs. Exit codes: 0 nothing is missing, 1 "
      "something is, 2 the file or\n"
      "the kubeconfig cannot be used.";
  usage.operand = "FILE";
  usage.flags = flags_of(table);
  usage.notes =
      "Examples:\n"
      "  penstock doctor penstock.yaml\n"
      "  penstock doctor penstock.yaml --namespace llm --program gateway --account penstock-gateway\n";
  return usage;
}

core::Result<void> check_flags(const DoctorOptions& flags) {
  for (const auto& [flag, text] : {std::pair{"--namespace", &flags.in_namespace}, {"--account", &flags.account}}) {
    if (text->empty()) continue;
    const bool is_account = text == &flags.account;
    auto good = is_account ? deployment::check_dns_name(*text) : deployment::check_dns_label(*text);
    if (!good) return core::invalid_input(flag, options::quote(*text) + " " + good.error().what, good.error().hint);
  }
  if (flags.gateway.empty()) return {};
  const auto url = net::parse_url(flags.gateway);
  if (!url) return core::invalid_input("--gateway", "must be HOST:PORT, is " + options::quote(flags.gateway));
  return {};
}

// Adds what the configuration needs from the API server. Returns an error if the server cannot even be addressed.
core::Result<void> check_cluster(BlockingClient& client, const DoctorOptions& flags,
                                 const configuration::Configuration& made, std::vector<Finding>& findings) {
  const gateway::PodOptions& pods = made.gateway.discovery.pods;
  auto access =
      connect::find_kubernetes_access(flags.kubeconfig.empty() ? pods.kubeconfig : flags.kubeconfig, flags.context);
  if (!access) return tl::make_unexpected(access.error());
  const std::string own = flags.in_namespace.empty() ? access->default_namespace : flags.in_namespace;
  const std::string of_pods = pods.in_namespace.empty() ? own : pods.in_namespace;
  for (Finding& finding : check_expiry(*access, std::time(nullptr))) findings.push_back(std::move(finding));
  const std::string server = (access->server.tls ? "https://" : "http://") + access->server.host_field();
  if (auto connected = client.connect(*std::move(access)); !connected) return connected;

  const std::string account = flags.account.empty() ? "" : own + ":" + flags.account;
  std::vector<Finding> cluster;
  std::vector<connect::ScaleTarget> targets;
  for (const simulation::PoolSpec& pool : made.run.pools) {
    auto target = connect::parse_scale_target(pool.kubernetes);
    if (pool.kubernetes.empty() || !target) continue;
    targets.push_back(*std::move(target));
  }
  std::vector<deployment::AccessRule> rules;
  if (flags.program != "gateway") rules = deployment::scaling_access(of_pods, scaled_resources(made));
  const auto gateway_rules =
      deployment::gateway_access(of_pods, {!pods.selector.empty() || pods.service.empty(), !pods.service.empty()});
  if (flags.program != "planner" || rules.empty())
    rules.insert(rules.end(), gateway_rules.begin(), gateway_rules.end());
  for (const deployment::AccessRule& rule : rules)
    for (Finding& finding : check_access(client, rule, account)) cluster.push_back(std::move(finding));
  Finding reachable{"API server " + server, State::kPresent, "namespace " + own};
  if (!cluster.empty() && cluster.front().state == State::kUnknown) {
    // Further requests would fail in the same way.
    findings.push_back({std::move(reachable.what), State::kMissing, cluster.front().detail});
    return {};
  }
  findings.push_back(std::move(reachable));
  findings.insert(findings.end(), cluster.begin(), cluster.end());
  if (!pods.selector.empty()) findings.push_back(check_selector(client, of_pods, pods.selector));
  if (!pods.service.empty()) findings.push_back(check_service(client, of_pods, pods));
  for (const connect::ScaleTarget& target : targets) {
    for (Finding& finding : check_target(client, of_pods, target)) {
      // The selector of a target is often the gateway's.
      const bool is_known = std::any_of(findings.begin(), findings.end(),
                                        [&](const Finding& other) { return other.what == finding.what; });
      if (!is_known) findings.push_back(std::move(finding));
    }
    if (!account.empty() || flags.program == "gateway") continue;
    if (auto finding = check_scaling(client, of_pods, target)) findings.push_back(*std::move(finding));
  }
  return {};
}

Finding check_server(BlockingClient& client, std::string what, const net::Url& url, const std::string& path,
                     const std::string& hint) {
  const auto answer = client.get(url, path);
  if (!answer) return {std::move(what), State::kMissing, answer.error().message()};
  if (answer->status == 200) return {std::move(what), State::kPresent, {}};
  return {std::move(what), State::kMissing, fmt::format("{} answers {}; {}", path, answer->status, hint)};
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
  if (const auto reading = configuration::load(made, table, source); !reading) return report_error(reading.error());

  std::vector<Finding> findings{{"configuration " + source.file, State::kPresent, {}}};
  for (const simulation::PoolSpec& pool : made.run.pools)
    if (auto finding = check_pool_label(pool.name)) findings.push_back(*std::move(finding));
  BlockingClient client;
  const bool has_targets = std::any_of(made.run.pools.begin(), made.run.pools.end(),
                                       [](const simulation::PoolSpec& pool) { return !pool.kubernetes.empty(); });
  if (!has_targets && !made.gateway.discovery.pods.follows_any() && flags.kubeconfig.empty() && flags.account.empty())
    findings.push_back({"API server", State::kPresent, "not needed: the configuration names nothing in Kubernetes"});
  else if (const auto checked = check_cluster(client, flags, made, findings); !checked)
    return report_input_error(checked.error());
  if (!made.prometheus.url.empty()) {
    const auto url = net::parse_url(made.prometheus.url);
    if (!url) return report_input_error(url.error());
    findings.push_back(check_server(client, "Prometheus " + made.prometheus.url, *url, "/-/ready",
                                    "check prometheus.url and its credentials"));
  }
  if (!flags.gateway.empty())
    findings.push_back(check_server(client, "gateway " + flags.gateway, *net::parse_url(flags.gateway), "/ready",
                                    "it drains, or it has no replicas"));
  if (const int code = print(table_of(findings)); code != kGood) return code;
  const bool is_good =
      std::all_of(findings.begin(), findings.end(), [](const Finding& each) { return each.state == State::kPresent; });
  return is_good ? kGood : kEnvironment;
}

}  // namespace penstock::cli
