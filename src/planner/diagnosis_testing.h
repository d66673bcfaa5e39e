// Observations for tests of the diagnosis.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "planner/diagnosis.h"
#include "planner/planner_testing.h"

namespace penstock::planner::diagnosis_testing {

using signals::EngineSample;
using signals::LatencyWindow;
using signals::Observation;
using signals::PoolDetail;
using signals::PoolObservation;
using signals::Role;
using signals::TimePart;
using testing::at_s;

inline constexpr double kTtftLimitMs = 2000.0, kItlLimitMs = 50.0;

inline LatencyWindow latency(double p95_ms, std::uint64_t count = 100) {
  return {count, 0.8 * p95_ms, 0.8 * p95_ms, p95_ms, p95_ms, p95_ms};
}

// A busy engine in good health, with so much behind it.
inline EngineSample busy(std::uint64_t prompt_tokens, std::uint64_t hit_tokens = 0) {
  EngineSample sample = testing::engine(0, 8, 500);
  sample.prompt_tokens_total = prompt_tokens;
  sample.prefix_hit_tokens_total = hit_tokens;
  sample.generation_tokens_total = prompt_tokens / 4;
  sample.completed_total = prompt_tokens / 1000;
  return sample;
}

// Two replicas in a minute of 300 requests that keep the SLO.
inline PoolObservation healthy(Role role = Role::kAggregated, const EngineSample& sample = busy(1000)) {
  PoolObservation pool = testing::pool_of(2, sample, role);
  pool.name = role == Role::kDecode ? "decode" : "web";
  pool.last_minute.length = std::chrono::minutes{1};
  pool.last_minute.arrivals = 300;
  pool.last_minute.input_tokens = 300 * 400;
  pool.last_minute.ttft = latency(300.0);
  pool.last_minute.itl = latency(20.0);
  pool.detail = PoolDetail{};
  pool.detail->first_tokens.count = 300;
  return pool;
}

// The same with late first tokens, whose time went mostly into one part.
inline PoolObservation late(TimePart signals::FirstTokenWindow::*part, PoolObservation pool = healthy()) {
  pool.last_minute.ttft = latency(5000.0);
  signals::FirstTokenWindow& window = pool.detail->first_tokens;
  window.slow = 40;
  window.prefill = {150.0, 400.0, 200.0};
  window.*part = {2000.0, 4700.0, 3800.0};
  return pool;
}

inline PoolObservation slow_tokens(PoolObservation pool = healthy()) {
  pool.last_minute.itl = latency(80.0);
  return pool;
}

inline PoolObservation queued(PoolObservation pool, std::uint32_t requests, std::uint64_t kv_used = 500) {
  for (auto& replica : pool.replicas) {
    replica.sample->queued_requests = requests;
    replica.sample->queued_prefill_tokens = std::uint64_t{requests} * 100;
    replica.sample->kv_used_tokens = kv_used;
  }
  return pool;
}

inline PoolObservation grown(PoolObservation pool, std::uint64_t prompts, std::uint64_t hits, std::uint64_t generated,
                             std::uint64_t preemptions = 0) {
  for (auto& replica : pool.replicas) {
    *replica.sample->prompt_tokens_total += prompts;
    *replica.sample->prefix_hit_tokens_total += hits;
    *replica.sample->generation_tokens_total += generated;
    *replica.sample->completed_total += 10;
    *replica.sample->preemptions_total += preemptions;
  }
  return pool;
}

inline signals::SloPolicy general_slo() {
  signals::SloPolicy slo;
  slo.target = {core::from_milliseconds(kTtftLimitMs), core::from_milliseconds(kItlLimitMs), {}};
  return slo;
}

class Watched {
 public:
  Diagnosis at(double seconds, std::vector<PoolObservation> pools, double age_s = 0.0) {
    Observation observation;
    observation.now = at_s(seconds);
    observation.pools = std::move(pools);
    for (PoolObservation& pool : observation.pools)
      for (auto& replica : pool.replicas)
        if (replica.sample) replica.sample->sampled_at = at_s(seconds - age_s);
    return diagnoser_.observe(observation);
  }

 private:
  Diagnoser diagnoser_{general_slo()};
};

}  // namespace penstock::planner::diagnosis_testing
