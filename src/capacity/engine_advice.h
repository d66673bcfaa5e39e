// Settings of engines, precision and GPUs that a sizing or measurements of replicas suggest, each with its evidence.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capacity/sizing.h"

namespace penstock::capacity {

// What replicas of the model have shown. Empty: not measured.
struct EngineMeasurement {
  std::optional<double> ttft_p95_s, itl_p95_s;
  std::optional<double> utilisation;  // Share of the token capacity of the replicas, or of the GPU.
  // Mean share of the sequence slots that are filled when stepping (batch_merge_efficiency), now and earlier.
  std::optional<double> batch_efficiency, batch_efficiency_before;
};

struct EngineAdvice {
  std::string_view rule;  // "queue_delay", as JSON has it.
  std::string advice, evidence;
  // The setting of vLLM, SGLang and Triton with TensorRT-LLM. Empty: there is none.
  std::string vllm, sglang, triton;
  std::string_view effect;  // Known costs and savings; empty: not known.
  std::string_view source;
};

// Bounds of the rules. Latency counts as healthy below this share of its limit.
inline constexpr double kHealthyShare = 0.8, kHighUtilisation = 0.8, kLowUtilisation = 0.5;
inline constexpr double kEfficiencyFall = 0.1;       // Relative to the earlier value.
inline constexpr double kKvShareMax = 0.85;          // The rest of the KV cache is reserved.
inline constexpr double kLongPromptTokens = 8000.0;  // Computed ones; production prompts rarely have more.
inline constexpr double kLargeWeightsGib = 10.0;

// The rules that hold, in a fixed order. Those on a replica need a best choice.
[[nodiscard]] std::vector<EngineAdvice> engine_advice(const SizingRequest& request, const SizingAdvice& sizing,
                                                      const EngineMeasurement& measured);

}  // namespace penstock::capacity
