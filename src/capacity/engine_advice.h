// Settings of engines, precision and GPUs that a sizing or measurements of replicas suggest, each with its evidence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "capacity/sizing.h"
#include "decision/engine_settings.h"

namespace penstock::capacity {

using decision::EngineMeasurement;

struct EngineAdvice {
  std::string_view rule;  // "queue_delay", as JSON has it.
  std::string advice, evidence;
  // The setting of vLLM, SGLang and Triton with TensorRT-LLM. Empty: there is none.
  std::string vllm, sglang, triton;
  std::string_view effect;  // Known costs and savings; empty: not known.
  std::string_view source;
};

// Bounds of the rules that decision/engine_settings.h does not have.
inline constexpr double kLowUtilisation = 0.5;
inline constexpr double kKvShareMax = 0.85;          // The rest of the KV cache is reserved.
inline constexpr double kLongPromptTokens = 8000.0;  // Computed ones; production prompts rarely have more.
inline constexpr double kLargeWeightsGib = 10.0;

// The rules that hold, in a fixed order. Those on a replica need a best choice.
[[nodiscard]] std::vector<EngineAdvice> engine_advice(const SizingRequest& request, const SizingAdvice& sizing,
                                                      const EngineMeasurement& measured);

}  // namespace penstock::capacity
