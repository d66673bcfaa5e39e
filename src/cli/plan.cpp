// `penstock plan`: the planner as a daemon, with its live page.
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "cli/arguments.h"
#include "cli/capacities.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/log_setup.h"
#include "cli/planner_setup.h"
#include "cli/replay_command.h"
#include "cli/replay_setup.h"
#include "config/reader.h"
#include "connect/sqlite/decision_store.h"
#include "controller/dashboard.h"
#include "controller/local_fleet.h"
#include "controller/observed_fleet.h"
#include "controller/planner_daemon.h"
#include "forecast/predictor.h"
#include "net/signals.h"
#include "net/tls.h"
#include "report/decision_log.h"
#include "report/format.h"

namespace penstock::cli {
namespace {

// Prefixes are told apart by the gateway in blocks of so many tokens, and trials see them the same way.
constexpr std::uint32_t kTrialBlockTokens = 256;

Usage usage() {
  Usage usage;
  usage.command = "plan";
  usage.summary =
      "Watches a gateway and its engines, decides how many replicas each pool needs, and says why, on a live page.\n"
      "With --engines local it also runs the engines as processes of this machine.";
  const auto add = [&](const char* group, const char* name, const char* value, const char* help, const char* fallback,
                       const char* implied = "true") {
    usage.flags.push_back({group, name, value, help, fallback, implied});
  };
  add("Planner daemon", "--config", "FILE", "YAML file with pools, SLO and planner, as for `penstock replay`", "");
  add("Planner daemon", "--gateway", "ADDRESS", "admin address of the gateway", "127.0.0.1:8081");
  add("Planner daemon", "--engines", "KIND",
      "none: observe the engines that the gateway knows; local: start and stop engine processes on this machine",
      "none");
  add("Planner daemon", "--mode", "MODE",
      "observe: decide without changes; act: apply decisions. With --engines none, always observe", "act");
  add("Planner daemon", "--state-dir", "FOLDER", "folder for the state of fleet and policy, logs and the list of replicas",
      "penstock-state");
  add("Planner daemon", "--dashboard", "ADDRESS", "address of the live page; 0 disables it", "127.0.0.1:8080");
  add("Planner daemon", "--ports", "FIRST-LAST", "ports for local engines, three for each engine", "9000-9899");
  add("Planner daemon", "--keep-engines", "",
      "leave local engines running at the end, so that the next planner takes them over", "");
  add("Planner daemon", "--bind-engines", "", "kill local engines when the planner dies without stopping them", "");
  for (Flag& flag : replay_flags({"Fleet", "Engine", "Planner", "SLO", "Capacity"}))
    usage.flags.push_back(std::move(flag));
  for (Flag& flag : replay_flags())
    if (flag.name == "--slo" || flag.name == "--policy" || flag.name == "--decision-log") {
      if (flag.name == "--policy") flag.fallback = "penstock";
      flag.group = "Planner daemon";
      usage.flags.push_back(std::move(flag));
    }
  add_log_flags(usage);
  usage.notes =
      "Examples:\n"
      "  penstock plan --gateway 127.0.0.1:8081                      watch what is there\n"
      "  penstock plan --engines local --max-replicas 8 --start-up 20s\n";
  return usage;
}

core::Result<actuation::PortRange> parse_ports(const std::string& text) {
  const std::size_t dash = text.find('-');
  const auto first = config::parse_count(text.substr(0, dash), 1, UINT16_MAX);
  const auto last = dash == std::string::npos ? first : config::parse_count(text.substr(dash + 1), 1, UINT16_MAX);
  if (!first || !last || *last < *first)
    return core::invalid_input("--ports", "must be like 9000-9899, is " + config::quoted(text));
  return actuation::PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

tl::expected<config::ReplaySettings, int> read_settings(const Parsed& parsed) {
  config::ReplaySources sources;
  if (parsed.has("--config")) {
    sources.file = parsed.value_of("--config");
    auto text = config::read_text_file(sources.file, config::YamlLimits{}.bytes_max);
    if (!text) return tl::make_unexpected(complain_of_input(text.error()));
    sources.yaml = *std::move(text);
  }
  sources.policies = all_policies();
  sources.predictors = forecast::predictor_names();
  // Live engines have vLLM's blocks where a replay has those of traces.
  if (sources.file.empty())
    for (const auto& [flag, value] : {std::pair{"--block-size", "16"}, {"--kv-blocks", "12288"}})
      sources.flags.push_back({flag, value});
  for (config::FlagValue& flag : replay_flag_values(parsed)) sources.flags.push_back(std::move(flag));
  return load_settings(sources);
}

// The flags by which `penstock engine` becomes a replica of the pool.
std::vector<std::string> engine_arguments(const config::ReplaySettings& settings, const config::PoolSettings& pool,
                                          const std::string& model) {
  const config::EngineSettings& engine = pool.engine;
  std::vector<std::string> words = {"--model-name",
                                    model,
                                    "--role",
                                    pool.role,
                                    "--engine",
                                    engine.model,
                                    "--block-size",
                                    std::to_string(engine.block_tokens),
                                    "--kv-blocks",
                                    std::to_string(engine.kv_blocks),
                                    "--max-sequences",
                                    std::to_string(engine.max_sequences),
                                    "--max-batched-tokens",
                                    std::to_string(engine.max_batched_tokens),
                                    "--start-up",
                                    config::format_duration(pool.start_up),
                                    "--watermark",
                                    config::format_number(engine.watermark),
                                    "--queue-order",
                                    engine.queue_order,
                                    "--fairness-bound",
                                    config::format_duration(engine.fairness_bound),
                                    "--preemption-order",
                                    engine.preemption_order,
                                    "--queue-delay",
                                    config::format_duration(engine.queue_delay),
                                    "--prefill-share",
                                    config::format_number(engine.prefill_share),
                                    "--prefill-share-min",
                                    config::format_number(engine.prefill_share_min),
                                    "--prefill-share-max",
                                    config::format_number(engine.prefill_share_max),
                                    "--kv-bytes-per-token",
                                    config::format_bytes(settings.kv_bytes_per_token),
                                    "--kv-bandwidth",
                                    config::format_bytes(settings.kv_transfer_bytes_per_s)};
  if (!engine.chunked_prefill) words.emplace_back("--no-chunked-prefill");
  if (!engine.prefix_caching) words.emplace_back("--no-prefix-caching");
  return words;
}

// Trials with blocks as coarse as the keys that the gateway tells prefixes apart by.
simulation::RunOptions trial_options(simulation::RunOptions options) {
  for (simulation::PoolSpec& pool : options.pools) {
    const std::uint64_t tokens = std::uint64_t{pool.engine.block_tokens} * pool.engine.kv_blocks;
    pool.engine.block_tokens = kTrialBlockTokens;
    pool.engine.kv_blocks = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, tokens / kTrialBlockTokens));
  }
  return options;
}

controller::DaemonOptions daemon_options(const simulation::RunOptions& run, const std::string& model,
                                         const net::Address& gateway) {
  controller::DaemonOptions made;
  for (const simulation::PoolSpec& pool : run.pools)
    made.pools.push_back({pool.name, pool.role, pool.gpus_per_replica, pool.min_replicas, pool.max_replicas,
                          pool.start_up, pool.price_per_gpu_hour});
  made.kv_bytes_per_token = run.kv_bytes_per_token;
  made.model = model;
  made.slo = {run.slo, run.slo_goal, run.slo_segments};
  made.gateway = gateway;
  return made;
}

core::Result<controller::LocalFleetOptions> fleet_options(const Parsed& parsed,
                                                          const config::ReplaySettings& settings) {
  controller::LocalFleetOptions made;
  const std::filesystem::path folder = parsed.value_of("--state-dir", "penstock-state");
  std::error_code error;
  std::filesystem::create_directories(folder / "logs", error);
  if (error) return core::environment_error(folder.string(), "cannot be made: " + error.message());
  made.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return core::environment_error("/proc/self/exe", error.message());
  made.state_file = folder / "fleet.json";
  made.replicas_file = folder / "replicas.json";
  made.log_folder = folder / "logs";
  made.dies_with_us = parsed.has("--bind-engines");
  const auto ports = parse_ports(parsed.value_of("--ports", "9000-9899"));
  if (!ports) return tl::make_unexpected(ports.error());
  made.ports = *ports;
  const std::string model = settings.model.empty() ? "penstock-sim" : settings.model;
  for (const config::PoolSettings& pool : settings.pools) {
    controller::LocalPool local;
    local.name = pool.name;
    local.role = pool.role == "prefill"  ? signals::Role::kPrefill
                 : pool.role == "decode" ? signals::Role::kDecode
                                         : signals::Role::kAggregated;
    local.model = model;
    local.arguments = engine_arguments(settings, pool, model);
    for (std::string& argument : log_arguments(parsed)) local.arguments.push_back(std::move(argument));
    made.pools.push_back(std::move(local));
  }
  return made;
}

// Writes decisions as they come. A file that cannot be written is reported once, and nothing is written to it any more.
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

core::Result<std::unique_ptr<decision::Policy>> make_live_policy(const Parsed& parsed,
                                                                 const config::ReplaySettings& settings,
                                                                 const simulation::RunOptions& run) {
  const std::string name = parsed.value_of("--policy", std::string{kPenstock});
  if (name == kPenstock) {
    auto options = make_planner_options(settings);
    if (!options) return tl::make_unexpected(options.error());
    return make_penstock(*std::move(options), trial_options(run), 1.0);
  }
  const auto capacity = known_capacity(settings, name);
  if (!capacity) return tl::make_unexpected(capacity.error());
  return make_policy_with(std::vector(run.pools.size(), *capacity), name, run);
}

}  // namespace

int run_planner(const Arguments& arguments) {
  const auto parsed = parse_arguments(usage(), arguments);
  if (!parsed) return parsed.error();
  const auto settings = read_settings(*parsed);
  if (!settings) return settings.error();
  const auto run = make_run_options(*settings);
  if (!run) return complain_of_input(run.error());
  const auto gateway = parse_listen(parsed->value_of("--gateway", "127.0.0.1:8081"), "--gateway");
  if (!gateway) return complain(gateway.error());
  const std::string engines = parsed->value_of("--engines", "none");
  if (engines != "none" && engines != "local")
    return complain(
        {core::ErrorCode::kInvalidInput, "--engines", "must be none or local, is " + config::quoted(engines), {}});
  const bool local = engines == "local";
  const std::string mode = parsed->value_of("--mode", local ? "act" : "observe");
  if (mode != "observe" && mode != "act")
    return complain(
        {core::ErrorCode::kInvalidInput, "--mode", "must be observe or act, is " + config::quoted(mode), {}});
  if (mode == "act" && !local)
    return complain({core::ErrorCode::kInvalidInput, "--mode", "can act on --engines local only", {}});

  net::Loop loop;
  net::Client client{loop};
  controller::LocalFleet* own = nullptr;
  bool ending = false;
  auto opened_log = open_log(*parsed);
  if (!opened_log) return opened_log.error();
  logging::Log& log = **opened_log;
  std::string cause;
  const net::SignalWatch signals{loop, {SIGTERM, SIGINT}, [&](int number) {
                                   cause = signal_name(number);
                                   if (std::exchange(ending, true) || own == nullptr || parsed->has("--keep-engines"))
                                     return loop.stop();
                                   log.write(logging::Event::kDrain, {{"cause", cause}});
                                   own->stop_all([&] { loop.stop(); });
                                 }};
  auto policy = make_live_policy(*parsed, *settings, *run);
  if (!policy) return complain_of_input(policy.error());
  auto sink = DecisionSink::open(settings->decision_log, log);
  if (!sink) return complain(sink.error());

  std::unique_ptr<controller::Fleet> fleet;
  if (local) {
    const auto options = fleet_options(*parsed, *settings);
    if (!options) return complain(options.error());
    auto opened = controller::LocalFleet::open(loop, client, log, *options);
    if (!opened) return complain(opened.error());
    own = opened->get();
    for (std::size_t pool = 0; pool < run->pools.size(); ++pool)
      if (own->target(pool) == 0) own->set_target(pool, run->pools[pool].replicas);
    fleet = *std::move(opened);
  } else {
    auto tls = net::TlsContext::client();
    if (!tls) return complain(tls.error());
    controller::ObservedFleetOptions options;
    options.model = settings->model;
    options.tls = *std::move(tls);
    for (const simulation::PoolSpec& pool : run->pools) options.pools.push_back(pool.role);
    fleet = std::make_unique<controller::ObservedFleet>(loop, client, log, std::move(options));
  }
  controller::DaemonOptions options = daemon_options(*run, settings->model, *gateway);
  options.observe_only = mode == "observe";
  if (local || parsed->has("--state-dir")) {
    const std::filesystem::path folder = parsed->value_of("--state-dir", "penstock-state");
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return complain(core::Error{core::ErrorCode::kEnvironment, folder.string(), error.message(), {}});
    options.policy_state_file = folder / "policy.json";
  }
  controller::PlannerDaemon daemon{loop, client, *fleet, **policy, std::move(options), log, *std::move(sink)};

  std::unique_ptr<controller::Dashboard> board;
  std::string where = "no live page";
  if (const std::string address = parsed->value_of("--dashboard", "127.0.0.1:8080"); address != "0") {
    const auto listen = parse_listen(address, "--dashboard");
    if (!listen) return complain(listen.error());
    const auto socket = net::listen_on(*listen, false);
    if (!socket) return complain(socket.error());
    const std::string url = "http://" + net::local_address(*socket).text();
    where = "live page on " + url;
    log.write(logging::Event::kListening, {{"purpose", "dashboard"}, {"url", url}});
    board = std::make_unique<controller::Dashboard>(loop, *socket, daemon, PENSTOCK_VERSION);
  }
  if (const int code = print(fmt::format("planner ready, {} {}, {}\n", mode == "act" ? "acting on" : "observing",
                                         local ? "local engines" : "the gateway's replicas", where));
      code != kGood)
    return code;
  log_start(log, "plan");
  loop.run();
  return log_stop(log, "plan", cause, kGood);
}

}  // namespace penstock::cli
