// What Dynamo's planner 1.6.1 asks of one engine: its next TTFT, its next ITL, and the request rate that it can serve
// (dynamo/planner/core/perf_model/{ais_adapter,engine_query}.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/iteration_totals.h"
#include "core/state_archive.h"
#include "planner/policies/dynamo_pass_times.h"
#include "signals/observation.h"

namespace penstock::planner {

// The mean of the latest 64 values; zeros before the first other value are ignored.
class DynamoAverage {
 public:
  void add(double value);
  [[nodiscard]] double value() const;
  void archive(core::StateArchive& state) { state.values_of(values_); }

 private:
  std::deque<double> values_;
};

struct DynamoEngineLimits {
  std::uint64_t max_batched_tokens = 8192, max_sequences = 256, kv_tokens = 0;
};

// The load of one engine.
struct DynamoEngineLoad {
  double queued_requests = 0.0, queued_tokens = 0.0;  // Prompts that wait.
  double decode_sequences = 0.0, decode_tokens = 0.0;
  double preempted_tokens = 0.0;  // Lengths of preempted sequences that wait.
};

struct DynamoScale {
  double queue = 1.0, decode = 1.0;
  bool preempted = false;      // Preempted sequences decode, too.
  bool queue_decodes = false;  // The waiting prompts decode already.
};

struct DynamoEngineCapacity {
  double requests_per_s = 0.0, ttft_s = 0.0, itl_s = 0.0;
  bool within_slo = false;
};

// Mean request of a forecast.
struct DynamoRequestShape {
  double input_tokens = 0.0, output_tokens = 0.0;
  double hit_ratio = 0.0;  // Share of the prompt that is in the cache.
};

// Sizes and times are estimates for engines of one pool. Estimates are in seconds, and empty until the pool has shown
// enough passes of the kind that they consist of.
class DynamoEngineModel {
 public:
  explicit DynamoEngineModel(signals::Role role = signals::Role::kAggregated) : role_(role) {}

  void observe(const core::Iteration& pass);
  [[nodiscard]] bool ready() const { return times_.ready(); }

  // The time to compute what waits and one more prompt of the mean length, in chunks of max_batched_tokens, beside the
  // decodes of an aggregated engine.
  [[nodiscard]] std::optional<double> ttft(const DynamoEngineLoad& load, const DynamoEngineLimits& limits,
                                           double hit_ratio, const DynamoScale& scale = {}) const;
  // The time of a pass that decodes one more sequence of the mean length, in an aggregated engine beside the mean
  // prefill.
  [[nodiscard]] std::optional<double> itl(const DynamoEngineLoad& load, const DynamoScale& scale) const;
  // The highest rate over all batch sizes within the SLO; if none is, over all batch sizes.
  [[nodiscard]] std::optional<DynamoEngineCapacity> capacity(const DynamoRequestShape& shape,
                                                             const DynamoEngineLimits& limits, double ttft_slo_s,
                                                             double itl_slo_s) const;

  void archive(core::StateArchive& state) {
    state.values_of(role_, times_, prompt_, context_, pass_prefill_requests_, pass_prefill_tokens_);
  }

 private:
  // The time of prompts of `tokens` in chunks. `requests` is the number of prompts in each chunk.
  [[nodiscard]] std::optional<double> chunks(double tokens, double requests, double decode_sequences,
                                             double decode_tokens, const DynamoEngineLimits& limits) const;
  [[nodiscard]] std::optional<DynamoEngineCapacity> at_batch(double batch, const DynamoRequestShape& shape,
                                                             const DynamoEngineLimits& limits) const;
  [[nodiscard]] std::uint64_t batch_max(const DynamoRequestShape& shape, const DynamoEngineLimits& limits) const;
  [[nodiscard]] bool balanced(double batch, const DynamoRequestShape& shape, const DynamoEngineLimits& limits) const;

  signals::Role role_;
  DynamoPassTimes times_;
  DynamoAverage prompt_, context_;                             // Prompt tokens and lengths per request in a pass.
  DynamoAverage pass_prefill_requests_, pass_prefill_tokens_;  // Per pass.
};

}  // namespace penstock::planner
