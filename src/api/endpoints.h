// The paths that take a request for a model, and their differences. A new endpoint is a new row of the table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::api {

enum class Endpoint : std::uint8_t {
  kChatCompletions,
  kCompletions,
  kResponses,
  kMessages,
  kCountTokens,
  kEmbeddings,
  kRerank,
  kScore
};
inline constexpr std::array<Endpoint, 8> kEndpoints{
    Endpoint::kChatCompletions, Endpoint::kCompletions, Endpoint::kResponses, Endpoint::kMessages,
    Endpoint::kCountTokens,     Endpoint::kEmbeddings,  Endpoint::kRerank,    Endpoint::kScore};

// Whose API a path belongs to, which decides the format of errors and of streams.
enum class Dialect : std::uint8_t { kOpenAi, kAnthropic };

// How a field of the body holds text of the prompt.
enum class TextForm : std::uint8_t {
  kMessages,  // Messages of a chat.
  kSystem,    // A string or blocks of text that templates render before the messages.
  kPrompt,    // A string, or an array of strings or token ids.
  kAny,       // A string as its text, any other value as its JSON.
};
struct TextField {
  std::string_view name;
  TextForm form;
};

struct EndpointTraits {
  std::string_view path;
  bool generates;                 // The endpoint generates tokens. Otherwise it has no output tokens and no stream.
  bool splits;                    // Prefill and decode can run on different engines.
  bool reports_usage_on_request;  // Streams report usage only with stream_options.include_usage.
  bool takes_tools;               // The JSON of `tools` is part of the prompt.
  bool pairs_texts;               // Each text of a field is paired with a text of another field.
  std::string_view max_tokens;    // Name of the max_tokens field; empty if there is none.
  // What the API defines for a request without that field; 0: the rest of the context.
  std::uint32_t max_tokens_default;
  std::span<const TextField> text;  // At least one of these fields is required; of Anthropic's API the first.
  Dialect dialect = Dialect::kOpenAi;
  bool computes = true;  // The engine computes the prompt. Otherwise it only reads it.
};
[[nodiscard]] const EndpointTraits& traits_of(Endpoint endpoint);
[[nodiscard]] inline std::string_view path_of(Endpoint endpoint) { return traits_of(endpoint).path; }
[[nodiscard]] Dialect dialect_of(std::string_view path);  // Also of paths that do not exist.

}  // namespace penstock::api
