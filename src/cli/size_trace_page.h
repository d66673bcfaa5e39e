// The output of `penstock size TRACE`: the fleets of all engines by their cost, and what rules the others out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decision/run_result.h"
#include "replay/trace_sizing.h"
#include "signals/slo.h"

namespace penstock::cli {

struct SizedEngine {
  std::string label, engine;
  std::uint32_t gpus_per_replica = 1;
  double price_per_gpu_hour = 1.0;
  bool has_own_price = false;        // Of its GPU type or of --engine; otherwise that of all.
  double kv_tokens = 0.0;            // Of the KV cache of a replica.
  std::string limits{};              // Where the KV cache and other limits of a replica come from.
  std::vector<std::string> notes{};  // Where the traffic leaves the range of a profile.
  replay::TraceSizing sizing{};
  std::optional<decision::RunResult> autoscaled{};

  [[nodiscard]] double cost_per_hour(std::uint32_t replicas) const {
    return price_per_gpu_hour * gpus_per_replica * replicas;
  }
};

struct TraceSizingReport {
  std::string workload;
  std::uint64_t requests = 0, skipped_rows = 0;
  core::Duration duration{};
  double rate_scale = 1.0, input_tokens = 0.0, output_tokens = 0.0;  // Mean lengths.
  core::Duration peak_from{};
  std::uint64_t peak_requests = 0;
  bool peak_is_whole_trace = false;
  signals::SloTarget slo;
  double goal = 0.99;
  bool has_segments = false;
  std::uint64_t seed = 1;
  std::string command;
  std::vector<SizedEngine> engines;
};

// Both reach the goal: by the cost of the run, then by GPU-hours.
[[nodiscard]] bool is_cheaper(const SizedEngine& a, const SizedEngine& b);
// The cheapest first, then those that miss the goal by their attainment.
void sort_by_cost(std::vector<SizedEngine>& engines);

[[nodiscard]] std::string trace_sizing_page(const TraceSizingReport& report);
[[nodiscard]] std::string trace_sizing_json(const TraceSizingReport& report);

}  // namespace penstock::cli
