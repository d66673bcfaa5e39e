// One tick of every policy over an observation of 100 replicas.
#include <benchmark/benchmark.h>

#include <string>

#include "planner/policy.h"
#include "signals/observation.h"

namespace {

using namespace penstock;

signals::Observation observation_of(std::uint32_t replicas) {
  signals::Observation seen;
  signals::PoolObservation pool;
  pool.min_replicas = 1;
  pool.max_replicas = 2 * replicas;
  pool.target_replicas = pool.ready = replicas;
  pool.start_up = std::chrono::seconds{120};
  pool.last_minute.length = std::chrono::seconds{60};
  pool.last_minute.arrivals = pool.last_minute.completed = 6000;
  pool.last_minute.input_tokens = 6'000'000;
  pool.last_minute.output_tokens = pool.last_minute.completed_output_tokens = 1'500'000;
  pool.last_minute.ttft = {6000, 400.0, 300.0, 900.0, 1200.0, 2500.0};
  pool.last_minute.itl = {6000, 20.0, 18.0, 30.0, 35.0, 60.0};
  for (std::uint32_t i = 0; i < replicas; ++i) {
    signals::ReplicaObservation replica;
    replica.replica = i;
    replica.state = signals::ReplicaState::kReady;
    signals::EngineSample sample;
    sample.queued_requests = i % 4;
    sample.running_requests = 20 + i % 30;
    sample.kv_used_tokens = 10'000 * (i % 60);
    sample.kv_capacity_tokens = 1'000'000;
    replica.sample = sample;
    pool.replicas.push_back(replica);
  }
  seen.pools.push_back(pool);
  return seen;
}

void tick(benchmark::State& state, const std::string& name) {
  auto policy = *planner::make_policy(name, {});
  signals::Observation seen = observation_of(100);
  for (auto _ : state) {
    benchmark::DoNotOptimize(policy->decide(seen));
    seen.now += std::chrono::seconds{5};
    for (auto& replica : seen.pools[0].replicas) replica.sample->sampled_at = seen.now;
  }
}

const bool kRegistered = [] {
  for (const std::string_view name : planner::policy_names())
    benchmark::RegisterBenchmark(("tick/" + std::string{name}).c_str(), tick, std::string{name});
  return true;
}();

}  // namespace
