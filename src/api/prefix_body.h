// Builds a request from the beginning of a prompt, so that an engine caches it before other requests need it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "api/request.h"

namespace penstock::api {

struct PrefixBody {
  std::string body;            // For the same endpoint: the fields that form the prompt, and max_tokens 1.
  std::size_t text_bytes = 0;  // Length of the prompt text that it covers.
};

// Builds a request for the first `text_bytes` of InferenceRequest::text. It may be shorter, because characters are not
// split and only messages of plain text are. A chat keeps its leading messages, the last one truncated, followed by a
// user message if they do not end with one, because templates require it. Returns nothing if the prompt has no such
// prefix. The body must have been read successfully before. Parses the body several times.
[[nodiscard]] std::optional<PrefixBody> prefix_body(Endpoint endpoint, std::string_view body, std::size_t text_bytes);

}  // namespace penstock::api
