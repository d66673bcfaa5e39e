// What only bodies of Anthropic's Messages API have, as the request reader needs it; internal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "api/request.h"
#include "core/result.h"

namespace penstock::api {

// Inserts the text of `system`, valid JSON, at a position: "system\n", its blocks and "\n". A string or blocks of text.
// Left out are blocks with the billing header of Claude Code, which differs in each request and which vLLM leaves out.
[[nodiscard]] core::Result<void> insert_system(std::string& text, std::size_t at, std::string_view json);

// Appends the JSON of a block of a message that is not text: an image, the call of a tool, its result. Equal bytes are
// equal prompts. `cache_control` is left out with `is_message`: clients move it from request to request, and it is no
// part of the prompt.
void append_block(InferenceRequest& request, const MediaOfPart& media, std::string_view block, bool is_message);

// Returns true for `metadata` and `thinking`.
[[nodiscard]] bool is_message_field(std::string_view name);
// Notes what such a field says: its user, or where its budget of tokens is. `json` is its valid value, at `at` of the
// body.
void note_message_field(InferenceRequest& request, std::string_view name, std::string_view json, std::size_t at);

}  // namespace penstock::api
