// How long one iteration of an engine takes. Implementations: polynomial, linear, table, roofline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "core/time.h"

namespace penstock::engine {

// What one iteration computes: chunks of prompts, and one token for every decoding sequence.
struct StepShape {
  std::uint32_t prefill_requests = 0;        // sequences with a prompt chunk in this step
  std::uint64_t prefill_new_tokens = 0;      // tokens computed for prompts
  std::uint64_t prefill_context_tokens = 0;  // Σ tokens of the same prompts already in the cache before their chunk
  double prefill_attention_pairs = 0.0;      // Σ new·(before + (new + 1)/2): query-key pairs of causal attention
  std::uint32_t decode_sequences = 0;        // sequences that get a token, those included whose prompt ends here
  std::uint64_t decode_context_tokens = 0;   // Σ their lengths
  std::uint64_t active_kv_tokens = 0;        // distinct tokens held: blocks in use × block size
  std::uint64_t total_kv_tokens = 1;         // capacity of the KV cache, > 0
};

struct DecodeRun {
  std::uint32_t steps = 0;
  core::Duration time{};
};

// Pure, immutable and safe to share between threads.
class StepTimeModel {
 public:
  virtual ~StepTimeModel() = default;

  // Time of one step, whole nanoseconds, > 0 for any non-empty shape.
  [[nodiscard]] virtual core::Duration step(const StepShape& shape) const = 0;

  // Time of up to `steps` (> 0) decode-only steps in a row that start from `shape`, while every sequence grows by one
  // token a step and no block is gained. Stops after the first step that ends at or after `limit`; makes at least
  // one. Equal, to the nanosecond, to calling step() again and again; models that can, do it in closed form.
  [[nodiscard]] virtual DecodeRun decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const;

  // "polynomial", "linear:a,b,c,d", "table:FILE", "roofline:…"; what a report prints.
  [[nodiscard]] virtual std::string description() const = 0;
};

// The same model with every step taking `factor` (> 0) times as long.
[[nodiscard]] std::shared_ptr<const StepTimeModel> slowed(std::shared_ptr<const StepTimeModel> model, double factor);

}  // namespace penstock::engine
