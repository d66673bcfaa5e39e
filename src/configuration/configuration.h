// All that a penstock.yaml may contain. One file serves replay, planner and gateway, and one table describes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "connect/nats/access.h"
#include "connect/prometheus/source.h"
#include "dispatch/options.h"
#include "gateway/discovery.h"
#include "logging/logger.h"
#include "options/reading.h"
#include "options/scalars.h"
#include "options/table.h"
#include "planner/global/global_planner.h"
#include "planner/penstock/penstock_planner.h"
#include "routing/picking_strategy.h"
#include "simulation/run.h"
#include "workload/reader.h"
#include "workload/transform.h"

namespace penstock::configuration {

inline constexpr std::uint32_t kReplicasMax = 10'000;  // An option accepts no larger number of replicas or GPUs.

struct TraceOptions {
  std::vector<std::string> names;  // Files, "synthetic:…" or "built-in".
  workload::ReadOptions read;
  workload::RateScale rate_scale;
  double batch_share = 0.0;
};

// Capacity of one replica within the SLO, as far as the user knows it. A replay determines the rest by simulated load
// tests.
struct KnownCapacity {
  std::optional<double> requests_per_s, input_tokens_per_s, output_tokens_per_s, concurrency;
};

// "From 8:00 on weekdays, for ten hours, at least 6 replicas."
struct Schedule {
  std::string cron;
  core::Duration length{};
  std::string pool;  // After loading, the name of one of the pools.
  std::uint32_t replicas = 1;
  std::string location{};  // Location of `cron`, for messages.
};

// Of a planner that scales objects of Kubernetes.
struct KubernetesSetup {
  core::Duration manual_hold = std::chrono::minutes{10}, pending_timeout = std::chrono::minutes{5};
  std::vector<std::string> single_node;  // Names of pools each of whose replicas must run on one node.
};

struct PlannerSetup {
  planner::PlannerOptions options;
  // Of the engines that the planner runs itself; see actuation::Limits.
  core::Duration drain_deadline = std::chrono::minutes{10};
  core::Duration unhealthy_drain_deadline = std::chrono::seconds{30};
  core::Duration memory = std::chrono::minutes{20};   // See planner::set_memory().
  std::string warm_trace;                             // File; empty means none.
  std::string nats_server = "nats://127.0.0.1:4222";  // Of Dynamo's event plane.
  connect::NatsAccess nats;                           // For that server.
  std::vector<std::string> gpu_exporters;             // URLs of DCGM exporters.
  KubernetesSetup kubernetes;
  std::string dynamo_discovery;  // "file:/path" or "etcd:http://host:port"; empty means none.
  core::Duration utc_offset{};   // Of the local time of schedules.
  core::Duration start_time{};   // Time since 1970 of the start of the trace.
  std::vector<Schedule> schedules;
};

// A model that a planner plans beside others, with the values that all deployments share where it gives none.
struct DeploymentSetup {
  std::string name;
  int priority = 0;     // Class of the shared budget; higher classes are served first.
  double weight = 1.0;  // Weight within the class.
  TraceOptions traces;  // Of a replay.
  simulation::PoolSpec pool;
  simulation::RunOptions run;
  KnownCapacity capacity;
  PlannerSetup planner;
};

// What the pools of all deployments may use together.
struct BudgetSetup {
  planner::global::Budget budget;
  planner::global::Objective objective = planner::global::Objective::kMaxMin;
  std::vector<planner::global::Hardware> hardware;  // GPUs in stock. Prices are those of the pools.

  [[nodiscard]] bool is_limited() const { return budget.gpus || budget.money_per_hour || !hardware.empty(); }
};

// Files that a replay writes; an empty name means none.
struct OutputOptions {
  std::string json, csv, html;
  std::string decision_log;  // .jsonl or .sqlite
  std::string metrics;       // Prometheus text with the state at the end of each run.
  std::string report_dir;    // Folder for one report per policy and interval.
  core::Duration report_interval = std::chrono::hours{24};
};

struct TenantOptions : dispatch::Tenant {
  std::vector<std::string> keys, key_files, key_envs;  // API keys. Each file and variable contains one.
};

// Who may read an address for operators. Files and variables hold one token on each line.
struct AccessSetup {
  std::vector<std::string> hosts;
  std::string token_file, token_env;
  bool token_guards_all = true;
  std::string tls_certificate, tls_key, client_ca;  // Files; empty means plain HTTP, or no client certificates.
};

struct EndpointPickerSetup {
  std::string listen, health_listen;  // Empty: none.
  bool tls = true;
  std::string certificate, key;  // Files; empty: a self-signed certificate is made at the start.
};

struct GatewaySetup {
  std::string listen = "127.0.0.1:8000", admin_listen = "127.0.0.1:8081";
  AccessSetup admin;
  EndpointPickerSetup endpoint_picker;
  std::string tls_certificate, tls_key;  // Files; empty means plain HTTP.
  std::string ledger;                    // SQLite file; empty means none.
  core::Duration ledger_retention{};     // Entries older than this are removed; 0 keeps all.
  std::string record;                    // Trace file; empty means none.
  double record_bytes_max = 1 << 30;     // Of that file, and of the older one beside it.
  std::string access_log = "off";        // "on" (in the log), "off" or a file.
  std::string peer_ca_file;              // Of options.peers; empty means the certificates of the system.
  bool prefix_pings = false;
  core::Duration prefix_ping_interval = routing::PingOptions{}.idle;
  std::string warm_up_prompts;                           // File; empty means none.
  bool watch = true;                                     // Read files again when they change.
  core::Duration drain_delay = std::chrono::seconds{1};  // From SIGTERM until new connections are refused.
  core::Duration drain_time = std::chrono::seconds{25};  // From the signal until open requests are cut.
  gateway::DiscoveryOptions discovery;
  std::vector<TenantOptions> tenants;
  gateway::GatewayOptions options;  // 0 threads means one per core. The SLO is that of the run.
};

struct Configuration {
  TraceOptions traces;
  std::vector<std::string> policies = {"penstock", "static", "hpa-rate", "keda-tokens", "dynamo-latency"};
  options::CountRange frontier;  // Sizes of static fleets.
  core::Duration score_from{};   // Earlier arrivals of a replay are served and not counted.
  bool answer = true;            // A replay looks for the cheapest fixed fleet that reaches the goal.
  std::uint32_t jobs = 0;        // Concurrent runs; 0 means one per core.
  simulation::PoolSpec pool;     // Values that all pools share.
  simulation::RunOptions run;    // Pools have no step-time models yet.
  KnownCapacity capacity;
  PlannerSetup planner;
  std::vector<DeploymentSetup> deployments;  // Empty: one, of the values above.
  BudgetSetup budget;
  OutputOptions output;
  GatewaySetup gateway;
  connect::PrometheusOptions prometheus;
  logging::LoggerOptions log;

  Configuration() {
    gateway.options.threads = 0;
    run.router = routing::Strategy::kLive;
  }
};

// The planner's list of policies does not contain these: "clairvoyant" and "schedule" cannot be deployed, and
// Penstock's own policy needs a simulator.
inline constexpr std::string_view kClairvoyant = "clairvoyant";
inline constexpr std::string_view kPenstock = "penstock";
inline constexpr std::string_view kSchedule = "schedule";  // Followed by a colon and the name of a file.
[[nodiscard]] std::vector<std::string_view> all_policies();

// The table of all keys. The configuration must outlive it and must not move.
[[nodiscard]] options::Table configuration_table(Configuration& configuration);

// Groups of flags of the commands.
[[nodiscard]] std::vector<std::string_view> replay_groups();
[[nodiscard]] std::vector<std::string_view> gateway_groups();
[[nodiscard]] std::vector<std::string_view> planner_groups();  // Of `penstock plan` only.

// Reads the file and the flags and derives values that depend on others. The reading has all errors. A value that
// cannot be read keeps its default and is not checked for contradictions with others.
[[nodiscard]] options::Reading load_as_far_as_read(Configuration& configuration, const options::Table& table,
                                                   const options::Source& source);
// The same, for callers that need a configuration without errors.
[[nodiscard]] tl::expected<options::Reading, options::Problems> load(Configuration& configuration,
                                                                     const options::Table& table,
                                                                     const options::Source& source);
// The same with a new configuration and table.
[[nodiscard]] tl::expected<Configuration, options::Problems> load_configuration(const options::Source& source);

// The configuration of one deployment alone, with its own values in place of those that all share.
[[nodiscard]] Configuration of_deployment(const Configuration& configuration, std::size_t deployment);

// The configuration of each deployment alone, or of the only one. The names of pools are unique among all: the pool
// "default" of the deployment "chat" is called "chat", any other pool "chat.NAME".
[[nodiscard]] std::vector<Configuration> configurations_of(const Configuration& configuration);
// The pools of all of them.
[[nodiscard]] std::vector<simulation::PoolSpec> all_pools(const Configuration& configuration);

// Reports values that are valid alone and contradict each other. Also derives values that were not given from others,
// such as the initial replicas from their bounds.
void settle(Configuration& configuration, options::Reading& reading);
void settle_planner(Configuration& configuration, options::Reading& reading);
void settle_gateway(Configuration& configuration, options::Reading& reading);
// Reports contradictions between the requests that several aggregated pools serve.
void check_pool_rules(const Configuration& made, options::Reading& reading);
void settle_deployments(Configuration& configuration, options::Reading& reading);
// Sets what depends on pools that may have no replica, and reports what they lack. Called before settle_gateway().
void settle_scale_to_zero(Configuration& configuration, options::Reading& reading);
// Reports overload policies of classes and tenants that contradict each other or have no effect.
void check_overload(const GatewaySetup& setup, options::Reading& reading);
// Sets the GPUs of a replica from the parallelism of a roofline, and reports a number at `path` that contradicts it.
void settle_gpus(simulation::PoolSpec& pool, const std::string& path, options::Reading& reading);
// Keys of the limits of an engine.
struct EngineLimitPaths {
  std::string kv_blocks, max_sequences;
};
// The same of the KV cache and the sequences at once. The KV cache of a roofline follows the memory of the GPUs, and a
// number that does not fit is reported. Of a measured profile both are what it states, unless they were given or it
// states the limits of its measurement only.
void settle_engine_limits(engine::EngineConfig& engine, const std::string& step_time_model,
                          const EngineLimitPaths& paths, options::Reading& reading);
// `prefix` is the path of the pool, such as "pools[1].". A value that all pools share is reported by its key alone.
void check_engine(const engine::EngineConfig& engine, const std::string& prefix, options::Reading& reading);

// Rows that several commands share.
void add_fleet(options::Table& table, simulation::PoolSpec& pool, simulation::RunOptions& run);
void add_pool(options::Table& table, simulation::PoolSpec& pool);
void add_engine(options::Table& table, engine::EngineConfig& engine, std::string& step_time_model);
void add_start_up(options::Table& table, core::Duration& start_up);
void add_wake_time(options::Table& table, core::Duration& wake_time);
void add_switch_time(options::Table& table, core::Duration& switch_time);
void add_kv_transfer(options::Table& table, double& bytes_per_token, double& bytes_per_s);
void add_seed(options::Table& table, std::uint64_t& seed);
void add_traces(options::Table& table, TraceOptions& traces);
void add_trace_format(options::Table& table, workload::ReadOptions& read);
void add_rate_scale(options::Table& table, workload::RateScale& scale);
void add_slo(options::Table& table, simulation::RunOptions& run);
void add_faults(options::Table& table, simulation::Faults& faults);
void add_capacity(options::Table& table, KnownCapacity& capacity);
void add_planner(options::Table& table, PlannerSetup& planner);
void add_deployments(options::Table& table, Configuration& configuration);
void add_output(options::Table& table, OutputOptions& output, std::uint32_t& series_points);
void add_gateway(options::Table& table, GatewaySetup& gateway);
void add_tenants(options::Table& table, GatewaySetup& gateway);
void add_classes(options::Table& table, dispatch::DispatchOptions& dispatch);
void add_deferral(options::Table& table, dispatch::BatchOptions& batch);
void add_peers(options::Table& table, GatewaySetup& gateway);
void add_endpoint_picker(options::Table& table, EndpointPickerSetup& picker);
void add_log(options::Table& table, logging::LoggerOptions& log);
void add_prometheus(options::Table& table, connect::PrometheusOptions& prometheus);

}  // namespace penstock::configuration
