// Runs one policy over one workload under a simulated clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actuation/advance.h"
#include "core/result.h"
#include "core/time.h"
#include "decision/run_result.h"
#include "dispatch/options.h"
#include "engine/config.h"
#include "engine/step_time.h"
#include "planner/global/shared_budget.h"
#include "planner/policy.h"
#include "routing/picking_strategy.h"
#include "signals/observation.h"
#include "simulation/cached_prompts.h"
#include "simulation/faults.h"
#include "workload/request.h"

namespace penstock::simulation {

// A pool with its engines. Times of a simulated start-up are configured, not measured.
struct PoolSpec : signals::Pool {
  PoolSpec() {
    max_replicas = 64;
    start_up = std::chrono::seconds{120};
  }
  engine::EngineConfig engine;
  std::shared_ptr<const engine::StepTimeModel> step_time;
  std::uint32_t replicas = 1;                  // Ready at the start of the run.
  core::Duration warm_up{};                    // The part of the start-up in which warm-up prompts are answered.
  std::string step_time_model = "polynomial";  // Description of step_time; see engine/step_time_models.h.
  bool overflow = true;                        // Its requests may go to a pool that answers clearly sooner.
  std::string kubernetes;  // Of a live fleet: the object whose replicas are the pool, "deployment/NAME"; empty: none.
  // Of engines that a live planner runs itself. A configuration sets them to those of its planner by default.
  std::optional<core::Duration> drain_deadline, unhealthy_drain_deadline;
  std::string hardware;  // Kind of its GPUs, for the stock of a shared budget; empty: a kind without a limit.
  // What a configuration says of the engines of a live pool, where the values above may be defaults: sequences at once,
  // and bytes of the KV cache of one token on all GPUs of a replica.
  std::optional<std::uint32_t> known_max_sequences;
  std::optional<double> known_kv_bytes_per_token;
};

// The rules by which a dispatcher chooses among several aggregated pools; empty if there is only one.
[[nodiscard]] std::vector<dispatch::PoolRule> pool_rules(const std::vector<PoolSpec>& pools);

// A simulated replica is given all the time that it needs. As in Kubernetes, one that drains is not taken back.
[[nodiscard]] actuation::Limits simulated_life_cycle();

struct RunOptions {
  std::vector<PoolSpec> pools = {PoolSpec{}};  // Aggregated pools, or one prefill and one decode pool.
  routing::Strategy router = routing::Strategy::kKv;
  // Limits of the gateway, its tenants, classes and prices; requests have the class of the workload. None: the live
  // router has the gateway's defaults, the router of a peer has no limits.
  std::optional<dispatch::DispatchOptions> dispatch;
  signals::SloTarget slo;
  double slo_goal = 0.99;                         // share of the requests that are to keep it
  std::vector<signals::SegmentSlo> slo_segments;  // requests that are judged by targets of their own
  std::string model;                              // The served model, for segments that select by model; empty: any.
  Faults faults;
  actuation::Limits life_cycle = simulated_life_cycle();
  double kv_bytes_per_token = 131072.0;  // moved from prefill to decode
  double kv_transfer_bytes_per_s = 50e9;
  std::uint64_t seed = 1;
  // Earlier arrivals are served and not counted, and neither are the GPU time and the changes before this time. The
  // series covers the whole run.
  core::Instant judged_from = core::kStart;
  bool pools_by_priority = false;             // Of trials: the priority of a request is the index of its own pool.
  bool details = true;                        // false: counts and shares alone, no series, percentiles, segments …
  core::Instant judged_until = core::kNever;  // … and then of arrivals before this time, at whose end the run ends
  std::uint32_t running = 0;                  // so many of the first requests decode from the start: their KV is there
  std::vector<CachedPrompt> cached{};         // Of earlier requests, the latest last: the caches hold them.
  core::Instant runs_until = core::kStart;    // the run does not end before this time, though all requests have ended
  std::uint32_t series_points = 360;          // at most; at least one point a second of the run
  bool merge_steps = true;                    // advance runs of identical iterations at once; false steps each
  bool check_each_event = false;              // look for violated invariants after each event, not only at the end
  std::function<void(double share_done)> progress;  // called now and then from the calling thread; may be empty
};

// The same run for questions of what engines can carry: without faults and limits, and with Dynamo's kv router where
// the run has the live one.
[[nodiscard]] RunOptions without_limits(RunOptions options);

// Errors: pools that do not make a deployment, a block size that does not divide the workload's (or the reverse).
[[nodiscard]] core::Result<decision::RunResult> run(const workload::Workload& workload, decision::Policy& policy,
                                                    const RunOptions& options);

// One of several runs under one clock. All three outlive the run.
struct SharedRun {
  const workload::Workload* workload = nullptr;
  decision::Policy* policy = nullptr;
  const RunOptions* options = nullptr;
};

// The fleets of several runs under one clock.
struct SharedFleets {
  std::vector<std::vector<planner::global::PoolCounts>> replicas;  // By run and pool.
  std::function<void(core::Instant now)> changed;                  // Is called after each change; may be empty.
};

// The pools of one of them as the budget of several knows them, with the replicas of the start.
[[nodiscard]] std::vector<planner::global::PoolClaim> pool_claims(const std::vector<PoolSpec>& pools);

// Runs several deployments side by side, event by event, so that policies that share something, such as a budget of
// GPUs, decide in the order of time; of equal times in the order of the runs. A deployment whose requests have all
// ended decides no more after RunOptions::runs_until, and keeps its replicas. `fleets`, which may be null, has the
// replicas of all deployments at any time. Results are in the order of the runs. Errors are those of run().
[[nodiscard]] core::Result<std::vector<decision::RunResult>> run_together(std::span<const SharedRun> runs,
                                                                          SharedFleets* fleets = nullptr);

// The greatest rate of Poisson arrivals, with request shapes drawn from the workload, at which one replica keeps the
// SLO for `attainment` of the requests and no long queue forms. It is what an engineer would load-test before writing
// an autoscaler's target.
[[nodiscard]] core::Result<planner::ReplicaCapacity> probe_capacity(const workload::Workload& workload,
                                                                    const PoolSpec& pool, const RunOptions& options,
                                                                    double attainment = 0.95);

}  // namespace penstock::simulation
