// Settings of engines, with the flags of vLLM, SGLang and Triton. `penstock size` advises them by load and
// measurements; a diagnosis names those that may help against its cause, and those that live measurements suggest.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decision/decision.h"
#include "signals/slo.h"

namespace penstock::decision {

struct EngineSetting {
  std::string_view rule;    // "kv_reserve", a stable name.
  std::string_view advice;  // What to change.
  // Flags of vLLM, SGLang and Triton with TensorRT-LLM. Empty: there is none.
  std::string_view vllm, sglang, triton;
};

// The setting of a rule that exists.
[[nodiscard]] const EngineSetting& engine_setting(std::string_view rule);
// The settings that may help against the cause, the one to try first at the front; empty if none does.
[[nodiscard]] std::vector<EngineSetting> settings_against(Cause cause);

// What replicas of the model have shown. Empty: not measured.
struct EngineMeasurement {
  std::optional<double> ttft_p95_s, itl_p95_s;
  std::optional<double> utilisation;  // Share of the token capacity of the replicas, or of the GPU.
  // Mean share of the sequence slots that are filled when stepping (batch_merge_efficiency), now and earlier.
  std::optional<double> batch_efficiency, batch_efficiency_before;
};
// Bounds of the rules on it. Latency counts as healthy below this share of its limit.
inline constexpr double kHealthyShare = 0.8, kHighUtilisation = 0.8;
inline constexpr double kEfficiencyFall = 0.1;  // Relative to the earlier value.

// Evidence of the rules "queue_delay" and "batch_efficiency"; empty if the rule does not hold.
[[nodiscard]] std::optional<std::string> queue_delay_evidence(const signals::SloTarget& slo,
                                                              const EngineMeasurement& measured);
[[nodiscard]] std::optional<std::string> batch_efficiency_evidence(const EngineMeasurement& measured);

}  // namespace penstock::decision
