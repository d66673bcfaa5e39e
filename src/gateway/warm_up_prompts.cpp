#include "gateway/warm_up_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::gateway {
namespace {

using PromptJson = nlohmann::ordered_json;

core::Result<WarmUpPrompt> parse_warm_up_prompt(std::string_view line, const std::string& where) {
  PromptJson body = PromptJson::parse(line, nullptr, false);
  if (!body.is_object())
    return core::invalid_input(where, "is not a JSON object", "write the body of one request on each line");
  const bool is_chat = body.contains("messages");
  if (is_chat == body.contains("prompt"))
    return core::invalid_input(where, "needs messages or prompt", "write the body of a chat or of a completion");
  WarmUpPrompt made;
  if (const auto model = body.find("model"); model != body.end()) {
    if (!model->is_string()) return core::invalid_input(where, "model is not a string");
    made.model = model->get<std::string>();
  }
  if (!body.contains("max_tokens") && !body.contains("max_completion_tokens")) body["max_tokens"] = 1;
  body["stream"] = false;
  made.path = is_chat ? "/v1/chat/completions" : "/v1/completions";
  made.body = body.dump(-1, ' ', false, PromptJson::error_handler_t::replace);
  return made;
}

}  // namespace

core::Result<std::vector<WarmUpPrompt>> parse_warm_up_prompts(std::string_view text, const std::string& file) {
  std::vector<WarmUpPrompt> prompts;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (prompts.size() == kWarmUpPromptsMax)
      return core::invalid_input(file, fmt::format("has more than {} prompts", kWarmUpPromptsMax));
    auto prompt = parse_warm_up_prompt(line, fmt::format("{}:{}", file, number));
    if (!prompt) return tl::make_unexpected(prompt.error());
    prompts.push_back(*std::move(prompt));
  }
  return prompts;
}

std::string body_for(const WarmUpPrompt& prompt, const std::string& model) {
  PromptJson body = PromptJson::parse(prompt.body);
  body["model"] = model;
  return body.dump(-1, ' ', false, PromptJson::error_handler_t::replace);
}

}  // namespace penstock::gateway
