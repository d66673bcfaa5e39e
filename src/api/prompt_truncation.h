// Makes the prompt of a request shorter, so that it fits into the context of its model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/request.h"
#include "core/prompt_excess.h"

namespace penstock::api {

struct TruncatedPrompt {
  std::string body;
  std::uint32_t messages = 0;  // Messages that were dropped; 0 for a completion.
};

// Returns true if truncated_prompt() can shorten the request: a chat, or a completion with one prompt, of text or of
// token ids, without images, audio and files.
[[nodiscard]] bool can_truncate(const InferenceRequest& request);

// Returns the body of such a request with a prompt that is shorter by the excess; all other bytes stay. Empty if
// nothing may be dropped.
// - Of a chat, the oldest turns are dropped, each with the answers and tool calls that follow its user message, then
//   the oldest steps after the last user message: an answer with its tool calls and their results. Messages of the
//   roles system and developer, the last user message and the last step stay. If that is not enough, only those are
//   left.
// - Of a completion, the beginning of the text is cut between two code points, or the first token ids. Empty if nothing
//   would be left.
// O(bytes). Any thread may call it. Memory: several times the size of the body.
[[nodiscard]] std::optional<TruncatedPrompt> truncated_prompt(Endpoint endpoint, std::string_view body,
                                                              const core::PromptExcess& excess);

}  // namespace penstock::api
