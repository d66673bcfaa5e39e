// The paths that take a request for a model, and their differences. A new endpoint is a new row of the table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::api {

enum class Endpoint : std::uint8_t { kChatCompletions, kCompletions, kResponses, kEmbeddings, kRerank, kScore };
inline constexpr std::array<Endpoint, 6> kEndpoints{Endpoint::kChatCompletions, Endpoint::kCompletions,
                                                    Endpoint::kResponses,       Endpoint::kEmbeddings,
                                                    Endpoint::kRerank,          Endpoint::kScore};

// How a field of the body holds text of the prompt.
enum class TextForm : std::uint8_t {
  kMessages,  // Messages of a chat.
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
  std::span<const TextField> text;  // At least one of these fields is required.
};
[[nodiscard]] const EndpointTraits& traits_of(Endpoint endpoint);
[[nodiscard]] inline std::string_view path_of(Endpoint endpoint) { return traits_of(endpoint).path; }

}  // namespace penstock::api
