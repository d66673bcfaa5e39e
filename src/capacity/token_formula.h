// Replicas from token rates, and what tokens one replica carries within an SLO: closed forms for any step-time model.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/step_time.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::capacity {

// What one replica carries within an SLO.
struct TokenCapacity {
  double input_tokens_per_s = 0.0;  // of the requests' prompts, those found in the cache included
  double output_tokens_per_s = 0.0;
};

struct FormulaResult {
  std::uint32_t replicas = 0;  // the greater of the two
  std::uint32_t by_input = 0, by_output = 0;
  double utilisation = 0.0;  // of the busier side with that many replicas, 0..1
};

// ⌈rate / (capacity · utilisation)⌉ for prompt and for output tokens, and the greater of both. 0 replicas for no traffic.
// None when a rate or a capacity is negative or not finite, the utilisation is not in (0, 1], a side with traffic has no
// capacity, or the replicas do not fit 32 bits.
[[nodiscard]] std::optional<FormulaResult> replicas_by_formula(double input_tokens_per_s, double output_tokens_per_s,
                                                               const TokenCapacity& capacity, double utilisation);

struct TrafficShape {
  double input_tokens = 0.0;   // mean of the prompts
  double output_tokens = 0.0;  // mean
  double cached_share = 0.0;   // of prompt tokens, found in the cache; 0 to below 1
};

struct EngineLimits {
  double max_sequences = 256;
  double max_batched_tokens = 8192;
  double kv_tokens = 1'024'000;
};

struct CapacityOptions {
  signals::Role role = signals::Role::kAggregated;
  double factor = 1.0;       // times that the model's steps take, StepTimeCorrection::factor()
  double ttft_margin = 0.9;  // of the SLO that may be used up
  double itl_margin = 0.75;
  double room_margin = 0.9;  // of the slots and of the KV cache
};

struct ReplicaEstimate {
  TokenCapacity tokens;
  double requests_per_s = 0.0;
  double concurrency = 0.0;  // sequences that decode at once, on average; of a prefill replica 0
  double itl_ms = 0.0;       // what 95 of 100 requests stay below, at that rate; of a prefill replica 0
  double ttft_ms = 0.0;      // the same; of a decode replica 0
};

// The greatest steady rate of Poisson arrivals, all of the given mean lengths, at which about 95 % keep the SLO.
//
// With b sequences that decode at a mean length of input + output/2, each step ends and begins b/(output − 1) requests.
// Prompts come to a step as a Poisson number with that mean, so that a share q = 1 − e^(−b/(output − 1)) of the steps
// computes some, more where a prompt takes several steps:
//   itl  = (1 − q) · step(b) + q · step(b, prompt tokens)         rate = b / ((output − 1) · itl)
//   ttft = the rest of a step + the steps of one's own prompt + the queue, as in M/D/1, for what prompts can have
// One minute in twenty has b + 1.645·√b sequences, which must still keep the ITL, fit the KV cache and the slots. The
// greatest b is found by bisection. Prefill replicas have no b: there the rate is bisected. Decode replicas have q = 0.
//
// None when an input is not finite or out of its range, or not even a request now and then keeps the SLO. Cost: some 40
// evaluations of four steps, microseconds. How near it is to a load test: docs/capacity.md.
[[nodiscard]] std::optional<ReplicaEstimate> token_capacity(const engine::StepTimeModel& model,
                                                            const TrafficShape& shape, const EngineLimits& limits,
                                                            const signals::SloTarget& slo,
                                                            const CapacityOptions& options = {});

}  // namespace penstock::capacity
