#include "cli/plan_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/gateway_setup.h"
#include "connect/kubernetes/access.h"
#include "connect/kubernetes/scale_target.h"
#include "net/tls.h"
#include "options/values.h"
#include "planner/policy.h"
#include "replay/capacities.h"
#include "replay/planner_setup.h"
#include "replay/schedule_file.h"
#include "replay/setup.h"

namespace penstock::cli {
namespace {

// Block size in which the gateway distinguishes prefixes; simulated trials use the same.
constexpr std::uint32_t kTrialBlockTokens = 256;

core::Result<actuation::PortRange> parse_ports(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = options::parse_count(text.substr(0, dash), 1, UINT16_MAX);
  const auto last = dash == std::string_view::npos ? first : options::parse_count(text.substr(dash + 1), 1, UINT16_MAX);
  if (!first || !last || *last < *first)
    return core::invalid_input({}, "must be like 9000-9899, is " + options::quote(text));
  if (*last - *first < 2)
    return core::invalid_input({}, "must have three ports for each engine, is " + options::quote(text));
  return actuation::PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

void add_credentials(options::Table& table, PlanOptions& made) {
  using namespace options;
  table.add({"", "--gateway-token-file", "file with the token of the gateways' admin addresses"},
            text(made.gateway_token_file));
  table.add({"", "--gateway-token-env", "environment variable with that token"}, text(made.gateway_token_env));
  table.add({"", "--gateway-ca",
             "PEM file that verifies the certificates of the admin addresses, for the hosts of --gateway; without it, "
             "plain HTTP"},
            text(made.gateway_ca));
  configuration::AccessSetup& access = made.access;
  table.add(
      {"", "--dashboard-hosts", "host names of the live page; its own address, loopback and localhost always work"},
      names(access.hosts));
  table.add({"", "--dashboard-token-file", "file with the token of the live page; browsers send it as the password"},
            text(access.token_file));
  table.add({"", "--dashboard-token-env", "environment variable with that token"}, text(access.token_env));
  table.add({"", "--dashboard-tls-certificate", "PEM file with the certificate chain of the live page"},
            text(access.tls_certificate));
  table.add({"", "--dashboard-tls-key", "PEM file with the key of that certificate"}, text(access.tls_key));
  table.add({"", "--dashboard-client-ca", "PEM file that verifies certificates of clients of the live page"},
            text(access.client_ca));
}

// Sets the block size of trials to that of the gateway's prefix keys.
simulation::RunOptions trial_options(simulation::RunOptions options) {
  for (simulation::PoolSpec& pool : options.pools) {
    const std::uint64_t tokens = std::uint64_t{pool.engine.block_tokens} * pool.engine.kv_blocks;
    pool.engine.block_tokens = kTrialBlockTokens;
    pool.engine.kv_blocks = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, tokens / kTrialBlockTokens));
  }
  return options;
}

}  // namespace

options::Table plan_table(PlanOptions& made) {
  using namespace options;
  Table table;
  table.group("Planner daemon");
  table
      .add({"", "--gateway",
            "admin addresses of the gateways, of which every one is observed; each address of a host name is that of a "
            "gateway, and names are looked up again every 5 s"},
           names(made.gateways))
      .placeholder("HOST:PORT,…");
  table
      .add({"", "--engines",
            "none: the replicas that the gateway knows are observed; local: processes of this machine are started and "
            "stopped; kubernetes: the objects that pools[].kubernetes names are scaled"},
           named_choice(
               made.engines,
               {{"none", EngineHost::kOthers}, {"local", EngineHost::kLocal}, {"kubernetes", EngineHost::kKubernetes}}))
      .placeholder("KIND");
  table
      .add({"", "--mode", "observe: only report what the planner would do; act: do it"},
           named_choice(made.acts, {{"observe", false}, {"act", true}}))
      .placeholder("MODE")
      .by_default("observe with --engines none, else act");
  table
      .add({"", "--state-dir", "folder for the state of fleet and policy, logs and the list of replicas"},
           text(made.state_folder))
      .placeholder("FOLDER")
      .by_default("penstock-state");
  table.add({"", "--dashboard", "address of the live page and of /metrics; 0 disables the page"},
            address(made.dashboard));
  table.renamed("--live-dashboard-port", "--dashboard");  // Of NVIDIA Dynamo's planner.
  table.add({"", "--metrics-listen", "address of /metrics with --dashboard 0; 0 disables it"},
            address(made.metrics_listen));
  add_credentials(table, made);
  table
      .add({"", "--ports", "ports for local engines, three each"},
           value("range", made.ports, parse_ports,
                 [](const auto& ports) { return fmt::format("{}-{}", ports.first, ports.last); }))
      .placeholder("FIRST-LAST");
  table
      .add({"", "--keep-engines", "leave local engines running at the end, for the next planner to take over"},
           boolean(made.keep_engines))
      .implies("true");
  table
      .add({"", "--bind-engines", "local engines are killed if the planner dies without ending them"},
           boolean(made.bind_engines))
      .implies("true");
  table
      .add({"", "--wva-metrics",
            "publish wva_desired_replicas and the other series of llm-d's workload-variant-autoscaler"},
           boolean(made.wva_metrics))
      .implies("true");
  table.add({"", "--policy", "autoscaling policy"}, text(made.policy)).placeholder("NAME");
  add_autoscalers(table, made.autoscalers);
  add_cluster(table, made.cluster);
  return table;
}

configuration::Configuration live_defaults() {
  configuration::Configuration made;
  made.pool.engine.block_tokens = 16;
  made.pool.engine.kv_blocks = 12'288;
  return made;
}

void check_engine_host(const configuration::Configuration& made, EngineHost engines, options::Reading& reading) {
  const std::vector<configuration::Configuration> all = configuration::configurations_of(made);
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (!made.deployments.empty()) reading.set_scope(fmt::format("deployments[{}]", d));
    for (std::size_t i = 0; i < all[d].run.pools.size(); ++i) {
      const simulation::PoolSpec& pool = all[d].run.pools[i];
      const auto path = [&](const char* key) {
        return reading.first_given({fmt::format("pools[{}].{}", i, key), key});
      };
      if (pool.min_asleep > 0 && engines == EngineHost::kKubernetes)
        reading.report(path("asleep"),
                       "needs --engines local: the scale of an object of Kubernetes has no replicas that are asleep");
      if (pool.switch_time > core::Duration{} && engines == EngineHost::kOthers)
        reading.report(path("switch_time"),
                       "needs --engines local or --engines kubernetes: the planner does not change the roles of "
                       "engines that others run");
      if (pool.kubernetes.empty() && engines == EngineHost::kKubernetes)
        reading.report(fmt::format("pools[{}].kubernetes", i), "is missing",
                       "name the object to scale, such as deployment/NAME");
    }
    reading.set_scope({});
  }
}

core::Result<void> check_dashboard_tls(const configuration::AccessSetup& access) {
  if (access.tls_certificate.empty() && !access.tls_key.empty())
    return core::invalid_input("--dashboard-tls-certificate", "is missing", "name the PEM file of the certificate");
  if (!access.tls_certificate.empty() && access.tls_key.empty())
    return core::invalid_input("--dashboard-tls-key", "is missing", "name the PEM file of the key");
  if (access.tls_certificate.empty() && !access.client_ca.empty())
    return core::invalid_input("--dashboard-client-ca", "has no effect without a certificate of the live page",
                               "give --dashboard-tls-certificate and --dashboard-tls-key");
  return {};
}

core::Result<void> check_deployable(std::string_view policy) {
  const std::string_view rule = decision::name_without_settings(policy);
  if (rule == "all" || rule == configuration::kClairvoyant || replay::is_schedule(policy))
    return core::invalid_input("--policy", options::quote(policy) + " is for `penstock replay` only",
                               "name one policy, as penstock");
  std::vector<std::string_view> names = planner::policy_names();
  names.insert(names.begin(), configuration::kPenstock);
  if (std::find(names.begin(), names.end(), rule) == names.end())
    return core::invalid_input("--policy", "unknown policy " + options::quote(policy),
                               "name one of " + options::choices(names));
  return {};
}

core::Result<std::unique_ptr<decision::Policy>> make_live_policy(const PlanOptions& plan,
                                                                 const configuration::Configuration& made,
                                                                 const simulation::RunOptions& run) {
  if (plan.policy == configuration::kPenstock) {
    auto options = replay::make_planner_options(made);
    if (!options) return tl::make_unexpected(options.error());
    options->guesses_engines = plan.engines != EngineHost::kLocal;
    return replay::make_penstock(*std::move(options), trial_options(run));
  }
  if (auto checked = check_deployable(plan.policy); !checked) return tl::make_unexpected(checked.error());
  if (decision::name_without_settings(plan.policy) == configuration::kPenstock)
    return core::invalid_input("--policy",
                               options::quote(plan.policy) + " is for `penstock replay` and `penstock decide`",
                               "give the goal with --slo goal=SHARE");
  const auto capacity = replay::known_capacity(made.capacity, plan.policy);
  if (!capacity) return tl::make_unexpected(capacity.error());
  return replay::make_policy_with(std::vector(run.pools.size(), *capacity), plan.policy, run);
}

core::Result<std::vector<net::HostNames::Host>> parse_gateways(const std::vector<std::string>& gateways) {
  std::vector<net::HostNames::Host> hosts;
  for (const std::string& gateway : gateways) {
    net::HostNames::Host& host = hosts.emplace_back();
    if (const auto address = parse_listen(gateway, "--gateway")) {
      host = {net::parse_url(address->text())->host, address->port()};
    } else {
      const auto url = net::parse_url(gateway);
      if (!url || url->tls || !url->path.empty() || gateway.find("//") != std::string::npos)
        return core::invalid_input("--gateway", "must be HOST:PORT, is " + options::quote(gateway));
      host = {url->host, url->port};
    }
    if (std::count(hosts.begin(), hosts.end(), host) > 1)
      return core::invalid_input("--gateway", "names " + options::quote(gateway) + " twice");
  }
  return hosts;
}

std::string note_on_prometheus_port(const PlanOptions& plan, const char* port) {
  if (port == nullptr || *port == '\0') return {};
  if (plan.dashboard != "0")
    return "; PLANNER_PROMETHEUS_PORT is not read: /metrics has the address of the live page, --dashboard";
  const auto number = options::parse_count(port, 0, 65'535);
  const std::string value = !number ? "ADDRESS" : *number == 0 ? "0" : fmt::format(":{}", *number);
  return "; PLANNER_PROMETHEUS_PORT is not read: use --metrics-listen " + value;
}

core::Result<std::vector<net::HostNames::Host>> gateways_of(const PlanOptions& plan) {
  auto gateways = parse_gateways(plan.gateways);
  if (!gateways) return gateways;
  if (gateways->empty()) return core::invalid_input("--gateway", "is empty", "name an address as HOST:PORT");
  return gateways;
}

void name_variants(const PlanOptions& plan, const configuration::Configuration& made, const simulation::RunOptions& run,
                   controller::DaemonOptions& options) {
  if (!plan.wva_metrics) return;
  options.variant_namespace = made.gateway.discovery.pods.in_namespace;
  if (plan.engines == EngineHost::kKubernetes && options.variant_namespace.empty()) {
    const std::string& kubeconfig =
        plan.autoscalers.kubeconfig.empty() ? made.gateway.discovery.pods.kubeconfig : plan.autoscalers.kubeconfig;
    if (const auto access = connect::find_kubernetes_access(kubeconfig))
      options.variant_namespace = access->default_namespace;
  }
  for (const simulation::PoolSpec& pool : run.pools) {
    const auto target = connect::parse_scale_target(pool.kubernetes);
    options.variant_names.push_back(!pool.kubernetes.empty() && target ? target->name : pool.name);
  }
}

core::Result<controller::DaemonOptions> make_daemon_options(const PlanOptions& plan,
                                                            const simulation::RunOptions& run) {
  auto gateways = gateways_of(plan);
  if (!gateways) return tl::make_unexpected(gateways.error());
  controller::DaemonOptions made;
  made.pools.assign(run.pools.begin(), run.pools.end());
  made.version = PENSTOCK_VERSION;
  for (const simulation::PoolSpec& pool : run.pools) {
    made.kv_bytes_per_token.push_back(pool.known_kv_bytes_per_token);
    made.max_sequences.push_back(pool.known_max_sequences);
  }
  made.model = run.model;
  made.slo = {run.slo, run.slo_goal, run.slo_segments};
  made.gateways.hosts = *std::move(gateways);
  made.observe_only = !plan.acts.value_or(plan.engines != EngineHost::kOthers);
  const auto tokens = read_tokens(plan.gateway_token_file, plan.gateway_token_env);
  if (!tokens) return tl::make_unexpected(tokens.error());
  if (!tokens->empty()) made.gateways.access.authorization = "Bearer " + tokens->front();
  if (plan.gateway_ca.empty()) return made;
  auto tls = net::TlsContext::client(plan.gateway_ca);
  if (!tls) return tl::make_unexpected(tls.error());
  made.gateways.access.tls = *std::move(tls);
  return made;
}

}  // namespace penstock::cli
