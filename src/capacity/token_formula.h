// Number of replicas from token rates, and token capacity of a replica within an SLO, in closed form for any step-time
// model.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/step_time.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::capacity {

// Token rates that one replica serves within an SLO.
struct TokenCapacity {
  double input_tokens_per_s = 0.0;  // Prompt tokens, including cached ones.
  double output_tokens_per_s = 0.0;
};

struct FormulaResult {
  std::uint32_t replicas = 0;  // The greater of the two.
  std::uint32_t by_input = 0, by_output = 0;
  double utilisation = 0.0;  // Utilisation of the busier side with this number of replicas, 0 to 1.
};

// ⌈rate / (capacity · utilisation)⌉ for prompt and output tokens, and the greater of both; 0 replicas without traffic.
// Empty if a rate or capacity is negative or not finite, the utilisation is not in (0, 1], a side with traffic has no
// capacity, or the result exceeds 32 bits.
[[nodiscard]] std::optional<FormulaResult> replicas_by_formula(double input_tokens_per_s, double output_tokens_per_s,
                                                               const TokenCapacity& capacity, double utilisation);

struct TrafficShape {
  double input_tokens = 0.0;   // Mean over prompts.
  double output_tokens = 0.0;  // Mean.
  double cached_share = 0.0;   // Share of prompt tokens that are cached; 0 to below 1.
};

struct EngineLimits {
  double max_sequences = 256;
  double max_batched_tokens = 8192;
  double kv_tokens = 1'024'000;
};

struct CapacityOptions {
  signals::Role role = signals::Role::kAggregated;
  double factor = 1.0;       // Multiplier of the model's step times, StepTimeCorrection::factor().
  double ttft_margin = 0.9;  // Share of the SLO that may be used.
  double itl_margin = 0.75;
  double room_margin = 0.9;  // Share of the slots and of the KV cache that may be used.
};

struct ReplicaEstimate {
  TokenCapacity tokens;
  double requests_per_s = 0.0;
  double concurrency = 0.0;  // Mean number of decoding sequences; 0 for a prefill replica.
  double itl_ms = 0.0;       // 95th percentile at that rate; 0 for a prefill replica.
  double ttft_ms = 0.0;      // 95th percentile at that rate; 0 for a decode replica.
};

// Returns the highest steady rate of Poisson arrivals with the given mean lengths at which about 95 % of requests meet
// the SLO.
//
// With b sequences that decode at a mean length of input + output/2, each step completes and starts b/(output − 1)
// requests. The number of prompts per step is Poisson with that mean, so that a share q = 1 − e^(−b/(output − 1)) of
// the steps computes prompts, more if a prompt takes several steps:
//   itl  = (1 − q) · step(b) + q · step(b, prompt tokens)         rate = b / ((output − 1) · itl)
//   ttft = the rest of a step + the steps of the prompt + the queueing delay of M/D/1 for prompts
// One minute in twenty has b + 1.645·√b sequences, which must still meet the ITL and fit the KV cache and the slots.
// The largest b is found by bisection. For prefill replicas the rate is bisected instead; for decode replicas q = 0.
//
// Empty if an input is not finite or out of range, or if even the lowest rate misses the SLO. Cost: about 40
// evaluations of four steps, microseconds. docs/capacity.md compares the result with load tests.
[[nodiscard]] std::optional<ReplicaEstimate> token_capacity(const engine::StepTimeModel& model,
                                                            const TrafficShape& shape, const EngineLimits& limits,
                                                            const signals::SloTarget& slo,
                                                            const CapacityOptions& options = {});

}  // namespace penstock::capacity
