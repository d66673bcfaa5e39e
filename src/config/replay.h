// What a replay is asked to do, as plain values that know nothing of the rooms they are for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader.h"
#include "config/scalars.h"
#include "core/time.h"

namespace penstock::config {

// Names ("kv", "fcfs") are text out of a fixed choice; what a default is, docs/reference/replay-options.md says for each.
struct EngineSettings {
  std::string model = "polynomial";  // a step-time model: "polynomial", "linear:…", "roofline:…", a profile's file
  std::uint32_t block_tokens = 512;
  std::uint32_t kv_blocks = 2000;
  std::uint32_t max_sequences = 256;
  std::uint32_t max_batched_tokens = 8192;
  bool chunked_prefill = true;
  bool prefix_caching = true;
  double watermark = 0.0;
  std::string queue_order = "fcfs";
  core::Duration fairness_bound = std::chrono::seconds{10};
  std::string preemption_order = "lifo";
  core::Duration queue_delay{};
  double prefill_share = 1.0, prefill_share_min = 0.1, prefill_share_max = 0.6;
};

struct PoolSettings {
  std::string name = "default";
  std::string role = "aggregated";
  std::uint32_t replicas = 1, min_replicas = 1, max_replicas = 64;
  std::uint32_t gpus = 1;
  double price = 1.0;  // of one GPU for one hour
  core::Duration start_up = std::chrono::seconds{120};
  EngineSettings engine;
};

struct FaultSettings {
  core::Duration telemetry_delay{};
  double telemetry_loss = 0.0, telemetry_lie = 0.0;
  double crashes_per_replica_hour = 0.0;
  double start_up_spread = 0.0;
  std::uint32_t slow_replicas = 0;
  double slow_factor = 1.0;
  double refused_actions = 0.0;
};

// What one replica carries within the SLO, where the user knows it; what is not given is load-tested in simulation.
struct CapacitySettings {
  std::optional<double> requests_per_s, input_tokens_per_s, output_tokens_per_s, concurrency;
};

// Requests with an SLO of their own: those that every selector that is given matches.
struct SegmentSettings {
  std::string name;
  std::string model, traffic_class, tenant;               // empty: any
  std::uint32_t prompt_min = 0, prompt_max = UINT32_MAX;  // tokens of the prompt, both included
  std::optional<core::Duration> ttft, itl;  // after loading all three are there: what is not given is the general one
  std::optional<double> goal;
};

// "From 8:00 on weekdays, for ten hours, at least 6 replicas."
struct ScheduleSettings {
  std::string cron;  // as it was written; `place` is where ("p.yaml:7:15: planner.schedules[0].cron")
  std::string place;
  core::Duration length{};
  std::string pool;  // after loading the name of one of the pools
  std::uint32_t replicas = 0;
};

struct PlannerSettings {
  std::string target = "sla";
  std::string phase = "cost";
  core::Duration throughput_interval = std::chrono::seconds{180};  // 0: this loop is off
  core::Duration load_interval = std::chrono::seconds{5};          // 0: this loop is off
  core::Duration memory = std::chrono::minutes{20};                // of the traffic that fleets are tried on, at most
  double utilisation = 0.75;
  core::Duration cost_after = std::chrono::minutes{30};
  std::string predictor = "auto";
  std::string warm_trace;  // file; empty: none
  std::uint32_t warm_pool = 0;
  core::Duration utc_offset{};
  core::Duration start_time{};  // since 1970-01-01T00:00:00Z: the moment that the trace's start means
  std::vector<ScheduleSettings> schedules;
  std::uint32_t gpu_budget = 0;  // of all pools together; 0: none
  double growth = 3.0;           // times a minute
  core::Duration stabilisation = std::chrono::minutes{5};
  double shrink_share = 0.34;
  double sensitivity = 80.0;  // 0..100; higher shrinks sooner
  core::Duration manual_hold = std::chrono::minutes{10};
  core::Duration failure_cooldown = std::chrono::minutes{2};
  double kv_hot = 0.75;
};

struct ReplaySettings {
  std::vector<std::string> traces;  // files, "synthetic:…" or "built-in"
  std::string format = "auto";
  bool skip_bad_rows = false;
  double rate_scale = 1.0;
  core::Duration from{};
  std::optional<core::Duration> to;

  std::vector<std::string> policies = {"static", "hpa-rate", "keda-tokens", "dynamo-latency"};
  CountRange frontier;
  std::string router = "live";
  core::Duration slo_ttft = std::chrono::seconds{2};
  core::Duration slo_itl = std::chrono::milliseconds{50};
  double slo_goal = 0.99;                     // share of the requests that are to keep both
  std::vector<SegmentSettings> slo_segments;  // the first that matches a request counts
  PlannerSettings planner;
  CapacitySettings capacity;
  std::uint64_t seed = 1;
  std::uint32_t jobs = 0;  // runs at once; 0: as many as there are cores

  std::string model;  // that the deployment serves; empty: any that a segment asks for
  std::vector<PoolSettings> pools = {PoolSettings{}};
  double kv_bytes_per_token = 131072.0;
  double kv_transfer_bytes_per_s = 50e9;
  FaultSettings faults;

  std::string json, csv, html;  // files to write; empty: none
  std::string decision_log;     // one more: FILE.jsonl or FILE.sqlite
  std::string metrics;          // one more: Prometheus' text of the end of each run
  std::string report_dir;       // folder for a report of each policy and interval; empty: none
  core::Duration report_interval = std::chrono::hours{24};
  std::uint32_t series_points = 360;
};

// A flag as it was given. Flags count after the file and in their order; what one says of pools, it says of all of them.
struct FlagValue {
  std::string flag;  // "--max-replicas"
  std::string text;
};

struct ReplaySources {
  std::string file;                 // name of the YAML file for messages; empty: none
  std::string yaml;                 // its text
  std::vector<std::string> traces;  // named on the command line; if any, those of the file are left out
  std::vector<FlagValue> flags;
  std::vector<std::string_view> policies;    // the names there are, "all" not among them
  std::vector<std::string_view> predictors;  // the names there are
};

// Reads and checks everything, and reports every fault with the place it comes from: file, line and column, or the flag.
// "all" among the policies becomes all of them. A replay without any trace is fine here, so that a file can be checked
// on its own.
[[nodiscard]] tl::expected<ReplaySettings, Problems> load_replay(const ReplaySources& sources);

}  // namespace penstock::config
