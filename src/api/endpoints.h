// The paths that take a request for a model, and all that they differ in. A new one is a row here.
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
  kMessages,  // of a chat
  kPrompt,    // a string, or an array of strings or of token numbers
  kAny,       // a string as its text, anything else as its JSON
};
struct TextField {
  std::string_view name;
  TextForm form;
};

struct EndpointTraits {
  std::string_view path;
  bool generates;                   // tokens; else it has no output that counts, and no stream
  bool splits;                      // can be prefilled by one engine and decoded by another
  bool takes_tools;                 // whose JSON is part of the prompt
  std::string_view max_tokens;      // the field; empty: none
  std::span<const TextField> text;  // one of these at least must be there
};
[[nodiscard]] const EndpointTraits& traits_of(Endpoint endpoint);
[[nodiscard]] inline std::string_view path_of(Endpoint endpoint) { return traits_of(endpoint).path; }

}  // namespace penstock::api
