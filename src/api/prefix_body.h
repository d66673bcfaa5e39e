// The beginning of a prompt as a request of its own, so that an engine computes it before others send it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "api/request.h"

namespace penstock::api {

struct PrefixBody {
  std::string body;            // for the same endpoint: the fields that make the prompt, and max_tokens 1
  std::size_t text_bytes = 0;  // how much of the prompt's text it begins with
};

// `text_bytes` of InferenceRequest::text are wanted; there may be fewer, as no character is cut, and no message but one of
// plain text. A chat stays a chat: its leading messages, the last one cut, and a user's message behind them where they do
// not end with one, which templates want. None: of this prompt there is no such part. The body must have been read before.
// Parses the body several times.
[[nodiscard]] std::optional<PrefixBody> prefix_body(Endpoint endpoint, std::string_view body, std::size_t text_bytes);

}  // namespace penstock::api
