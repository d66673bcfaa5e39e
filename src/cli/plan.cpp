// `penstock plan`: runs the planner as a daemon with a live page.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/log_setup.h"
#include "connect/keda/external_scaler.h"
#include "connect/sqlite/decision_store.h"
#include "controller/local_fleet.h"
#include "controller/observed_fleet.h"
#include "controller/planner_daemon.h"
#include "dashboard/dashboard.h"
#include "net/signals.h"
#include "net/tls.h"
#include "options/values.h"
#include "replay/capacities.h"
#include "replay/planner_setup.h"
#include "replay/setup.h"
#include "report/decision_log.h"
#include "report/format.h"

namespace penstock::cli {
namespace {

// Block size in which the gateway distinguishes prefixes; simulated trials use the same.
constexpr std::uint32_t kTrialBlockTokens = 256;

// Time in which answers that end the planner's streams are sent.
constexpr core::Duration kAnswersEnd = std::chrono::milliseconds{20};

struct DaemonOptions {
  std::string gateway = "127.0.0.1:8081", dashboard = "127.0.0.1:8080";
  std::string gateway_token_file, gateway_token_env, gateway_ca;
  configuration::AccessSetup access;  // Of the live page.
  std::string external_scaler;        // Address for KEDA; empty: none.
  std::string scaler_certificate, scaler_key, scaler_client_ca;
  bool local_engines = false;
  std::optional<bool> acts;  // Empty: it acts if it starts the engines itself.
  std::string state_folder;  // Empty: penstock-state, if it starts engines.
  actuation::PortRange ports{9000, 9899};
  bool keep_engines = false, bind_engines = false;
  std::string policy{configuration::kPenstock};
};

core::Result<actuation::PortRange> parse_ports(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = options::parse_count(text.substr(0, dash), 1, UINT16_MAX);
  const auto last = dash == std::string_view::npos ? first : options::parse_count(text.substr(dash + 1), 1, UINT16_MAX);
  if (!first || !last || *last < *first)
    return core::invalid_input({}, "must be like 9000-9899, is " + options::quote(text));
  return actuation::PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

std::filesystem::path folder_of(const DaemonOptions& options) {
  return options.state_folder.empty() ? "penstock-state" : options.state_folder;
}

void add_credentials(options::Table& table, DaemonOptions& made) {
  using namespace options;
  table.add({"", "--gateway-token-file", "file with the token of the gateway's admin address"},
            text(made.gateway_token_file));
  table.add({"", "--gateway-token-env", "environment variable with that token"}, text(made.gateway_token_env));
  table.add({"", "--gateway-ca", "PEM file that verifies the certificate of the admin address; without it, plain HTTP"},
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

void add_external_scaler(options::Table& table, DaemonOptions& made) {
  using namespace options;
  table.group("KEDA");
  table
      .add({"", "--external-scaler", "address of the gRPC service that KEDA's triggers of type external-push call"},
           text(made.external_scaler))
      .placeholder("ADDRESS");
  table.add({"", "--external-scaler-certificate", "PEM file with its certificate chain; without it, plain text"},
            text(made.scaler_certificate));
  table.add({"", "--external-scaler-key", "PEM file with the key of that certificate"}, text(made.scaler_key));
  table.add({"", "--external-scaler-client-ca", "PEM file that verifies the certificate that each client must show"},
            text(made.scaler_client_ca));
}

options::Table daemon_table(DaemonOptions& made) {
  using namespace options;
  Table table;
  table.group("Planner daemon");
  table.add({"", "--gateway", "admin address of the gateway"}, address(made.gateway));
  table
      .add({"", "--engines",
            "none: the replicas that the gateway knows are observed; local: processes of this machine are started and "
            "stopped"},
           named_choice(made.local_engines, {{"none", false}, {"local", true}}))
      .placeholder("KIND");
  table
      .add({"", "--mode", "observe: only report what the planner would do; act: do it"},
           named_choice(made.acts, {{"observe", false}, {"act", true}}))
      .placeholder("MODE")
      .by_default("act with --engines local, else observe");
  table
      .add({"", "--state-dir", "folder for the state of fleet and policy, logs and the list of replicas"},
           text(made.state_folder))
      .placeholder("FOLDER")
      .by_default("penstock-state");
  table.add({"", "--dashboard", "address of the live page; 0 disables it"}, address(made.dashboard));
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
  table.add({"", "--policy", "autoscaling policy"}, text(made.policy)).placeholder("NAME");
  add_external_scaler(table, made);
  return table;
}

Usage plan_usage(const options::Table& daemon, const options::Table& configuration) {
  Usage usage;
  usage.command = "plan";
  usage.summary =
      "Watches a gateway and its engines, decides how many replicas each pool needs, and says why, on a live page.\n"
      "With --engines local it also runs the engines as processes of this machine.";
  usage.flags.push_back(
      {"Planner daemon", "--config", "FILE", "YAML with pools, SLO and planner, as `penstock replay` takes it", {}});
  for (Flag& flag : flags_of(daemon)) usage.flags.push_back(std::move(flag));
  for (Flag& flag : flags_of(configuration, {"Fleet", "Engine", "Planner", "SLO", "Capacity", "Log"}))
    usage.flags.push_back(std::move(flag));
  for (Flag& flag : flags_of(configuration, configuration::planner_groups())) usage.flags.push_back(std::move(flag));
  for (Flag& flag : flags_of(configuration, {"Output"}))
    if (flag.name == "--decision-log") usage.flags.push_back(std::move(flag));
  usage.notes =
      "Examples:\n"
      "  penstock plan --gateway 127.0.0.1:8081                      observe the replicas of a gateway\n"
      "  penstock plan --engines local --max-replicas 8 --start-up 20s\n";
  return usage;
}

// Returns the flags that make `penstock engine` a replica of the pool.
std::vector<std::string> engine_arguments(const simulation::RunOptions& run, simulation::PoolSpec pool,
                                          const std::string& model) {
  double bytes_per_token = run.kv_bytes_per_token, bytes_per_s = run.kv_transfer_bytes_per_s;
  options::Table table;
  configuration::add_engine(table, pool.engine, pool.step_time_model);
  configuration::add_start_up(table, pool.start_up);
  configuration::add_kv_transfer(table, bytes_per_token, bytes_per_s);
  std::vector<std::string> words = {"--model-name", model, "--role", to_string(pool.role)};
  for (std::string& word : as_flags(table)) words.push_back(std::move(word));
  return words;
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

controller::DaemonOptions controller_options(const simulation::RunOptions& run, const net::Address& gateway) {
  controller::DaemonOptions made;
  made.pools.assign(run.pools.begin(), run.pools.end());
  made.kv_bytes_per_token = run.kv_bytes_per_token;
  made.model = run.model;
  made.slo = {run.slo, run.slo_goal, run.slo_segments};
  made.gateway = gateway;
  return made;
}

core::Result<controller::LocalFleetOptions> fleet_options(const DaemonOptions& daemon,
                                                          const configuration::Configuration& configuration,
                                                          const simulation::RunOptions& run) {
  controller::LocalFleetOptions made;
  const std::filesystem::path folder = folder_of(daemon);
  std::error_code error;
  std::filesystem::create_directories(folder / "logs", error);
  if (error) return core::environment_error(folder.string(), "cannot be made: " + error.message());
  made.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return core::environment_error("/proc/self/exe", error.message());
  made.state_file = folder / "fleet.json";
  made.replicas_file = folder / "replicas.json";
  made.log_folder = folder / "logs";
  made.dies_with_us = daemon.bind_engines;
  made.ports = daemon.ports;
  const std::string model = run.model.empty() ? "penstock-sim" : run.model;
  for (const simulation::PoolSpec& pool : run.pools) {
    controller::LocalPool local;
    local.name = pool.name;
    local.role = pool.role;
    local.model = model;
    local.arguments = engine_arguments(run, pool, model);
    for (std::string& argument : log_arguments(configuration.log)) local.arguments.push_back(std::move(argument));
    made.pools.push_back(std::move(local));
  }
  return made;
}

// Writes each decision to the decision log. If that fails, it reports the error once and stops writing.
class DecisionSink {
 public:
  static core::Result<DecisionSink> open(const std::string& path, logging::Log& log) {
    DecisionSink sink;
    sink.log_ = &log;
    sink.path_ = path;
    if (path.ends_with(".sqlite")) {
      auto store = connect::DecisionStore::open(path);
      if (!store) return tl::make_unexpected(store.error());
      sink.store_ = std::make_shared<connect::DecisionStore>(*std::move(store));
    } else if (!path.empty()) {
      // A new file is readable by its owner only.
      if (const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600); file >= 0) ::close(file);
      sink.file_ = std::make_shared<std::ofstream>(path, std::ios::app);
      if (!*sink.file_) return core::environment_error(path, "cannot be written");
    }
    return sink;
  }

  void operator()(const decision::DecisionRecord& record) {
    if (broken_) return;
    if (store_) {
      if (auto done = store_->append(std::span{&record, 1}); !done) give_up(done.error().message());
    } else if (file_) {
      *file_ << report::to_decision_jsonl(std::span{&record, 1}) << std::flush;
      if (!*file_) give_up(path_ + ": cannot be written");
    }
  }

 private:
  void give_up(const std::string& why) {
    broken_ = true;
    log_->write(logging::Event::kDecisionLogFailed, {{"error", why}});
  }

  logging::Log* log_ = nullptr;
  std::string path_;
  std::shared_ptr<connect::DecisionStore> store_;
  std::shared_ptr<std::ofstream> file_;
  bool broken_ = false;
};

core::Result<std::unique_ptr<decision::Policy>> make_live_policy(const std::string& name,
                                                                 const configuration::Configuration& made,
                                                                 const simulation::RunOptions& run,
                                                                 bool local_engines) {
  if (name == configuration::kPenstock) {
    auto options = replay::make_planner_options(made);
    if (!options) return tl::make_unexpected(options.error());
    options->guesses_engines = !local_engines;
    return replay::make_penstock(*std::move(options), trial_options(run), 1.0);
  }
  const auto capacity = replay::known_capacity(made.capacity, name);
  if (!capacity) return tl::make_unexpected(capacity.error());
  return replay::make_policy_with(std::vector(run.pools.size(), *capacity), name, run);
}

// Reads the file and the flags. Reports errors and returns the exit code in that case.
tl::expected<void, int> read_options(const Arguments& arguments, DaemonOptions& daemon,
                                     configuration::Configuration& made) {
  const options::Table own = daemon_table(daemon), table = configuration::configuration_table(made);
  const auto parsed = parse_arguments(plan_usage(own, table), arguments);
  if (!parsed) return tl::make_unexpected(parsed.error());
  const auto source = source_of(*parsed);
  if (!source) return tl::make_unexpected(source.error());
  if (const auto read = read_flags(own, *parsed); !read) return tl::make_unexpected(read.error());
  if (const auto loaded = configuration::load(made, table, *source); !loaded)
    return tl::make_unexpected(report_error(loaded.error()));
  if (daemon.acts.value_or(false) && !daemon.local_engines)
    return tl::make_unexpected(
        report_error({core::ErrorCode::kInvalidInput, "--mode", "can act on --engines local only", {}}));
  return {};
}

// Adds the credentials for the gateway's admin address.
core::Result<void> add_gateway_credentials(const DaemonOptions& daemon, controller::DaemonOptions& made) {
  const auto tokens = read_tokens(daemon.gateway_token_file, daemon.gateway_token_env);
  if (!tokens) return tl::make_unexpected(tokens.error());
  if (!tokens->empty()) made.gateway_authorization = "Bearer " + tokens->front();
  if (daemon.gateway_ca.empty()) return {};
  auto tls = net::TlsContext::client(daemon.gateway_ca);
  if (!tls) return tl::make_unexpected(tls.error());
  made.gateway_tls = *std::move(tls);
  return {};
}

core::Result<std::unique_ptr<connect::ExternalScaler>> open_external_scaler(const DaemonOptions& options,
                                                                            net::Loop& loop,
                                                                            const controller::PlannerDaemon& daemon,
                                                                            logging::Log& log) {
  const auto listen = parse_listen(options.external_scaler, "--external-scaler");
  if (!listen) return tl::make_unexpected(listen.error());
  std::shared_ptr<net::TlsContext> tls;
  if (!options.scaler_certificate.empty()) {
    auto made = net::TlsContext::server(
        options.scaler_certificate, options.scaler_key, options.scaler_client_ca,
        options.scaler_client_ca.empty() ? net::ClientCertificates::kOptional : net::ClientCertificates::kRequired);
    if (!made) return tl::make_unexpected(made.error());
    tls = *std::move(made);
    tls->use_http2();
  } else if (!options.scaler_key.empty() || !options.scaler_client_ca.empty()) {
    return core::invalid_input("--external-scaler-certificate", "is missing", "name the PEM file of the certificate");
  }
  const auto socket = net::listen_on(*listen, false);
  if (!socket) return tl::make_unexpected(socket.error());
  log.write(logging::Event::kListening,
            {{"purpose", "external scaler"}, {"url", "grpc://" + net::local_address(*socket).text()}});
  return std::make_unique<connect::ExternalScaler>(
      loop, *socket, [&daemon] { return daemon.recommended(); }, std::move(tls));
}

}  // namespace

int run_planner(const Arguments& arguments) {
  DaemonOptions daemon_options;
  configuration::Configuration made;
  // Live engines use the block size of vLLM; a replay uses that of traces.
  made.pool.engine.block_tokens = 16;
  made.pool.engine.kv_blocks = 12'288;
  if (const auto read = read_options(arguments, daemon_options, made); !read) return read.error();
  const auto run = replay::make_run_options(made.run);
  if (!run) return report_input_error(run.error());
  const auto gateway = parse_listen(daemon_options.gateway, "--gateway");
  if (!gateway) return report_error(gateway.error());
  const bool local = daemon_options.local_engines;
  const bool acts = daemon_options.acts.value_or(local);

  net::Loop loop;
  net::Client client{loop};
  controller::LocalFleet* own = nullptr;
  bool ending = false;
  std::function<void()> on_end = [] {};
  auto opened_log = open_log(made.log);
  if (!opened_log) return opened_log.error();
  logging::Log& log = **opened_log;
  std::string cause;
  const net::SignalWatch signals{loop, {SIGTERM, SIGINT, SIGHUP}, [&](int number) {
                                   if (number == SIGHUP)
                                     return log.write(logging::Event::kReloadIgnored, {{"cause", signal_name(number)}});
                                   cause = signal_name(number);
                                   on_end();
                                   if (std::exchange(ending, true) || own == nullptr || daemon_options.keep_engines)
                                     return (void)loop.after(kAnswersEnd, [&] { loop.stop(); });
                                   log.write(logging::Event::kDrain, {{"cause", cause}});
                                   own->stop_all([&] { loop.stop(); });
                                 }};
  auto policy = make_live_policy(daemon_options.policy, made, *run, daemon_options.local_engines);
  if (!policy) return report_input_error(policy.error());
  auto sink = DecisionSink::open(made.output.decision_log, log);
  if (!sink) return report_error(sink.error());

  std::unique_ptr<controller::Fleet> fleet;
  if (local && !made.prometheus.url.empty())
    return report_error({core::ErrorCode::kInvalidInput, "prometheus.url",
                         "engines that this planner starts are scraped", "remove it, or use --engines none"});
  if (local) {
    const auto options = fleet_options(daemon_options, made, *run);
    if (!options) return report_error(options.error());
    auto opened = controller::LocalFleet::open(loop, client, log, *options);
    if (!opened) return report_error(opened.error());
    own = opened->get();
    for (std::size_t pool = 0; pool < run->pools.size(); ++pool)
      if (own->target(pool) == 0) own->set_target(pool, run->pools[pool].replicas);
    fleet = *std::move(opened);
  } else {
    auto credentials = gateway::load_credentials(made.gateway.discovery);
    if (!credentials) return report_error(credentials.error());
    controller::ObservedFleetOptions options;
    options.model = run->model;
    if (!made.prometheus.url.empty()) {
      auto source = connect::PrometheusSource::start(loop, client, made.prometheus);
      if (!source) return report_input_error(source.error());
      options.prometheus = *std::move(source);
    }
    options.credentials = [store = *std::move(credentials)](const std::string& url) { return store.of(url); };
    for (const simulation::PoolSpec& pool : run->pools) options.pools.push_back(pool.role);
    if (!made.planner.dynamo_discovery.empty()) {
      auto source = controller::DynamoDiscovery::parse(made.planner.dynamo_discovery);
      if (!source) {
        source.error().where = "planner.dynamo_discovery";
        return report_input_error(source.error());
      }
      options.dynamo = *std::move(source);
    }
    fleet = std::make_unique<controller::ObservedFleet>(loop, client, log, std::move(options));
  }
  controller::DaemonOptions options = controller_options(*run, *gateway);
  options.observe_only = !acts;
  if (const auto added = add_gateway_credentials(daemon_options, options); !added)
    return report_input_error(added.error());
  if (local || !daemon_options.state_folder.empty()) {
    const std::filesystem::path folder = folder_of(daemon_options);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return report_error(core::Error{core::ErrorCode::kEnvironment, folder.string(), error.message(), {}});
    options.policy_state_file = folder / "policy.json";
  }
  controller::PlannerDaemon daemon{loop, client, *fleet, **policy, std::move(options), log, *std::move(sink)};

  std::unique_ptr<dashboard::Dashboard> board;
  std::string where = "no live page";
  if (daemon_options.dashboard != "0") {
    const auto listen = parse_listen(daemon_options.dashboard, "--dashboard");
    if (!listen) return report_error(listen.error());
    auto access = make_access(daemon_options.access);
    if (!access) return report_input_error(access.error());
    const auto socket = net::listen_on(*listen, false);
    if (!socket) return report_error(socket.error());
    const std::string url = (access->tls ? "https://" : "http://") + net::local_address(*socket).text();
    where = "live page on " + url;
    log.write(logging::Event::kListening, {{"purpose", "dashboard"}, {"url", url}});
    warn_if_exposed(log, "dashboard", net::local_address(*socket), access->options);
    board = std::make_unique<dashboard::Dashboard>(loop, *socket, daemon, PENSTOCK_VERSION, std::move(access->options),
                                                   std::move(access->tls));
  }
  std::unique_ptr<connect::ExternalScaler> scaler;
  if (!daemon_options.external_scaler.empty()) {
    auto opened = open_external_scaler(daemon_options, loop, daemon, log);
    if (!opened) return report_input_error(opened.error());
    scaler = *std::move(opened);
    on_end = [&] { scaler->drain(); };
  }
  if (const int code = print(fmt::format("planner ready, {} {}, {}\n", acts ? "acting on" : "observing",
                                         local ? "local engines" : "the gateway's replicas", where));
      code != kGood)
    return code;
  log_start(log, "plan");
  loop.run();
  return log_stop(log, "plan", cause, kGood);
}

}  // namespace penstock::cli
