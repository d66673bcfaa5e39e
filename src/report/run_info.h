// The input and the results of a replay: the value that the table, JSON, CSV and HTML render.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/time.h"
#include "decision/run_result.h"
#include "report/metrics.h"
#include "signals/observation.h"

namespace penstock::report {

struct PoolInfo : signals::Pool {
  std::uint32_t replicas = 1;  // At the start.
  // What one replica carries within the SLO, by the names of `--capacity`; empty if no policy needed it.
  std::vector<std::pair<std::string, double>> capacity{};
};

// The input of a replay. Names of files and tenants may have any bytes, and every renderer escapes them for its medium.
struct RunInfo {
  std::string workload;  // Its name or file.
  std::uint64_t requests = 0;
  core::Duration duration{};           // From the start of the window to the last arrival, after scaling.
  double rate_scale = 1.0;             // Speed of the arrivals relative to the recording.
  core::Duration rate_scale_spread{};  // By which copies of the trace were moved, at most.
  core::Duration score_from{};         // Earlier arrivals, and the GPU time until then, are in no result.
  std::uint64_t skipped_rows = 0;      // Invalid rows of the trace, skipped by option.
  std::uint64_t seed = 1;
  std::string engine;  // Description of the step-time model and the model.
  std::uint32_t block_tokens = 16;
  std::uint64_t kv_blocks = 0;  // Of one replica.
  std::string router;
  core::Duration start_up{};
  signals::SloTarget slo;
  double slo_goal = 0.99;  // Share of the requests that are to be within it.
  std::vector<PoolInfo> pools;
  double price_per_gpu_hour = 1.0;
  std::string command;             // The command line that repeats the replay.
  std::string version;             // Of Penstock.
  std::vector<std::string> notes;  // Remarks, such as a policy that was left out and the reason.
};

// A run of a fleet that never changed.
struct FixedFleet {
  decision::RunResult result;
  std::vector<std::uint32_t> replicas;  // Of each pool.
};

// Two replays with the same inputs and seed render to the same bytes, except for RunResult::simulated_requests_per_s,
// which depends on the wall clock. JSON has it on separate lines; the HTML page does not have it.
struct Report {
  RunInfo info;
  std::vector<decision::RunResult> results;   // One per policy, in the order of the runs.
  std::vector<decision::RunResult> frontier;  // Static fleets of several sizes; only their summaries are rendered.
  // The cheapest fixed fleet that reaches the goal; without one, the best that was tried. Empty if none was searched.
  std::optional<FixedFleet> fixed;
  std::vector<PlannerMetrics> metrics;  // At the end of each run, in the order of `results`; empty if not requested.
};

}  // namespace penstock::report
