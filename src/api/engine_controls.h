// Fields of a body that control an engine instead of describing the request: where it fetches KV, which requests go
// first, which cache is used, which code or file it loads. A gateway sets them itself and drops those of clients.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "core/name_filter.h"

namespace penstock::api {

inline constexpr std::array<std::string_view, 29> kEngineControls{
    // vLLM.
    "kv_transfer_params", "ec_transfer_params", "priority", "cache_salt", "request_id", "vllm_xargs",
    "data_parallel_rank", "logits_processors", "prompt_embeds", "mm_processor_kwargs", "media_io_kwargs",
    // How many tokens an event of a stream has: the bill of a stream that its client leaves depends on its events.
    "stream_interval",
    // SGLang.
    "rid", "lora_path", "extra_key", "bootstrap_host", "bootstrap_port", "bootstrap_room", "routed_dp_rank",
    "disagg_prefill_dp_rank", "custom_logit_processor", "custom_params",
    // TensorRT-LLM and Dynamo.
    "lora_request", "disaggregated_params", "nvext",
    // llama.cpp: the first two overrule max_tokens and n.
    "n_predict", "n_cmpl", "id_slot", "lora"};

inline constexpr core::NameFilter kEngineControlFilter{kEngineControls};
// Returns the index of the name in kEngineControls, and its size for any other name.
[[nodiscard]] constexpr std::size_t engine_control_named(std::string_view name) {
  if (!kEngineControlFilter.may_have(name)) return kEngineControls.size();
  return static_cast<std::size_t>(std::find(kEngineControls.begin(), kEngineControls.end(), name) -
                                  kEngineControls.begin());
}

}  // namespace penstock::api
