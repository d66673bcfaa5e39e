// Prompts of the operator that warm new replicas up.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::gateway {

struct WarmUpPrompt {
  std::string model;  // Empty: of each replica.
  std::string path;   // "/v1/…"
  std::string body;   // JSON.
};
inline constexpr std::size_t kWarmUpPromptsMax = 256;

// Each line is the body of a request: with `messages` to /v1/chat/completions, with `prompt` to /v1/completions. Empty
// lines are skipped. `max_tokens` is 1 unless it is given, and `stream` is false. `file` names the text in errors.
[[nodiscard]] core::Result<std::vector<WarmUpPrompt>> parse_warm_up_prompts(std::string_view text,
                                                                            const std::string& file);

// The body with the name of a model.
[[nodiscard]] std::string body_for(const WarmUpPrompt& prompt, const std::string& model);

}  // namespace penstock::gateway
