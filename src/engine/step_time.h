// Time of one engine iteration. Implementations: polynomial, linear, table, roofline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "core/time.h"

namespace penstock::engine {

// The work of one iteration: chunks of prompts, and one token for every decoding sequence.
struct StepShape {
  std::uint32_t prefill_requests = 0;    // Sequences with a prompt chunk in this step.
  std::uint64_t prefill_new_tokens = 0;  // Prompt tokens that are computed.
  // Sum of the tokens of the same prompts that are in the cache before their chunk.
  std::uint64_t prefill_context_tokens = 0;
  // Sum of new·(before + (new + 1)/2): query-key pairs of causal attention.
  double prefill_attention_pairs = 0.0;
  // Sequences that decode: those that had their first token before this step.
  std::uint32_t decode_sequences = 0;
  std::uint64_t decode_context_tokens = 0;  // Sum of their lengths.
  std::uint64_t active_kv_tokens = 0;       // Distinct tokens in the cache: active blocks × block size.
  std::uint64_t total_kv_tokens = 1;        // Capacity of the KV cache, greater than 0.
  // IterationRules::kDynamo13: decode_sequences includes those whose prompt ends in this step, and the decode time of
  // `polynomial` follows active_kv_tokens.
  bool dynamo_13 = false;
};

struct DecodeRun {
  std::uint32_t steps = 0;
  core::Duration time{};
};

// Implementations are pure, immutable and may be shared between threads.
class StepTimeModel {
 public:
  virtual ~StepTimeModel() = default;

  // Time of one step in whole nanoseconds; greater than 0 for any non-empty shape.
  [[nodiscard]] virtual core::Duration step(const StepShape& shape) const = 0;

  // Time of up to `steps` (> 0) consecutive decode-only steps that start from `shape`, in which every sequence grows by
  // one token per step and no block is added. Stops after the first step that ends at or after `limit`, and makes at
  // least one. The result equals repeated calls of step() to the nanosecond; some models compute it in closed form.
  [[nodiscard]] virtual DecodeRun decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const;

  // Returns "polynomial", "linear:a,b,c,d", "table:FILE" or "roofline:…", for reports.
  [[nodiscard]] virtual std::string description() const = 0;
};

// Returns the model with every step taking `factor` (> 0) times as long.
[[nodiscard]] std::shared_ptr<const StepTimeModel> slowed(std::shared_ptr<const StepTimeModel> model, double factor);

}  // namespace penstock::engine
