// `penstock plan`: runs the planner as a daemon with a live page.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/log_setup.h"
#include "cli/plan_deployments.h"
#include "cli/plan_kubernetes.h"
#include "cli/plan_reload.h"
#include "cli/plan_setup.h"
#include "connect/nats/endpoint.h"
#include "connect/sqlite/decision_store.h"
#include "controller/decision_events.h"
#include "controller/fleet_part.h"
#include "controller/local_fleet.h"
#include "controller/observed_fleet.h"
#include "controller/planner_daemon.h"
#include "controller/shared_targets.h"
#include "core/enum_names.h"
#include "dashboard/dashboard.h"
#include "dashboard/recorder.h"
#include "net/signals.h"
#include "net/unix_time.h"
#include "options/timestamps.h"
#include "options/values.h"
#include "replay/setup.h"
#include "replay/shared_budget.h"
#include "report/decision_log.h"
#include "report/format.h"
#include "signals/role_switch.h"

namespace penstock::cli {
namespace {

// Time in which answers that end the planner's streams are sent.
constexpr core::Duration kAnswersEnd = std::chrono::milliseconds{20};
// Between looks at the annotations of Kubernetes' objects, which the fleet watches.
constexpr core::Duration kAnnotations = std::chrono::seconds{1};
// Between looks at the targets that the leader publishes when they have changed.
constexpr core::Duration kPublishing = std::chrono::milliseconds{200};
// Longest time to save the policy's state and to give a Lease up at the end.
constexpr core::Duration kHandOver = std::chrono::seconds{3};

// What of a replay's output a daemon writes, too.
const std::set<std::string_view> kOutputs{"--decision-log", "--report-dir", "--report-interval"};

const char* host_name(EngineHost host) {
  return core::name_of<EngineHost::kKubernetes>(host, {"the gateway's replicas", "local engines", "Kubernetes"});
}

std::filesystem::path folder_of(const PlanOptions& options) {
  return options.state_folder.empty() ? "penstock-state" : options.state_folder;
}

Usage plan_usage(const options::Table& daemon, const options::Table& configuration) {
  Usage usage;
  usage.command = "plan";
  usage.summary =
      "Watches a gateway and its engines, decides how many replicas each pool needs, and says why, on a live page.\n"
      "With --engines local it also runs the engines as processes of this machine; with\n"
      "--engines kubernetes it scales Deployments and other objects of a cluster.";
  usage.flags.push_back(
      {"Planner daemon", "--config", "FILE", "YAML with pools, SLO and planner, as `penstock replay` takes it", {}});
  for (Flag& flag : flags_of(daemon)) usage.flags.push_back(std::move(flag));
  for (Flag& flag : flags_of(configuration, {"Fleet", "Engine", "Planner", "SLO", "Capacity", "Log"}))
    usage.flags.push_back(std::move(flag));
  for (Flag& flag : flags_of(configuration, configuration::planner_groups())) usage.flags.push_back(std::move(flag));
  for (Flag& flag : flags_of(configuration, {"Output"}))
    if (kOutputs.contains(flag.name)) usage.flags.push_back(std::move(flag));
  usage.notes =
      "Examples:\n"
      "  penstock plan --gateway 127.0.0.1:8081                      observe the replicas of a gateway\n"
      "  penstock plan --engines local --max-replicas 8 --start-up 20s\n"
      "  penstock plan --engines kubernetes --pool kubernetes=deployment/chat,max_replicas=8\n";
  return usage;
}

// Returns the flags that make `penstock engine` a replica of the pool.
std::vector<std::string> engine_arguments(const simulation::RunOptions& run, simulation::PoolSpec pool,
                                          const std::string& model) {
  double bytes_per_token = run.kv_bytes_per_token, bytes_per_s = run.kv_transfer_bytes_per_s;
  options::Table table;
  configuration::add_engine(table, pool.engine, pool.step_time_model);
  configuration::add_start_up(table, pool.start_up);
  configuration::add_wake_time(table, pool.wake_time);
  configuration::add_switch_time(table, pool.switch_time);
  configuration::add_kv_transfer(table, bytes_per_token, bytes_per_s);
  std::vector<std::string> words = {"--model-name", model, "--role", to_string(pool.role)};
  for (std::string& word : as_flags(table)) words.push_back(std::move(word));
  return words;
}

core::Result<controller::LocalFleetOptions> fleet_options(const PlanOptions& daemon,
                                                          const configuration::Configuration& configuration,
                                                          const std::vector<PlannedDeployment>& deployments) {
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
  made.limits.drain_deadline = configuration.planner.drain_deadline;
  made.limits.unhealthy_drain_deadline = configuration.planner.unhealthy_drain_deadline;
  for (const PlannedDeployment& deployment : deployments) {
    const std::vector<simulation::PoolSpec>& pools = deployment.run.pools;
    for (std::size_t i = 0; i < pools.size(); ++i) {
      controller::LocalPool local;
      local.name = pools[i].name;
      local.role = pools[i].role;
      local.drain_deadline = pools[i].drain_deadline;
      local.unhealthy_drain_deadline = pools[i].unhealthy_drain_deadline;
      local.model = deployment.run.model.empty() ? "penstock-sim" : deployment.run.model;
      local.arguments = engine_arguments(deployment.run, pools[i], local.model);
      if (const auto partner = signals::switch_partner(pools, i))
        local.role_switch = {pools[*partner].name, pools[i].switch_time, pools[i].start_up};
      for (std::string& argument : log_arguments(configuration.log)) local.arguments.push_back(std::move(argument));
      made.pools.push_back(std::move(local));
    }
  }
  return made;
}

// Writes each decision to the decision log, with the start of this planner, because a log may hold those of earlier
// ones. If that fails, it reports the error once and stops writing.
class DecisionSink {
 public:
  static core::Result<DecisionSink> open(const std::string& path, logging::Log& log) {
    DecisionSink sink;
    sink.log_ = &log;
    sink.path_ = path;
    sink.started_ = options::format_timestamp(net::unix_time());
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

  void operator()(decision::DecisionRecord record) {
    if (broken_) return;
    record.started = started_;
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
  std::string path_, started_;
  std::shared_ptr<connect::DecisionStore> store_;
  std::shared_ptr<std::ofstream> file_;
  bool broken_ = false;
};

// Reads the file and the flags. Reports errors and returns the exit code in that case.
tl::expected<Parsed, int> read_options(const Arguments& arguments, PlanOptions& plan, LoadedConfiguration& loaded) {
  const options::Table own = plan_table(plan);
  auto parsed = parse_arguments(plan_usage(own, loaded.table), arguments);
  if (!parsed) return parsed;
  const auto source = source_of(*parsed);
  if (!source) return tl::make_unexpected(source.error());
  if (const auto flags = read_flags(own, *parsed); !flags) return tl::make_unexpected(flags.error());
  // The configuration accepts the policies of a replay, too.
  if (const auto good = check_deployable(plan.policy); !good) return tl::make_unexpected(report_error(good.error()));
  auto read = configuration::load(loaded.made, loaded.table, *source);
  if (!read) return tl::make_unexpected(report_error(read.error()));
  loaded.reading = *std::move(read);
  loaded.has_empty_file = has_empty_file(*source);
  if (plan.acts.value_or(false) && plan.engines == EngineHost::kOthers)
    return tl::make_unexpected(report_error(
        {core::ErrorCode::kInvalidInput, "--mode", "can act on --engines local and --engines kubernetes only", {}}));
  check_engine_host(loaded.made, plan.engines, *loaded.reading);
  if (!loaded.reading->good()) return tl::make_unexpected(report_error(loaded.reading->problems()));
  if (const auto tls = check_dashboard_tls(plan.access); !tls) return tl::make_unexpected(report_error(tls.error()));
  if (const auto gateways = gateways_of(plan); !gateways) return tl::make_unexpected(report_error(gateways.error()));
  return parsed;
}

// Telemetry of engines that others run.
core::Result<controller::EngineWatchOptions> engine_watch_options(const configuration::Configuration& made,
                                                                  net::Loop& loop, net::Client& client,
                                                                  PlannerReloader& reloader) {
  auto credentials = gateway::load_credentials(made.gateway.discovery);
  if (!credentials) return tl::make_unexpected(credentials.error());
  controller::EngineWatchOptions watch;
  if (!made.prometheus.url.empty()) {
    auto source = connect::PrometheusSource::start(loop, client, made.prometheus);
    if (!source) return tl::make_unexpected(source.error());
    watch.prometheus = *std::move(source);
  }
  const auto store = std::make_shared<net::CredentialStore>(*std::move(credentials));
  watch.credentials = [store](const std::string& url) { return store->of(url); };
  watch.gpu_exporters = made.planner.gpu_exporters;
  watch.in_namespace = made.gateway.discovery.pods.in_namespace;
  // The configuration was checked.
  watch.nats = {connect::parse_nats_endpoint(made.planner.nats_server).value().server(), made.planner.nats};
  reloader.reloads_credentials(store);
  return watch;
}

core::Result<std::unique_ptr<controller::Fleet>> open_observed_fleet(const configuration::Configuration& made,
                                                                     const simulation::RunOptions& run,
                                                                     controller::EngineWatchOptions watch,
                                                                     net::Loop& loop, net::Client& client,
                                                                     logging::Log& log) {
  controller::ObservedFleetOptions observed;
  observed.model = run.model;
  observed.engines = std::move(watch);
  for (const simulation::PoolSpec& pool : run.pools) observed.pools.push_back({pool.role, pool.name});
  if (!made.planner.dynamo_discovery.empty()) {
    auto source = controller::DynamoDiscovery::parse(made.planner.dynamo_discovery);
    if (!source) {
      source.error().where = "planner.dynamo_discovery";
      return tl::make_unexpected(source.error());
    }
    observed.dynamo = *std::move(source);
  }
  observed.nats_server = observed.engines.nats.server;
  return std::make_unique<controller::ObservedFleet>(loop, client, log, std::move(observed));
}

// An event of Kubernetes on the target of the pool, if there is one.
void write_event(connect::EventWriter* events, bool acts, const controller::Fleet& fleet,
                 const simulation::RunOptions& run, const decision::DecisionRecord& record) {
  const auto pool = std::find_if(run.pools.begin(), run.pools.end(),
                                 [&](const simulation::PoolSpec& each) { return each.name == record.pool; });
  if (events == nullptr || !acts || pool == run.pools.end()) return;
  const auto object = fleet.target_object(static_cast<std::size_t>(pool - run.pools.begin()));
  if (!object) return;
  if (const auto event = controller::decision_event(record, *object)) events->write(*event);
}

}  // namespace

int run_planner(const Arguments& arguments) {
  PlanOptions plan;
  LoadedConfiguration started{live_defaults()};
  const auto parsed = read_options(arguments, plan, started);
  if (!parsed) return parsed.error();
  const configuration::Configuration& made = started.made;
  auto planned = make_deployments(made);
  if (!planned) return report_input_error(planned.error());
  const bool local = plan.engines == EngineHost::kLocal;

  net::Loop loop;
  net::Client client{loop};
  controller::LocalFleet* own = nullptr;
  bool ending = false;
  std::function<void()> on_end = [] {};
  std::function<void(std::function<void()>)> hand_over = [](const std::function<void()>& done) { done(); };
  auto opened_log = open_log(made.log);
  if (!opened_log) return opened_log.error();
  logging::Logger& log = **opened_log;
  PlannerReloader reloader{plan, started, *parsed, log};
  std::string cause;
  const net::SignalWatch signals{loop, {SIGTERM, SIGINT, SIGHUP}, [&](int number) {
                                   if (number == SIGHUP) return reloader.reload();
                                   cause = signal_name(number);
                                   on_end();
                                   if (std::exchange(ending, true))
                                     return (void)loop.after(kAnswersEnd, [&] { loop.stop(); });
                                   hand_over([&] {
                                     if (own == nullptr || plan.keep_engines)
                                       return (void)loop.after(kAnswersEnd, [&] { loop.stop(); });
                                     log.write(logging::Event::kDrain, {{"cause", cause}});
                                     own->stop_all([&] { loop.stop(); });
                                   });
                                 }};
  const std::unique_ptr<planner::global::SharedBudget> budget = replay::make_shared_budget(made);
  for (std::size_t i = 0; i < planned->size(); ++i) {
    PlannedDeployment& deployment = (*planned)[i];
    auto policy = make_limited_policy(plan, deployment.made, deployment.run, budget.get(), i);
    if (!policy) return report_input_error(policy.error());
    deployment.policy = *std::move(policy);
  }
  auto sink = DecisionSink::open(made.output.decision_log, log);
  if (!sink) return report_error(sink.error());

  const std::string& kubeconfig =
      plan.autoscalers.kubeconfig.empty() ? made.gateway.discovery.pods.kubeconfig : plan.autoscalers.kubeconfig;
  const bool kubernetes = plan.engines == EngineHost::kKubernetes;
  const std::string identity = connect::new_lease_identity();
  std::unique_ptr<connect::EventWriter> events;
  std::unique_ptr<controller::LeaderElection> leadership;
  if (kubernetes || !plan.cluster.lease.empty()) {
    auto writer = open_events(identity, kubeconfig, loop, client, log);
    if (!writer) return report_input_error(writer.error());
    events = *std::move(writer);
  }
  if (!plan.cluster.lease.empty()) {
    auto election = open_leader_election(plan.cluster, identity, kubeconfig, loop, client, *events, log);
    if (!election) return report_input_error(election.error());
    leadership = *std::move(election);
  }
  const auto leads = [&] { return leadership == nullptr || leadership->may_act(); };
  const std::function<bool()> may_write = leadership == nullptr ? std::function<bool()>{} : leads;

  std::unique_ptr<controller::LocalFleet> engines;
  // Its daemons use all that is declared before.
  std::vector<PlannedDeployment> deployments = *std::move(planned);
  if (budget != nullptr) follow_fleets(*budget, deployments);
  std::function<void()> on_lead = [] {};
  if (local && !made.prometheus.url.empty())
    return report_error({core::ErrorCode::kInvalidInput, "prometheus.url",
                         "engines that this planner starts are scraped", "remove it, or use --engines none"});
  if (local) {
    const auto local_options = fleet_options(plan, made, deployments);
    if (!local_options) return report_error(local_options.error());
    auto opened = controller::LocalFleet::open(loop, client, log, *local_options);
    if (!opened) return report_error(opened.error());
    engines = *std::move(opened);
    own = engines.get();
    std::size_t first = 0;
    for (PlannedDeployment& deployment : deployments) {
      deployment.fleet = std::make_unique<controller::FleetPart>(*engines, first);
      first += deployment.run.pools.size();
    }
    on_lead = [&] {
      std::size_t pool = 0;
      for (const PlannedDeployment& deployment : deployments)
        for (const simulation::PoolSpec& spec : deployment.run.pools) {
          if (own->target(pool) == 0) own->set_target(pool, spec.replicas);
          ++pool;
        }
    };
    if (leads()) on_lead();
  } else {
    for (PlannedDeployment& deployment : deployments) {
      auto watch = engine_watch_options(deployment.made, loop, client, reloader);
      if (!watch) return report_input_error(watch.error());
      auto opened = kubernetes
                        ? open_kubernetes_fleet(plan, deployment.made, deployment.run, *std::move(watch), loop, client,
                                                log, *events, may_write)
                        : open_observed_fleet(deployment.made, deployment.run, *std::move(watch), loop, client, log);
      if (!opened) return report_input_error(opened.error());
      deployment.fleet = *std::move(opened);
    }
  }
  const bool has_state = local || !plan.state_folder.empty();
  if (has_state) {
    const std::filesystem::path folder = folder_of(plan);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return report_error(core::Error{core::ErrorCode::kEnvironment, folder.string(), error.message(), {}});
  }
  const auto shared_sink = std::make_shared<DecisionSink>(*std::move(sink));
  bool acts = false;
  for (std::size_t i = 0; i < deployments.size(); ++i) {
    PlannedDeployment& deployment = deployments[i];
    auto options = make_daemon_options(plan, deployment.run);
    if (!options) return report_input_error(options.error());
    name_variants(plan, deployment.made, deployment.run, *options);
    options->deployment = deployment.name;
    options->leadership = leadership.get();
    if (budget != nullptr) options->on_hold = [&budget, i] { budget->hold(i); };
    if (has_state)
      options->policy_store =
          std::make_shared<controller::PolicyStateFile>(folder_of(plan) / (deployment.file_name("policy") + ".json"));
    auto shared_state =
        open_state_config_map(plan.cluster, deployment.name, kubeconfig, leadership.get(), loop, client, log);
    if (!shared_state) return report_input_error(shared_state.error());
    if (*shared_state) options->policy_store = *std::move(shared_state);
    acts = !options->observe_only;
    const auto record = [&, shared_sink, acts](const decision::DecisionRecord& decided) {
      (*shared_sink)(decided);
      write_event(events.get(), acts && leads(), *deployment.fleet, deployment.run, decided);
    };
    deployment.daemon = std::make_unique<controller::PlannerDaemon>(loop, client, *deployment.fleet, *deployment.policy,
                                                                    *std::move(options), log, record);
    // The history outlives a planner that has a folder for its state.
    dashboard::RecorderOptions recorded;
    if (has_state) recorded.history_file = folder_of(plan) / (deployment.file_name("history") + ".jsonl");
    recorded.report_folder = made.output.report_dir;
    if (!recorded.report_folder.empty() && !deployment.name.empty()) recorded.report_folder += "/" + deployment.name;
    recorded.report_interval = made.output.report_interval;
    deployment.recorder =
        std::make_unique<dashboard::Recorder>(loop, *deployment.daemon, PENSTOCK_VERSION, std::move(recorded), log);
  }
  std::unique_ptr<dashboard::Dashboard> board;
  std::string where = "no live page";
  const bool has_page = plan.dashboard != "0";
  if (const std::string& place = has_page ? plan.dashboard : plan.metrics_listen; place != "0") {
    const auto listen = parse_listen(place, has_page ? "--dashboard" : "--metrics-listen");
    if (!listen) return report_error(listen.error());
    auto access = make_access(plan.access);
    if (!access) return report_input_error(access.error());
    const auto socket = net::listen_on(*listen, false);
    if (!socket) return report_error(socket.error());
    const std::string url = (access->tls ? "https://" : "http://") + net::local_address(*socket).text();
    where = has_page ? "live page on " + url : fmt::format("no live page, metrics on {}/metrics", url);
    log.write(logging::Event::kListening, {{"purpose", has_page ? "dashboard" : "metrics"}, {"url", url}});
    warn_if_exposed(log, has_page ? "dashboard" : "metrics", net::local_address(*socket), access->options);
    board = std::make_unique<dashboard::Dashboard>(
        loop, *socket, *deployments.front().daemon, PENSTOCK_VERSION, std::move(access->options),
        std::move(access->tls), has_page ? dashboard::DashboardContent::kAll : dashboard::DashboardContent::kMetrics,
        deployments.front().recorder.get());
    for (std::size_t i = 1; i < deployments.size(); ++i)
      board->add(*deployments[i].daemon, deployments[i].recorder.get());
  }
  where += note_on_prometheus_port(plan, std::getenv("PLANNER_PROMETHEUS_PORT"));
  auto autoscalers = Autoscalers::open(
      plan.autoscalers, loop, client, [&deployments] { return recommended(deployments); }, log);
  if (!autoscalers) return report_input_error(autoscalers.error());
  on_end = [&] { autoscalers->drain(); };
  net::Loop::Timer publishing = 0;
  if (leadership != nullptr) {
    leadership->on_change([&] {
      leads() ? on_lead() : autoscalers->disconnect();
      for (const PlannedDeployment& deployment : deployments) deployment.daemon->follow_leadership();
    });
    leadership->publish([&] { return controller::format_targets(recommended(deployments)); });
    publishing = loop.every(kPublishing, [&] { leadership->publish_now(); });
  }
  net::Loop::Timer hand_over_ends = 0;
  std::size_t handing_over = 0;
  bool has_reported = false;  // Before the engines end, if there were data by then.
  const auto write_reports = [&] {
    for (const PlannedDeployment& deployment : deployments)
      has_reported = deployment.recorder->write_report().has_value() || has_reported;
  };
  hand_over = [&](const std::function<void()>& done) {
    write_reports();
    handing_over = deployments.size();
    const auto once = [&, done] {
      if (std::exchange(hand_over_ends, 0) != 0) done();
    };
    hand_over_ends = loop.after(kHandOver, once);
    for (const PlannedDeployment& deployment : deployments)
      deployment.daemon->end([&, once] {
        if (--handing_over == 0) leadership == nullptr ? once() : leadership->end(once);
      });
  };
  reloader.reloads(deployments, budget.get(), board.get());
  reloader.watch(loop);
  const net::Loop::Timer annotations = loop.every(kAnnotations, [&] { reloader.follow_annotations(); });
  if (const int code = print(
          fmt::format("planner ready, {} {}, {}\n", acts ? "acting on" : "observing", host_name(plan.engines), where));
      code != kGood)
    return code;
  log_start(log, "plan");
  loop.run();
  loop.cancel(annotations);
  if (publishing != 0) loop.cancel(publishing);
  if (!has_reported) write_reports();
  return log_stop(log, "plan", cause, kGood);
}

}  // namespace penstock::cli
