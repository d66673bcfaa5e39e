// For tests: short constructors of observations, and a runner that calls a policy at given seconds.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <vector>

#include "decision/decision_text.h"
#include "planner/policy.h"

namespace penstock::planner::testing {

using signals::EngineSample;
using signals::Observation;
using signals::PoolObservation;
using signals::ReplicaState;
using signals::Role;

inline constexpr std::uint64_t kKvTokens = 1000;  // KV capacity of every engine in these tests.

[[nodiscard]] inline core::Instant at_s(double seconds) { return core::kStart + core::from_seconds(seconds); }

// A sample of an engine that reports everything, all of it 0.
[[nodiscard]] inline EngineSample idle_engine() {
  EngineSample sample;
  for (auto* figure :
       {&sample.queued_prefill_tokens, &sample.inflight_prefill_tokens, &sample.scheduled_kv_tokens,
        &sample.queued_kv_tokens, &sample.kv_used_tokens, &sample.prompt_tokens_total, &sample.prefix_hit_tokens_total,
        &sample.generation_tokens_total, &sample.completed_total, &sample.preemptions_total, &sample.evictions_total})
    *figure = 0;
  sample.kv_capacity_tokens = kKvTokens;
  sample.oldest_queued_age = core::Duration{};
  sample.batch_merge_efficiency = 0.0;
  return sample;
}

// An engine with this number of requests and of its kKvTokens in use.
[[nodiscard]] inline EngineSample engine(std::uint32_t queued, std::uint32_t running = 0, std::uint64_t kv_used = 0) {
  EngineSample sample = idle_engine();
  sample.queued_requests = queued;
  sample.running_requests = running;
  sample.kv_used_tokens = kv_used;
  return sample;
}
[[nodiscard]] inline EngineSample with_kv(double usage) {
  return engine(0, 0, static_cast<std::uint64_t>(std::llround(usage * kKvTokens)));
}

// Ready replicas with these samples; 1 to 100 are allowed.
[[nodiscard]] inline PoolObservation pool_of(const std::vector<EngineSample>& samples, Role role = Role::kAggregated) {
  PoolObservation pool;
  pool.role = role;
  pool.max_replicas = 100;
  pool.target_replicas = pool.ready = static_cast<std::uint32_t>(samples.size());
  for (const EngineSample& sample : samples)
    pool.replicas.push_back({static_cast<std::uint32_t>(pool.replicas.size()), ReplicaState::kReady, {}, sample});
  return pool;
}
// Equal engines. Building the pool again gives new values of the same replicas.
[[nodiscard]] inline PoolObservation pool_of(std::uint32_t replicas, const EngineSample& sample,
                                             Role role = Role::kAggregated) {
  return pool_of(std::vector<EngineSample>(replicas, sample), role);
}
[[nodiscard]] inline PoolObservation with_starting(PoolObservation pool, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i)
    pool.replicas.push_back({1000 + i, ReplicaState::kStarting, {}, std::nullopt});
  pool.starting += count;
  pool.target_replicas += count;
  return pool;
}
[[nodiscard]] inline PoolObservation without_samples_of_last(PoolObservation pool, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) pool.replicas[pool.replicas.size() - 1 - i].sample.reset();
  return pool;
}
[[nodiscard]] inline PoolObservation bounded(PoolObservation pool, std::uint32_t min, std::uint32_t max) {
  pool.min_replicas = min;
  pool.max_replicas = max;
  return pool;
}

// A minute with this number of arrivals.
[[nodiscard]] inline PoolObservation with_arrivals(PoolObservation pool, std::uint64_t arrivals) {
  pool.last_minute.length = std::chrono::minutes{1};
  pool.last_minute.arrivals = arrivals;
  return pool;
}

// A minute at these token rates.
[[nodiscard]] inline PoolObservation with_token_rates(PoolObservation pool, std::uint64_t input_per_s,
                                                      std::uint64_t output_per_s) {
  pool.last_minute.length = std::chrono::minutes{1};
  pool.last_minute.input_tokens = input_per_s * 60;
  pool.last_minute.output_tokens = output_per_s * 60;
  return pool;
}
// A minute of ten requests with these numbers of tokens each.
[[nodiscard]] inline PoolObservation with_shape(PoolObservation pool, std::uint64_t input, std::uint64_t output) {
  pool.last_minute.length = std::chrono::minutes{1};
  pool.last_minute.arrivals = pool.last_minute.completed = 10;
  pool.last_minute.input_tokens = 10 * input;
  pool.last_minute.completed_output_tokens = 10 * output;
  return pool;
}
// A minute with these p90 latencies.
[[nodiscard]] inline PoolObservation with_p90(PoolObservation pool, double ttft_ms, double itl_ms) {
  pool.last_minute.length = std::chrono::minutes{1};
  pool.last_minute.ttft = {.count = 10, .p90_ms = ttft_ms};
  pool.last_minute.itl = {.count = 10, .p90_ms = itl_ms};
  return pool;
}

// Calls a policy with one pool; samples are as old as `age_s`.
class Asker {
 public:
  Asker(std::string_view name, const PolicyContext& context = {}) {
    auto made = make_policy(name, context);
    if (!made) ADD_FAILURE() << made.error().message();
    policy_ = std::move(*made);
  }

  PoolDecision ask(double seconds, const PoolObservation& pool, double age_s = 0.0) {
    return ask_all(seconds, {pool}, age_s).pools.at(0);
  }
  Decision ask_all(double seconds, std::vector<PoolObservation> pools, double age_s = 0.0) {
    Observation observation;
    observation.now = at_s(seconds);
    observation.pools = std::move(pools);
    for (PoolObservation& pool : observation.pools)
      for (signals::ReplicaObservation& replica : pool.replicas)
        if (replica.sample) replica.sample->sampled_at = at_s(seconds - age_s);
    return policy_->decide(observation);
  }
  Policy& policy() { return *policy_; }

 private:
  std::unique_ptr<Policy> policy_;
};

}  // namespace penstock::planner::testing

// Checks three parts of a decision: EXPECT_DECISION(decision, 3, kLoadAboveTarget, kNone).
#define EXPECT_DECISION(made, replicas, why, limit)                                             \
  do {                                                                                          \
    const ::penstock::decision::PoolDecision& decided = (made);                                 \
    EXPECT_EQ(decided.target, static_cast<std::uint32_t>(replicas)) << sentence(decided);       \
    EXPECT_STREQ(to_string(decided.reason), to_string(::penstock::decision::Reason::why));      \
    EXPECT_STREQ(to_string(decided.limited_by), to_string(::penstock::decision::Limit::limit)); \
  } while (false)
