// Test support: engines that report samples of their iteration totals.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/random.h"
#include "core/time.h"
#include "engine/step_time.h"
#include "signals/observation.h"

namespace penstock::capacity::testing {

// Executes random steps whose time follows a given law, for a share `share` of the time.
class BusyEngine {
 public:
  using Law = std::function<double(const engine::StepShape& shape)>;  // Milliseconds.
  BusyEngine(Law law, std::uint64_t seed) : law_{std::move(law)}, random_{seed} {
    sample.kv_capacity_tokens = 1'000'000;
  }

  void go_on(double seconds, double busy_share = 0.8) {
    double busy_ms = 0.0;
    while (busy_ms < seconds * 1e3 * busy_share) busy_ms += step();
    sample.sampled_at += core::from_seconds(seconds);
  }

  signals::EngineSample sample;

 private:
  double step() {
    engine::StepShape shape;
    shape.total_kv_tokens = sample.kv_capacity_tokens.value();
    shape.decode_sequences = static_cast<std::uint32_t>(1 + random_.below(60));
    shape.decode_context_tokens = shape.decode_sequences * (200 + random_.below(3000));
    shape.active_kv_tokens = shape.decode_context_tokens;
    core::IterationTotals& totals = sample.iterations;
    const bool prompts = random_.below(4) == 0;
    if (prompts) {
      shape.prefill_requests = 1;
      shape.prefill_new_tokens = 10 + random_.below(4000);
      const auto fresh = static_cast<double>(shape.prefill_new_tokens);
      shape.prefill_attention_pairs = fresh * (fresh + 1) / 2;
      shape.active_kv_tokens += shape.prefill_new_tokens;
      ++totals.prefill_requests;
      totals.prefill_new_tokens += shape.prefill_new_tokens;
      totals.prefill_new_tokens_squared += fresh * fresh;
      totals.prefill_attention_pairs += shape.prefill_attention_pairs;
    }
    core::IterationSums& sums = prompts ? totals.prefill : totals.decode;
    const double milliseconds = law_(shape);
    ++sums.steps;
    sums.busy += core::from_milliseconds(milliseconds);
    sums.decode_sequences += shape.decode_sequences;
    sums.decode_context_tokens += shape.decode_context_tokens;
    sums.active_kv_tokens += shape.active_kv_tokens;
    return milliseconds;
  }

  Law law_;
  core::RandomStream random_;
};

inline signals::PoolObservation pool_of(const std::vector<const BusyEngine*>& engines) {
  signals::PoolObservation pool;
  for (std::uint32_t i = 0; i < engines.size(); ++i)
    if (engines[i] != nullptr)
      pool.replicas.push_back({i, signals::ReplicaState::kReady, core::kStart, engines[i]->sample});
  return pool;
}

inline BusyEngine::Law times(const engine::StepTimeModel& model, double factor) {
  return [&model, factor](const engine::StepShape& shape) { return factor * core::to_milliseconds(model.step(shape)); };
}

}  // namespace penstock::capacity::testing
