// The settings of one engine: what vLLM, SGLang and TensorRT-LLM call their scheduler arguments.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/time.h"

namespace penstock::engine {

enum class QueueOrder : std::uint8_t {
  kFcfs,      // first come, first served
  kShortest,  // shortest expected processing first, within EngineConfig::fairness_bound
  kPriority,  // highest priority first, then first come
};

enum class PreemptionOrder : std::uint8_t {
  kLifo,           // the sequence admitted last, as vLLM does
  kLeastProgress,  // the one with the fewest generated tokens
  kPriority,       // the lowest priority, then the one admitted last
};

struct EngineConfig {
  std::uint32_t block_tokens = 512;         // tokens per KV block
  std::uint32_t kv_blocks = 2000;           // blocks in the KV cache
  std::uint32_t max_sequences = 256;        // running at once
  std::uint32_t max_batched_tokens = 8192;  // token budget of one iteration
  bool chunked_prefill = true;              // off: a prompt is computed in one iteration or waits for one
  bool prefix_caching = true;
  double watermark = 0.0;  // share of blocks kept free when a request is admitted
  QueueOrder queue_order = QueueOrder::kFcfs;
  core::Duration fairness_bound = std::chrono::seconds{10};  // a request that waited longer goes first
  PreemptionOrder preemption_order = PreemptionOrder::kLifo;
  // An idle engine waits up to this long for more prompts before it steps, so that batches merge; 0 starts at once.
  core::Duration queue_delay{};
  // Separate budgets for prefill and decode: the share of max_batched_tokens that prompts may take in an iteration
  // while sequences decode. 1: one shared budget, decode first. 0.3 is the usual split; the controller moves it between
  // prefill_share_min and prefill_share_max as the two queues grow.
  double prefill_share = 1.0;
  double prefill_share_min = 0.1, prefill_share_max = 0.6;
  core::Duration prefill_share_interval = std::chrono::milliseconds{500};
  double prefill_share_step = 0.05;
  double prefill_share_kv_limit = 0.85;  // the share never grows while KV usage is above

  [[nodiscard]] std::uint32_t watermark_blocks() const {
    return static_cast<std::uint32_t>(std::ceil(watermark * kv_blocks));
  }
};

}  // namespace penstock::engine
