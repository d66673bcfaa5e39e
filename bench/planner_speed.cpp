// Replays of recorded traces with Penstock's policy and all its simulations, by requests per CPU second. The name of a
// benchmark is that of its trace.
#include <benchmark/benchmark.h>

#include <ctime>
#include <string>

#include "engine/step_time_models.h"
#include "planner/penstock/penstock_planner.h"
#include "simulation/run.h"
#include "simulation/trials.h"
#include "workload/reader.h"

namespace {

using namespace penstock;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

planner::PlannerOptions options_for(const simulation::PoolSpec& pool) {
  planner::PlannerOptions options;
  planner::PoolProfile& profile = options.profiles.emplace_back();
  profile.step_time = pool.step_time;
  profile.limits.max_sequences = pool.engine.max_sequences;
  profile.limits.max_batched_tokens = static_cast<double>(pool.engine.max_batched_tokens);
  profile.limits.kv_tokens = static_cast<double>(pool.engine.kv_blocks) * pool.engine.block_tokens;
  return options;
}

void replay(benchmark::State& state, const std::string& file) {
  workload::ReadOptions reading;
  reading.skip_bad_rows = true;
  const auto workload = workload::read_workload(std::string{PENSTOCK_TRACES} + "/" + file, reading);
  if (!workload) return state.SkipWithError(workload.error().message().c_str());
  simulation::RunOptions options;
  options.router = routing::Strategy::kLive;
  simulation::PoolSpec& pool = options.pools.front();
  pool.step_time = *engine::make_step_time_model("polynomial");
  pool.replicas = 2;
  pool.max_replicas = 8;
  for (auto _ : state) {
    const auto policy =
        planner::make_penstock_planner(simulation::make_trials(options), {options.slo, 0.99, {}}, options_for(pool));
    const double began = cpu_seconds();
    const auto result = simulation::run(*workload, *policy, options);
    const double took = cpu_seconds() - began;
    if (!result) return state.SkipWithError(result.error().message().c_str());
    state.SetIterationTime(took);
    state.counters["requests_per_cpu_s"] = static_cast<double>(result->requests) / took;
    state.counters["attainment"] = result->slo_attainment;
    state.counters["gpu_hours"] = result->gpu_hours;
    state.counters["actions"] = static_cast<double>(result->scaling_actions);
  }
}

#define PENSTOCK_REPLAY(name, file) \
  BENCHMARK_CAPTURE(replay, name, std::string{file})->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond)
PENSTOCK_REPLAY(mooncake, "mooncake_conversation.jsonl.xz");
PENSTOCK_REPLAY(azure, "azure2023_code.csv.xz");
PENSTOCK_REPLAY(deepseek_r1, "servegen_deepseek_r1_h0_14.csv.zst");
PENSTOCK_REPLAY(servegen_large, "servegen_large_day0_thinned.csv.zst");
PENSTOCK_REPLAY(servegen_mid, "servegen_mid_day1_thinned.csv.zst");
PENSTOCK_REPLAY(vtc_arena, "vtc_arena_27clients.csv.zst");
PENSTOCK_REPLAY(aibrix, "aibrix_8min_up_and_down.csv.zst");

}  // namespace
