// `penstock manifests`: the objects of Kubernetes that run a gateway, a planner, engines or their autoscalers, as YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/manifests_autoscalers.h"
#include "cli/manifests_engines.h"
#include "cli/manifests_needs.h"
#include "cli/plan_setup.h"
#include "cli/scaled_resources.h"
#include "connect/kubernetes/scale_target.h"
#include "deployment/manifests.h"
#include "deployment/names.h"
#include "deployment/yaml_text.h"
#include "options/values.h"
#include "report/format.h"

namespace penstock::cli {
namespace {

using deployment::Autoscaler;

constexpr std::uint32_t kReplicasMax = 100;
constexpr std::size_t kCaBytesMax = 256 * 1024;
constexpr const char* kGatewayName = "penstock-gateway";

struct ManifestOptions {
  std::string image = "penstock:" PENSTOCK_VERSION, in_namespace = "default", name;
  std::uint32_t replicas = 1;
  std::vector<std::string> gateways;
  std::string gateway_name = kGatewayName;
  Autoscaler autoscaler = Autoscaler::kNone;
  std::string ca_file, runbooks;
  bool pod_monitor = false, prometheus_rule = false, ledger_claims = false;
  AutoscalerFlags autoscalers;
  KedaFlags keda;
  EngineFlags engines;
};

options::Table manifests_table(ManifestOptions& made) {
  using namespace options;
  Table table;
  table.group("Manifests");
  table.add({"", "--image", "image of the container"}, text(made.image))
      .by_default("penstock:" PENSTOCK_VERSION ", or a release of the engine");
  table
      .add({"", "--namespace",
            "namespace of the program; engines are in gateway.kubernetes.namespace if the file has it"},
           text(made.in_namespace))
      .placeholder("NAME");
  table.add({"", "--name", "name of the objects"}, text(made.name))
      .placeholder("NAME")
      .by_default("penstock-gateway, penstock-planner, penstock-engines or llm-token-rates");
  table.add({"", "--pod-monitor", "add a PodMonitor for the operator of Prometheus"}, boolean(made.pod_monitor))
      .implies("true");
  table.add({"", "--replicas", "pods; of those of a planner one leads, and those of a gateway all serve"},
            count(made.replicas, 1, kReplicasMax));
  table.group("Gateway");
  table
      .add({"", "--ledger-claims", "write a StatefulSet: each pod keeps its ledger in a PersistentVolumeClaim"},
           boolean(made.ledger_claims))
      .implies("true");
  table.group("Planner");
  table.add({"", "--gateway", "admin addresses of the gateways, as `penstock plan` takes them"}, names(made.gateways))
      .placeholder("HOST:PORT,…")
      .by_default("GATEWAY-NAME-admin.NAMESPACE.svc and the port of gateway.admin_listen");
  table.add({"", "--gateway-name", "--name of the gateways that the planner observes"}, text(made.gateway_name))
      .placeholder("NAME");
  table
      .add({"", "--autoscaler", "add a ScaledObject of KEDA, or a HorizontalPodAutoscaler, for each pool"},
           named_choice(made.autoscaler,
                        {{"none", Autoscaler::kNone}, {"keda", Autoscaler::kKeda}, {"hpa", Autoscaler::kHpa}}))
      .placeholder("KIND");
  table
      .add({"", "--prometheus-rule",
            "add a PrometheusRule: a planner's recording rules and alerts, or the token rates of autoscalers"},
           boolean(made.prometheus_rule))
      .implies("true");
  table.add({"", "--runbooks", "where your team reads docs/, for the links of the alerts"}, text(made.runbooks))
      .placeholder("URL");
  table.add({"", "--ca", "PEM file that verifies the planner's certificate for --autoscaler hpa"}, text(made.ca_file))
      .placeholder("FILE");
  add_autoscaler_flags(table, made.autoscalers);
  add_keda_flags(table, made.keda);
  add_engine_flags(table, made.engines);
  return table;
}

Usage manifests_usage(const options::Table& table) {
  Usage usage;
  usage.command = "manifests";
  usage.summary =
      "Writes the objects of Kubernetes that run a gateway or a planner with a configuration FILE, or the engines of\n"
      "its pools and their autoscalers, as YAML for `kubectl apply -f -`.";
  usage.operand = "gateway|planner|engines|autoscalers FILE";
  usage.flags = flags_of(table);
  usage.notes =
      "A gateway and a planner have the file as /etc/penstock/penstock.yaml. Files that it names lie in\n"
      "/etc/penstock-secrets, which is the Secret NAME-secrets, and so do environment variables. Both write below\n"
      "/var/lib/penstock only.\n\n"
      "Each pool is a Deployment of engines: that of pools[].kubernetes, or one with the name of the pool. Their pods\n"
      "have the labels that gateway.kubernetes.selector selects. Autoscalers act on the load of these Deployments\n"
      "without a planner; min_replicas and max_replicas are those of the pool.\n\n"
      "Examples:\n"
      "  penstock manifests gateway penstock.yaml --namespace llm | kubectl apply -f -\n"
      "  penstock manifests planner penstock.yaml --namespace llm --autoscaler keda\n"
      "  penstock manifests engines penstock.yaml --namespace llm --model Qwen/Qwen3-32B --weights-claim models\n"
      "  penstock manifests engines penstock.yaml --gpu-resource nightly:nvidia.com/mig-3g.40gb --warm-nodes 1\n"
      "  penstock manifests autoscalers penstock.yaml --autoscaler keda --target token-out-rate=8000\n";
  return usage;
}

// Flags that not all programs have.
std::vector<std::string_view> other_flags(std::string_view program) {
  std::vector<std::string_view> flags;
  const auto add = [&](std::span<const std::string_view> more) { flags.insert(flags.end(), more.begin(), more.end()); };
  const bool is_autoscalers = program == "autoscalers";
  if (program != "planner") flags = {"--gateway", "--gateway-name", "--ca", "--runbooks"};
  if (program != "gateway") flags.emplace_back("--ledger-claims");
  if (program != "planner" && !is_autoscalers)
    add(std::array<std::string_view, 2>{"--autoscaler", "--prometheus-rule"});
  if (program == "engines" || is_autoscalers) add(std::array<std::string_view, 2>{"--pod-monitor", "--replicas"});
  if (program != "engines") add(engine_flag_names());
  if (program != "planner" && !is_autoscalers) add(keda_flag_names());
  if (is_autoscalers)
    flags.emplace_back("--image");
  else
    add(autoscaler_flag_names());
  return flags;
}

constexpr std::array<std::string_view, 4> kPrograms = {"gateway", "planner", "engines", "autoscalers"};

bool is_program(const std::string& word) {
  return std::find(kPrograms.begin(), kPrograms.end(), word) != kPrograms.end();
}

// The help of one program lists its flags only.
void keep_flags_of(const Arguments& arguments, Usage& usage) {
  constexpr std::array<std::string_view, 2> kHelp = {"--help", "-h"};
  const auto program = std::find_if(arguments.begin(), arguments.end(), is_program);
  const auto help = std::find_first_of(arguments.begin(), arguments.end(), kHelp.begin(), kHelp.end());
  if (program == arguments.end() || help == arguments.end()) return;
  const std::vector<std::string_view> others = other_flags(*program);
  std::erase_if(usage.flags,
                [&](const Flag& flag) { return std::find(others.begin(), others.end(), flag.name) != others.end(); });
}

// Reports a flag that Kubernetes would refuse, or that is of another program.
options::Problems check_flags(const ManifestOptions& flags, const Parsed& parsed, std::string_view program) {
  options::Problems problems;
  const auto report = [&](std::string_view flag, std::string what, std::string hint = {}) {
    problems.push_back({core::ErrorCode::kInvalidInput, std::string{flag}, std::move(what), std::move(hint)});
  };
  const auto check = [&](const char* flag, const std::string& text, const core::Result<void>& good) {
    if (!good) report(flag, options::quote(text) + " " + good.error().what, good.error().hint);
  };
  check("--name", flags.name,
        deployment::check_dns_label(flags.name, deployment::kLabelBytesMax - deployment::kSuffixBytesMax));
  check("--gateway-name", flags.gateway_name,
        deployment::check_dns_label(flags.gateway_name, deployment::kLabelBytesMax - deployment::kSuffixBytesMax));
  if (parsed.has("--gateway-name") && !flags.gateways.empty())
    report("--gateway-name", "has no effect with --gateway", "remove one of the two");
  check("--namespace", flags.in_namespace, deployment::check_dns_label(flags.in_namespace));
  check("--image", flags.image, deployment::check_image(flags.image));
  if (!flags.runbooks.empty()) check("--runbooks", flags.runbooks, deployment::check_link(flags.runbooks));
  const bool lacks_keda = flags.autoscaler != Autoscaler::kKeda && (program == "planner" || program == "autoscalers");
  for (const std::string_view flag : keda_flag_names())
    if (lacks_keda && parsed.has(flag)) report(flag, "is of --autoscaler keda");
  for (const std::string_view flag : other_flags(program))
    if (parsed.has(flag)) report(flag, fmt::format("is not a flag of `penstock manifests {}`", program));
  if (program == "autoscalers" && flags.autoscaler == Autoscaler::kNone)
    report("--autoscaler", "is missing", "as --autoscaler keda, or hpa");
  if (program == "planner" && flags.autoscaler == Autoscaler::kHpa && flags.ca_file.empty())
    report("--ca", "is missing",
           "name the PEM file of the CA that signed tls.crt of the Secret " + flags.name + "-secrets");
  if (program == "planner")
    if (const auto hosts = parse_gateways(flags.gateways); !hosts) problems.push_back(hosts.error());
  return problems;
}

// The gateway plans with half of the memory of its container where the file says nothing.
std::uint64_t memory_limit_mib(std::uint64_t memory_max) {
  constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
  return std::max(deployment::GatewayManifest{}.memory_mib, memory_max / kMib * 2 + 2);
}

std::uint16_t port_of(const std::string& listen, const char* key, options::Reading& reading) {
  const auto address = parse_listen(listen, key);
  if (!address)
    reading.report(key, address.error());
  else if (address->port() == 0)
    reading.report(key, "needs a port, because a Service names it");
  return address ? address->port() : std::uint16_t{};
}

// The key of the Secret that the container has as a file; empty for no file.
std::string secret_key_of(const std::string& file) {
  constexpr std::string_view kFolder = deployment::kSecretsFolder;
  return file.size() > kFolder.size() ? file.substr(kFolder.size() + 1) : std::string{};
}

// What Prometheus needs to read /metrics of the admin address.
void set_metrics_access(const configuration::GatewaySetup& setup, deployment::GatewayManifest& gateway,
                        options::Reading& reading) {
  const configuration::AccessSetup& admin = setup.admin;
  gateway.metrics_token_key = secret_key_of(admin.token_file);
  if (gateway.metrics_token_key.empty()) gateway.metrics_token_key = admin.token_env;
  gateway.metrics_ca_key = secret_key_of(setup.peer_ca_file);
  if (gateway.pod_monitor && !admin.client_ca.empty() && gateway.metrics_token_key.empty())
    reading.report("gateway.admin_tls.client_ca", "a PodMonitor shows no certificate", "add gateway.admin_token_file");
}

// Also with one replica: there are two while a pod is replaced, and more after `kubectl scale`.
bool has_shared_limits(const configuration::GatewaySetup& setup) {
  return has_budgets(setup.options.dispatch) ||
         std::any_of(setup.tenants.begin(), setup.tenants.end(), [](const auto& each) { return each.concurrent > 0; });
}

deployment::GatewayManifest gateway_manifest(const ManifestOptions& flags, const configuration::Configuration& made,
                                             deployment::ProgramManifest program, options::Reading& reading) {
  const configuration::GatewaySetup& setup = made.gateway;
  deployment::GatewayManifest gateway;
  static_cast<deployment::ProgramManifest&>(gateway) = std::move(program);
  ContainerNeeds{reading, gateway}.gateway(setup);
  gateway.port = port_of(setup.listen, "gateway.listen", reading);
  gateway.admin_port = port_of(setup.admin_listen, "gateway.admin_listen", reading);
  if (gateway.port == gateway.admin_port)
    reading.report("gateway.admin_listen", "needs a port of its own, because both addresses are of one pod");
  gateway.admin_has_tls = !setup.admin.tls_certificate.empty();
  if (const configuration::EndpointPickerSetup& picker = setup.endpoint_picker; !picker.listen.empty()) {
    gateway.picker_port = port_of(picker.listen, "gateway.endpoint_picker.listen", reading);
    gateway.picker_has_tls = picker.tls;
    if (gateway.picker_port == gateway.port || gateway.picker_port == gateway.admin_port)
      reading.report("gateway.endpoint_picker.listen", "needs a port of its own, because all are of one pod");
  }
  gateway.hosts = setup.admin.hosts;
  gateway.replicas = flags.replicas;
  if (setup.options.memory_max) gateway.memory_mib = memory_limit_mib(*setup.options.memory_max);
  gateway.drain_time_s = std::chrono::ceil<std::chrono::seconds>(setup.drain_time).count();
  gateway.keeps_ledger = !setup.ledger.empty();
  gateway.has_ledger_claims = flags.ledger_claims;
  if (flags.ledger_claims && !gateway.keeps_ledger) reading.report("--ledger-claims", "needs gateway.ledger");
  if (!reading.given("gateway.drain_delay"))  // Nodes need time to learn that a pod is not ready.
    for (const char* argument : {"--drain-delay", "5s"}) gateway.arguments.emplace_back(argument);
  if (const gateway::PodOptions& pods = setup.discovery.pods; pods.follows_any() && pods.kubeconfig.empty()) {
    gateway.access =
        deployment::gateway_access(pods.in_namespace.empty() ? flags.in_namespace : pods.in_namespace,
                                   {!pods.selector.empty() || !pods.inference_pool.empty(), !pods.service.empty(),
                                    pods.inference_pool, pods.inference_pool_group});
  }
  set_metrics_access(setup, gateway, reading);
  if (has_shared_limits(setup) && setup.options.peers.urls.empty()) {
    gateway.shares_budgets = true;
    if (gateway.admin_has_tls && setup.peer_ca_file.empty())
      reading.report("gateway.peer_ca_file", "is missing, because the pods share budgets by https",
                     "name the CA of gateway.admin_tls.certificate");
  }
  return gateway;
}

// A planner verifies the certificate of the admin address for the host of --gateway, and shows none.
void add_gateway_ca(const configuration::GatewaySetup& setup, ContainerNeeds& needs,
                    deployment::PlannerManifest& planner, options::Reading& reading) {
  const configuration::AccessSetup& admin = setup.admin;
  if (admin.tls_certificate.empty()) return;
  if (!admin.client_ca.empty() && admin.token_file.empty() && admin.token_env.empty())
    reading.report("gateway.admin_tls.client_ca", "a planner shows no certificate", "add gateway.admin_token_file");
  if (setup.peer_ca_file.empty())
    return reading.report("gateway.peer_ca_file", "is missing, because a planner reads gateways by https",
                          "name the CA of gateway.admin_tls.certificate");
  needs.read_file("gateway.peer_ca_file", setup.peer_ca_file);
  for (const std::string& argument : {std::string{"--gateway-ca"}, setup.peer_ca_file})
    planner.arguments.push_back(argument);
}

deployment::PlannerManifest planner_manifest(const ManifestOptions& flags, const configuration::Configuration& made,
                                             deployment::ProgramManifest program, options::Reading& reading) {
  deployment::PlannerManifest planner;
  static_cast<deployment::ProgramManifest&>(planner) = std::move(program);
  ContainerNeeds needs{reading, planner};
  needs.planner(made);
  planner.replicas = flags.replicas;
  planner.gateway = fmt::format("{}", fmt::join(flags.gateways, ","));
  if (planner.gateway.empty())
    planner.gateway = fmt::format("{}-admin.{}.svc:{}", flags.gateway_name, flags.in_namespace,
                                  port_of(made.gateway.admin_listen, "gateway.admin_listen", reading));
  planner.autoscaler = flags.autoscaler;
  if (flags.autoscaler != Autoscaler::kNone) planner.targets = scale_targets(flags.in_namespace, made, reading);
  if (flags.autoscaler == Autoscaler::kKeda) planner.keda = keda_settings(planner.targets, flags.keda, reading);
  if (flags.autoscaler == Autoscaler::kHpa) {
    check_never_zero(made, "a HorizontalPodAutoscaler", reading);
    planner.mounts_secrets = true;
    if (const auto text = options::read_text_file(flags.ca_file, kCaBytesMax); !text)
      reading.report("--ca", text.error().message());
    else if (text->find("-----BEGIN CERTIFICATE-----") == std::string::npos)
      reading.report("--ca", flags.ca_file + " contains no certificate", "name a PEM file");
    else
      planner.ca_bundle = *text;
  }
  // Where another autoscaler acts, the planner only decides.
  const std::vector<deployment::ScaledResource> resources = scaled_resources(made);
  const bool scales = !resources.empty() && flags.autoscaler == Autoscaler::kNone;
  check_engine_host(made, scales ? EngineHost::kKubernetes : EngineHost::kOthers, reading);
  if (scales) {
    const std::string& pods = made.gateway.discovery.pods.in_namespace;
    planner.access = deployment::scaling_access(pods.empty() ? flags.in_namespace : pods, resources);
    for (const char* argument : {"--engines", "kubernetes"}) planner.arguments.emplace_back(argument);
  }
  std::vector<std::string> states;
  for (const configuration::DeploymentSetup& each : made.deployments)
    states.push_back(planner.name + deployment::kStateSuffix + "-" + each.name);
  if (states.empty()) states.push_back(planner.name + deployment::kStateSuffix);
  // The targets may be in the same namespace, and one rule for Events is enough.
  for (const std::string& state : states)
    for (deployment::AccessRule& rule : deployment::leader_election_access(planner.in_namespace, planner.name, state))
      if (std::find(planner.access.begin(), planner.access.end(), rule) == planner.access.end())
        planner.access.push_back(std::move(rule));
  add_gateway_ca(made.gateway, needs, planner, reading);
  // The token of the gateway's admin address is that of the gateway's Secret; see docs/kubernetes.md.
  if (!made.gateway.admin.token_file.empty()) {
    needs.read_file("gateway.admin_token_file", made.gateway.admin.token_file);
    for (const std::string& argument : {std::string{"--gateway-token-file"}, made.gateway.admin.token_file})
      planner.arguments.push_back(argument);
  } else if (!made.gateway.admin.token_env.empty()) {
    needs.variable("gateway.admin_token_env", made.gateway.admin.token_env);
    for (const std::string& argument : {std::string{"--gateway-token-env"}, made.gateway.admin.token_env})
      planner.arguments.push_back(argument);
  }
  return planner;
}

// What a gateway's pods do not share, what a planner needs to find them, and what Prometheus needs, as comments.
std::string gateway_notes(const ManifestOptions& flags, const configuration::GatewaySetup& setup) {
  std::string text;
  if (flags.replicas > 1 && !setup.ledger.empty() && !flags.ledger_claims)
    text += "# Each pod has a ledger of its own, which ends with the pod. --ledger-claims keeps the ledgers.\n";
  if (flags.name != kGatewayName)
    text += fmt::format("# `penstock manifests planner` finds this gateway with --gateway-name {}.\n", flags.name);
  if (flags.pod_monitor && !setup.admin.tls_certificate.empty() && setup.peer_ca_file.empty())
    text +=
        "# Prometheus must trust the CA of gateway.admin_tls.certificate; gateway.peer_ca_file names it for the "
        "PodMonitor.\n";
  return text;
}

std::string first_line(std::string_view program, const std::string& file) {
  return fmt::format("# Written by `penstock manifests {}` from {}.\n", program, report::printable(file));
}
std::string secret_line(const std::string& name, const std::string& in_namespace) {
  return fmt::format("# The Secret {}-secrets must exist in the namespace {}.\n", name, in_namespace);
}

// Returns what the manifests cannot contain: the Secret, and what the pods of an autoscaler need.
std::string notes_of(const deployment::ProgramManifest& program, Autoscaler autoscaler) {
  std::string text;
  if (program.mounts_secrets || !program.variables.empty()) text += secret_line(program.name, program.in_namespace);
  if (autoscaler != Autoscaler::kNone) text += kDrainNote;
  return text;
}

std::string notes_of(const EngineManifests& engines) {
  const deployment::EngineManifest& manifest = engines.manifest;
  std::string text =
      "# The Deployments begin with one replica each. The number is the planner's, an autoscaler's or that of "
      "`kubectl\n"
      "# scale`, and is not changed by another `kubectl apply`.\n";
  if (!manifest.api_key.empty()) text += secret_line(manifest.name, manifest.in_namespace);
  for (const std::string& note : engines.notes) text += "# " + report::printable(note) + "\n";
  return text;
}

}  // namespace

int write_manifests(const Arguments& arguments) {
  ManifestOptions flags;
  const options::Table own = manifests_table(flags);
  Usage usage = manifests_usage(own);
  keep_flags_of(arguments, usage);
  const auto parsed = parse_arguments(usage, arguments);
  if (!parsed) return parsed.error();
  if (const auto read = read_flags(own, *parsed); !read) return read.error();
  const std::string& kind = parsed->operands[0];
  if (!is_program(kind))
    return report_error(
        {core::ErrorCode::kInvalidInput,
         {},
         "`penstock manifests` writes gateway, planner, engines or autoscalers, is " + options::quote(kind),
         "as `penstock manifests gateway penstock.yaml`"});
  if (flags.name.empty()) flags.name = kind == "autoscalers" ? "llm-token-rates" : "penstock-" + kind;
  if (const options::Problems problems = check_flags(flags, *parsed, kind); !problems.empty())
    return report_error(problems);

  configuration::Configuration made;
  const options::Table table = configuration::configuration_table(made);
  options::Source source{parsed->operands[1], {}, {}};
  auto text = options::read_text_file(source.file, options::YamlLimits{}.bytes_max);
  if (!text) return report_input_error(text.error());
  source.yaml = *std::move(text);
  auto reading = configuration::load(made, table, source);
  if (!reading) return report_error(reading.error());
  if (auto good = deployment::check_utf8(source.yaml); !good) {
    good.error().where = source.file;
    return report_error(good.error());
  }
  deployment::ProgramManifest program;
  program.name = flags.name;
  program.in_namespace = flags.in_namespace;
  program.image = flags.image;
  program.pod_monitor = flags.pod_monitor;
  program.configuration = source.yaml;

  std::string header = first_line(kind, source.file), rule;
  std::vector<nlohmann::ordered_json> objects;
  const auto finish = [&](const auto& manifest) {
    header += notes_of(manifest, flags.autoscaler);
    if (kind == "gateway") header += gateway_notes(flags, made.gateway);
    objects = manifests_of(manifest);
    if (flags.prometheus_rule) rule = "---\n" + deployment::prometheus_rule_of(manifest, flags.runbooks);
  };
  if (kind == "gateway") {
    finish(gateway_manifest(flags, made, std::move(program), *reading));
  } else if (kind == "planner") {
    finish(planner_manifest(flags, made, std::move(program), *reading));
  } else if (kind == "autoscalers") {
    const bool is_keda = flags.autoscaler == Autoscaler::kKeda;
    header += autoscalers_text({flags.name, flags.in_namespace, is_keda, flags.prometheus_rule}, flags.autoscalers,
                               flags.keda, made, *reading);
  } else {
    const EngineManifests engines =
        engine_manifests({flags.name, flags.in_namespace, parsed->has("--image") ? flags.image : std::string{}},
                         flags.engines, made, *reading);
    if (!reading->good()) return report_error(reading->problems());
    header += notes_of(engines);
    objects = manifests_of(engines.manifest);
  }
  if (!reading->good()) return report_error(reading->problems());
  return print(header + deployment::to_yaml(objects) + rule);
}

}  // namespace penstock::cli
