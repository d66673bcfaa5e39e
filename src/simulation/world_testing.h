// For tests: small workloads, a step time that is easy to compute by hand, and policies that do as they are told.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "engine/engine_testing.h"
#include "simulation/run.h"

namespace penstock::simulation::testing {

inline core::Instant at_s(double seconds) { return core::Instant{core::from_seconds(seconds)}; }

// Every step takes 10 ms, and 10 µs more for each prompt token.
inline PoolSpec pool(std::uint32_t replicas, std::uint32_t max_replicas = 16) {
  PoolSpec spec;
  spec.engine.block_tokens = 16;
  spec.engine.kv_blocks = 1000;
  spec.engine.max_sequences = 32;
  spec.engine.max_batched_tokens = 2048;
  spec.step_time = std::make_shared<engine::testing::LinearNanoseconds>(
      engine::testing::LinearNanoseconds::Terms{10'000'000, 10'000, 0, 0, 0});
  spec.replicas = replicas;
  spec.max_replicas = max_replicas;
  spec.start_up = std::chrono::seconds{10};
  return spec;
}

inline RunOptions options(const PoolSpec& spec) {
  RunOptions run_options;
  run_options.pools = {spec};
  run_options.router = routing::Strategy::kLeastLoaded;
  return run_options;
}

inline RunOptions disaggregated(std::uint32_t prefill, std::uint32_t decode) {
  RunOptions run_options;
  run_options.pools = {pool(prefill), pool(decode)};
  run_options.pools[0].name = "prefill";
  run_options.pools[0].role = signals::Role::kPrefill;
  run_options.pools[1].name = "decode";
  run_options.pools[1].role = signals::Role::kDecode;
  return run_options;
}

// Arrivals at random, `rate` a second; one in `family` requests shares a prompt of 6 blocks with others.
inline workload::Workload random_workload(std::uint32_t requests, double rate, std::uint64_t seed = 1) {
  core::RandomStream random{seed};
  workload::Workload made;
  made.block_tokens = 16;
  double at = 0.0;
  std::uint32_t fresh = 1000;
  for (std::uint32_t i = 0; i < requests; ++i) {
    at += random.exponential(1.0 / rate);
    workload::Request request;
    request.arrival = at_s(at);
    request.input_tokens = static_cast<std::uint32_t>(20 + random.below(600));
    request.output_tokens = static_cast<std::uint32_t>(1 + random.below(200));
    request.first_block = static_cast<std::uint32_t>(made.block_ids.size());
    request.block_count = request.input_tokens / 16;
    const auto family = static_cast<std::uint32_t>(random.below(4) * 10);
    for (std::uint32_t block = 0; block < request.block_count; ++block)
      made.block_ids.push_back(block < 6 ? family + block : fresh++);
    made.requests.push_back(request);
  }
  return made;
}

// Requests that share nothing, one at each of the times.
inline workload::Workload requests_at(const std::vector<double>& seconds, std::uint32_t input, std::uint32_t output) {
  workload::Workload made;
  made.block_tokens = 16;
  for (const double second : seconds) {
    workload::Request request;
    request.arrival = at_s(second);
    request.input_tokens = input;
    request.output_tokens = output;
    made.requests.push_back(request);
  }
  return made;
}

// Asks for what a function of the observation says, once a second.
class Scripted final : public decision::Policy {
 public:
  using Script = std::function<std::uint32_t(const signals::Observation&, std::size_t pool)>;
  explicit Scripted(Script script) : script_(std::move(script)) {}

  [[nodiscard]] std::string_view name() const override { return "scripted"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{1}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    decision::Decision decision;
    for (std::size_t i = 0; i < observation.pools.size(); ++i) {
      decision::PoolDecision pool;
      pool.current = observation.pools[i].target_replicas;
      pool.target = script_(observation, i);
      decision.pools.push_back(pool);
    }
    return decision;
  }

 private:
  Script script_;
};

// Changes the target at given times, in ascending order.
inline Scripted steps(std::vector<std::pair<double, std::uint32_t>> changes) {
  return Scripted{[changes = std::move(changes)](const signals::Observation& seen, std::size_t pool) {
    std::uint32_t target = seen.pools[pool].target_replicas;
    for (const auto& [second, replicas] : changes)
      if (seen.now >= at_s(second)) target = replicas;
    return target;
  }};
}

// The result of a run that must succeed.
inline decision::RunResult run_ok(const workload::Workload& workload, decision::Policy& policy,
                                  const RunOptions& run_options) {
  auto result = run(workload, policy, run_options);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().message());
  return result ? *result : decision::RunResult{};
}

// The same with a fleet that keeps its size.
inline decision::RunResult run_ok(const workload::Workload& workload, const RunOptions& run_options) {
  Scripted still = steps({});
  return run_ok(workload, still, run_options);
}

inline std::uint64_t failures(const decision::RunResult& result, const std::string& reason) {
  for (const auto& failure : result.failures)
    if (failure.reason == reason) return failure.requests;
  return 0;
}

}  // namespace penstock::simulation::testing
