// Settings of engines, with the flags of vLLM, SGLang and Triton. `penstock size` advises them by load and
// measurements; a diagnosis names those that may help against its cause.
#pragma once

#include <string_view>
#include <vector>

#include "decision/decision.h"

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

}  // namespace penstock::decision
