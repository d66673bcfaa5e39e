// All that a penstock.yaml may contain. One file serves replay, planner and gateway, and one table describes it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/options.h"
#include "gateway/discovery.h"
#include "logging/logger.h"
#include "options/reading.h"
#include "options/scalars.h"
#include "options/table.h"
#include "planner/penstock/penstock_planner.h"
#include "routing/picking_strategy.h"
#include "simulation/run.h"
#include "workload/reader.h"

namespace penstock::configuration {

inline constexpr std::uint32_t kReplicasMax = 10'000;  // An option accepts no larger number of replicas or GPUs.

struct TraceOptions {
  std::vector<std::string> names;  // files, "synthetic:…" or "built-in"
  workload::ReadOptions read;
  double rate_scale = 1.0;
};

// What one replica carries within the SLO, where the user knows it. A replay load-tests the rest in simulation.
struct KnownCapacity {
  std::optional<double> requests_per_s, input_tokens_per_s, output_tokens_per_s, concurrency;
};

// "From 8:00 on weekdays, for ten hours, at least 6 replicas."
struct Schedule {
  std::string cron;
  core::Duration length{};
  std::string pool;  // after loading the name of one of the pools
  std::uint32_t replicas = 1;
  std::string location{};  // Location of `cron`, for messages.
};

struct PlannerSetup {
  planner::PlannerOptions options;
  core::Duration memory = std::chrono::minutes{20};  // see planner::set_memory()
  std::string warm_trace;                            // file; empty: none
  core::Duration utc_offset{};                       // Offset of the schedules.
  core::Duration start_time{};                       // since 1970: the time of day at the start of the trace
  std::vector<Schedule> schedules;
};

// Files to write; empty: none.
struct OutputOptions {
  std::string json, csv, html;
  std::string decision_log;  // .jsonl or .sqlite
  std::string metrics;       // Prometheus text of the end of each run
  std::string report_dir;    // folder for a report of each policy and interval
  core::Duration report_interval = std::chrono::hours{24};
};

struct TenantOptions : dispatch::Tenant {
  std::vector<std::string> keys, key_files, key_envs;  // API keys; files and variables hold one each
};

struct GatewaySetup {
  std::string listen = "127.0.0.1:8000", admin_listen = "127.0.0.1:8081";
  std::string tls_certificate, tls_key;  // files; empty: plain HTTP
  std::string ledger;                    // SQLite file; empty: none
  std::string access_log = "off";        // "on" (in the log), "off" or a file
  bool prefix_pings = false;
  gateway::DiscoveryOptions discovery;
  std::vector<TenantOptions> tenants;
  gateway::GatewayOptions options;  // 0 threads: one for each core; the SLO is that of the run
};

struct Configuration {
  TraceOptions traces;
  std::vector<std::string> policies = {"static", "hpa-rate", "keda-tokens", "dynamo-latency"};
  options::CountRange frontier;  // static fleets of each of these sizes
  std::uint32_t jobs = 0;        // runs at once; 0: one for each core
  simulation::PoolSpec pool;     // what the pools have in common
  simulation::RunOptions run;    // pools without their step-time models, routers, SLO, faults
  KnownCapacity capacity;
  PlannerSetup planner;
  OutputOptions output;
  GatewaySetup gateway;
  logging::LoggerOptions log;

  Configuration() {
    gateway.options.threads = 0;
    run.router = routing::Strategy::kLive;
  }
};

// "clairvoyant" is no policy that could be deployed, and Penstock's own needs a simulator: the planner's list of
// policies has neither.
inline constexpr std::string_view kClairvoyant = "clairvoyant";
inline constexpr std::string_view kPenstock = "penstock";
[[nodiscard]] std::vector<std::string_view> all_policies();

// The one table of all keys. The configuration outlives it and does not move meanwhile.
[[nodiscard]] options::Table configuration_table(Configuration& configuration);

// The groups of flags that the commands take.
[[nodiscard]] std::vector<std::string_view> replay_groups();
[[nodiscard]] std::vector<std::string_view> gateway_groups();

// Reads the file and the flags, settles what follows from other values, and reports everything that is wrong.
[[nodiscard]] tl::expected<options::Reading, options::Problems> load(Configuration& configuration,
                                                                     const options::Table& table,
                                                                     const options::Source& source);
// With a table of its own.
[[nodiscard]] tl::expected<Configuration, options::Problems> load_configuration(const options::Source& source);

// Reports values that are valid alone and contradict each other. Also derives values that were not given from others,
// such as the replicas from their bounds.
void settle(Configuration& configuration, options::Reading& reading);
void settle_planner(Configuration& configuration, options::Reading& reading);
void settle_gateway(Configuration& configuration, options::Reading& reading);
// `prefix` is the path of the pool, "pools[1]."; a value that all pools share is named by its key alone.
void check_engine(const engine::EngineConfig& engine, const std::string& prefix, options::Reading& reading);

// Rows that several commands share, each declared once.
void add_pool(options::Table& table, simulation::PoolSpec& pool);
void add_engine(options::Table& table, engine::EngineConfig& engine, std::string& step_time_model);
void add_start_up(options::Table& table, core::Duration& start_up);
void add_kv_transfer(options::Table& table, double& bytes_per_token, double& bytes_per_s);
void add_seed(options::Table& table, std::uint64_t& seed);
void add_traces(options::Table& table, TraceOptions& traces);
void add_format(options::Table& table, workload::Format& format);
void add_rate_scale(options::Table& table, double& rate_scale);
void add_slo(options::Table& table, simulation::RunOptions& run);
void add_faults(options::Table& table, simulation::Faults& faults);
void add_capacity(options::Table& table, KnownCapacity& capacity);
void add_planner(options::Table& table, PlannerSetup& planner);
void add_output(options::Table& table, OutputOptions& output, std::uint32_t& series_points);
void add_gateway(options::Table& table, GatewaySetup& gateway);
void add_log(options::Table& table, logging::LoggerOptions& log);

}  // namespace penstock::configuration
