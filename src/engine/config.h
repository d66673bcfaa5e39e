// Settings of one engine, named like the scheduler arguments of vLLM, SGLang and TensorRT-LLM.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/time.h"

namespace penstock::engine {

enum class QueueOrder : std::uint8_t {
  kFcfs,      // First come, first served.
  kShortest,  // Shortest expected processing first, within EngineConfig::fairness_bound.
  kPriority,  // Highest priority first, then first come, first served.
};

enum class PreemptionOrder : std::uint8_t {
  kLifo,           // The sequence that was admitted last, like vLLM.
  kLeastProgress,  // The sequence with the fewest generated tokens.
  kPriority,       // The lowest priority, then the sequence that was admitted last.
};

// What an iteration computes while prompts wait and sequences decode.
enum class IterationOrder : std::uint8_t {
  kMixed,         // Decoding sequences and parts of prompts together, like vLLM.
  kPrefillFirst,  // Prompts alone, as long as any can be admitted; the sequences wait for them, like SGLang.
};

// Which release of NVIDIA Dynamo's replay the iterations are timed like.
enum class IterationRules : std::uint8_t {
  kDynamo16,  // A prompt's first token takes no time beside the prompt's. Decode time follows the sequences' lengths.
  // The iteration that ends a prompt also decodes its sequence. The decode time of `polynomial` follows the blocks in
  // use, so that a shared prefix counts once and a block that is half empty counts whole.
  kDynamo13,
};

struct EngineConfig {
  std::uint32_t block_tokens = 512;  // Tokens per KV block.
  std::uint32_t kv_blocks = 2000;    // Blocks in the KV cache.
  // Attention ranks that share the KV cache in equal parts. A request must fit one part; the parts are filled evenly.
  std::uint32_t attention_ranks = 1;
  std::uint32_t max_sequences = 256;        // Maximum number of running sequences.
  std::uint32_t max_batched_tokens = 8192;  // Token budget of one iteration.
  // If false, a prompt is computed in a single iteration and waits until it fits into one.
  bool chunked_prefill = true;
  bool prefix_caching = true;
  IterationOrder iteration_order = IterationOrder::kMixed;
  IterationRules iteration_rules = IterationRules::kDynamo16;
  double watermark = 0.0;  // Share of blocks that must stay free when a request is admitted.
  QueueOrder queue_order = QueueOrder::kFcfs;
  // A request that has waited longer is served first.
  core::Duration fairness_bound = std::chrono::seconds{10};
  PreemptionOrder preemption_order = PreemptionOrder::kLifo;
  // An idle engine waits up to this long for more prompts before it steps, so that batches merge; 0 starts at once.
  core::Duration queue_delay{};
  // Share of max_batched_tokens that prompts may take in an iteration while sequences decode. 1 means one shared budget
  // with decode first; 0.3 is a usual split. The controller moves the share between prefill_share_min and
  // prefill_share_max as the two queues grow.
  double prefill_share = 1.0;
  double prefill_share_min = 0.1, prefill_share_max = 0.6;
  core::Duration prefill_share_interval = std::chrono::milliseconds{500};
  double prefill_share_step = 0.05;
  double prefill_share_kv_limit = 0.85;  // The share does not grow while KV usage is above this value.

  [[nodiscard]] std::uint32_t watermark_blocks() const {
    return static_cast<std::uint32_t>(std::ceil(watermark * kv_blocks));
  }
};

}  // namespace penstock::engine
