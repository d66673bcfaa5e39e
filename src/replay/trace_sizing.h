// The smallest fixed fleet of one engine that serves recorded traffic within the SLO, and what rules an engine out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "decision/run_result.h"
#include "planner/penstock/penstock_planner.h"
#include "simulation/run.h"
#include "workload/request.h"

namespace penstock::replay {

// The hour with the most prompt and output tokens, from a whole minute on.
struct BusiestHour {
  core::Duration from{};        // Of the trace.
  workload::Workload workload;  // Its requests; empty if the trace is no longer than an hour.
  std::uint64_t requests = 0;
  double requests_per_s = 0.0;

  [[nodiscard]] bool is_whole_trace() const { return workload.requests.empty(); }
};

// `scored_from` leaves out what arrives before. Errors: those of workload::crop_window().
[[nodiscard]] core::Result<BusiestHour> busiest_hour(const workload::Workload& workload, core::Duration scored_from);

enum class RuledOut : std::uint8_t {
  kNothing,  // The engine reaches the goal.
  kHeads,    // The GPUs cannot share its attention heads equally.
  kWeights,  // They do not fit the GPUs.
  kKvCache,  // It holds too few of the requests.
  kTtft,
  kItl,
  kE2e,
  kFailures,  // Requests fail for other reasons, such as budgets of tenants.
};
// Returns "none", "heads", "weights", "kv_cache", "ttft", "itl", "e2e" or "failures".
[[nodiscard]] const char* to_string(RuledOut ruled_out);

struct FleetTrialResult {
  std::uint32_t replicas = 0;
  double attainment = 0.0;
};

struct TraceSizing {
  RuledOut ruled_out = RuledOut::kNothing;
  std::string why{};  // What rules it out, with the figure; empty if nothing does.
  // The smallest fleet that reaches the goal; if none does, the one with the highest attainment. Empty if nothing ran.
  std::optional<decision::RunResult> result{};
  std::optional<decision::RunResult> one_fewer{};  // Of a replica less, which misses the goal; empty at the minimum.
  std::optional<double> busy{};                    // Mean share of the time in which engines compute.
  std::optional<std::uint32_t> peak_replicas{};    // What the busiest hour alone needs; empty: no fleet reaches it.
  std::uint64_t too_long = 0;                      // Requests that do not fit into the KV cache.
  std::vector<FleetTrialResult> trials{};          // By size.

  [[nodiscard]] bool reaches_goal() const { return ruled_out == RuledOut::kNothing; }
};

// Searches within the bounds of the only pool, by simulation. Every shown figure is that of a run. Errors: those of a
// run.
[[nodiscard]] core::Result<TraceSizing> size_for_trace(const workload::Workload& workload, const BusiestHour& peak,
                                                       const simulation::RunOptions& options,
                                                       const std::function<void(double share_done)>& progress);

// The same traffic with Penstock's own policy, which begins with `replicas`. Errors: those of a run.
[[nodiscard]] core::Result<decision::RunResult> run_autoscaled(const workload::Workload& workload,
                                                               simulation::RunOptions options, std::uint32_t replicas,
                                                               const planner::PlannerOptions& planner,
                                                               const std::function<void(double share_done)>& progress);

}  // namespace penstock::replay
