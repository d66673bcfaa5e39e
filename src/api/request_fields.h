// The fields of a request that Penstock reads, except those with text of the prompt, which are in endpoints.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace penstock::api {

enum class Field : std::uint8_t {
  kModel,
  kTools,
  kStream,
  kStreamOptions,
  kMaxTokens,
  kMaxCompletionTokens,
  kMaxOutputTokens,
  kMinTokens,
  kChoices,
  kBestOf,
  kStop,
  kStopSequences,
  kIgnoreEos,
  kUser,
  kSessionId,
  kSessionParams,
  kKvTransferParams,
  kPriority,
  kCacheSalt,
  kOther,
};

inline constexpr std::array<std::string_view, 19> kFieldNames{"model",
                                                              "tools",
                                                              "stream",
                                                              "stream_options",
                                                              "max_tokens",
                                                              "max_completion_tokens",
                                                              "max_output_tokens",
                                                              "min_tokens",
                                                              "n",
                                                              "best_of",
                                                              "stop",
                                                              "stop_sequences",
                                                              "ignore_eos",
                                                              "user",
                                                              "session_id",
                                                              "session_params",
                                                              "kv_transfer_params",
                                                              "priority",
                                                              "cache_salt"};
static_assert(kFieldNames.size() == static_cast<std::size_t>(Field::kOther));

[[nodiscard]] constexpr std::string_view name_of(Field field) { return kFieldNames[static_cast<std::size_t>(field)]; }
// `is_message`: the body is one of Anthropic's API, which alone has stop_sequences.
[[nodiscard]] constexpr Field field_named(std::string_view name, bool is_message) {
  const auto field = static_cast<Field>(std::find(kFieldNames.begin(), kFieldNames.end(), name) - kFieldNames.begin());
  return field == Field::kStopSequences && !is_message ? Field::kOther : field;
}

// Fields that are no text of the prompt, but that the template of a chat may render.
inline constexpr std::array<std::string_view, 4> kRenderedFieldNames{"documents", "functions", "chat_template",
                                                                     "chat_template_kwargs"};
[[nodiscard]] constexpr bool may_be_rendered(std::string_view name) {
  return std::find(kRenderedFieldNames.begin(), kRenderedFieldNames.end(), name) != kRenderedFieldNames.end();
}

// Fields of engines that make an answer show less than they computed.
inline constexpr std::array<std::string_view, 5> kHidingFieldNames{"include_reasoning", "reasoning", "logit_bias",
                                                                   "allowed_token_ids", "detokenize"};

[[nodiscard]] constexpr bool may_hide_output(std::string_view name) {
  return std::find(kHidingFieldNames.begin(), kHidingFieldNames.end(), name) != kHidingFieldNames.end();
}

// Fields of /v1/responses that name something that an engine keeps and that becomes part of the prompt.
inline constexpr std::array<std::string_view, 3> kKeptPromptNames{"previous_response_id", "conversation", "prompt"};
[[nodiscard]] constexpr bool names_kept_prompt(std::string_view name) {
  return std::find(kKeptPromptNames.begin(), kKeptPromptNames.end(), name) != kKeptPromptNames.end();
}

// Further fields that change the generated text but not the structure of a response.
inline constexpr std::array<std::string_view, 13> kPlainFieldNames{
    "temperature", "top_p",      "top_k",    "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "seed",        "logit_bias", "metadata", "store", "service_tier",     "reasoning_effort"};
[[nodiscard]] constexpr bool is_plain(std::string_view name) {
  return std::find(kPlainFieldNames.begin(), kPlainFieldNames.end(), name) != kPlainFieldNames.end();
}

}  // namespace penstock::api
