// What a replay was asked to do and what came out: the one value that the table, JSON, CSV and HTML render.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/time.h"
#include "decision/run_result.h"
#include "report/metrics.h"
#include "signals/observation.h"

namespace penstock::report {

struct PoolInfo {
  std::string name = "default";
  signals::Role role = signals::Role::kAggregated;
  std::uint32_t replicas = 1;  // at the start
  std::uint32_t min_replicas = 1;
  std::uint32_t max_replicas = 1;
  std::uint32_t gpus_per_replica = 1;
  double price_per_gpu_hour = 1.0;
  core::Duration start_up{};  // from the request for a replica until it is ready
};

// Everything that was fixed before the first event. All of it is text or numbers from outside: file and tenant names
// may hold any bytes, and every renderer makes them harmless for its medium.
struct RunInfo {
  std::string workload;  // its name or file
  std::uint64_t requests = 0;
  core::Duration duration{};       // from the start of the window to the last arrival, after scaling
  double rate_scale = 1.0;         // arrivals come this many times as fast as recorded
  std::uint64_t skipped_rows = 0;  // bad rows of the trace that were left out at the user's proposal
  std::uint64_t seed = 1;
  std::string engine;  // step-time model and model name in words
  std::uint32_t block_tokens = 16;
  std::uint64_t kv_blocks = 0;  // of one replica
  std::string router;
  core::Duration start_up{};
  signals::SloTarget slo;
  std::vector<PoolInfo> pools;
  double price_per_gpu_hour = 1.0;
  std::string command;             // the command line that repeats the replay
  std::string version;             // Penstock's
  std::vector<std::string> notes;  // what the reader must know: a policy that was left out, and why
};

// Two replays with the same inputs and seed render to the same bytes, but for RunResult::simulated_requests_per_s, the
// only figure that the wall clock has a part in. JSON keeps it on lines of its own, the HTML page leaves it out.
struct Report {
  RunInfo info;
  std::vector<decision::RunResult> results;   // one per policy, in the order they ran
  std::vector<decision::RunResult> frontier;  // static fleets of several sizes; only their summaries are rendered
  std::vector<PlannerMetrics> metrics;        // of the end of each run, in the order of `results`; empty: not asked for
};

}  // namespace penstock::report
