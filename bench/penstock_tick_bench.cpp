// A tick of Penstock's planner with its trials, in a run on about 100 replicas: mean, percentiles and the longest.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/random.h"
#include "engine/step_time_models.h"
#include "planner/penstock/penstock_planner.h"
#include "simulation/run.h"
#include "simulation/trials.h"
#include "workload/synthetic.h"

namespace {

using namespace penstock;

// Passes everything on and takes the time of every decision.
class Timed final : public decision::Policy {
 public:
  explicit Timed(decision::Policy& policy) : policy_(policy) {}
  [[nodiscard]] std::string_view name() const override { return policy_.name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_.interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_.memory(); }
  [[nodiscard]] bool wants_segments() const override { return policy_.wants_segments(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    const auto began = std::chrono::steady_clock::now();
    decision::Decision decision = policy_.decide(observation);
    milliseconds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count());
    return decision;
  }

  std::vector<double> milliseconds;

 private:
  decision::Policy& policy_;
};

void tick(benchmark::State& state) {
  const auto replicas = static_cast<std::uint32_t>(state.range(0));
  // About 13 requests a second and replica, in a slow wave, so that plans change.
  const auto spec = "synthetic:rate=" + std::to_string(9 * replicas) + ".." + std::to_string(15 * replicas) +
                    ",shape=diurnal,period=10m,duration=15m,input=1000,input_cv=1,output=150,output_cv=1";
  const auto parsed = workload::parse_synthetic(spec);
  if (!parsed) return state.SkipWithError(parsed.error().what.c_str());
  const auto workload = workload::make_synthetic(*parsed, 1);
  if (!workload) return state.SkipWithError(workload.error().what.c_str());
  simulation::RunOptions options;
  simulation::PoolSpec& pool = options.pools.front();
  pool.engine.block_tokens = 512;
  pool.engine.kv_blocks = 2000;
  pool.step_time = *engine::make_step_time_model("polynomial");
  pool.replicas = replicas;
  pool.max_replicas = 2 * replicas;
  for (auto _ : state) {
    const auto policy = planner::make_penstock_planner(simulation::make_trials(options), {options.slo, 0.99, {}});
    Timed timed{*policy};
    const auto result = simulation::run(*workload, timed, options);
    std::vector<double>& times = timed.milliseconds;
    if (!result || times.empty()) return state.SkipWithError("the run failed");
    std::sort(times.begin(), times.end());
    double sum = 0.0;
    for (const double time : times) sum += time;
    state.SetIterationTime(sum / 1e3 / static_cast<double>(times.size()));
    state.counters["p50_ms"] = times[times.size() / 2];
    state.counters["p99_ms"] = times[times.size() * 99 / 100];
    state.counters["max_ms"] = times.back();
    state.counters["attainment"] = result->slo_attainment;
    state.counters["mean_replicas"] = result->mean_replicas;
  }
}

BENCHMARK(tick)->Arg(10)->Arg(100)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
