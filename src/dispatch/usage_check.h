// Which token counts of an engine can be true, by what the gateway saw of the request and of its answer.
#pragma once

#include <cstdint>

#include "dispatch/active_requests.h"
#include "dispatch/request.h"

namespace penstock::dispatch {

struct TokenBounds {
  std::uint64_t least = 0, most = UINT64_MAX;
  [[nodiscard]] bool contain(std::uint64_t tokens) const { return least <= tokens && tokens <= most; }
};

// Notes what a request says of its counts. Its estimate is known. `context_tokens`: of its model.
void note_bounds(ActiveRequest& request, const RequestInfo& info, std::uint32_t context_tokens);

// The prompt is limited by its bytes or its token ids, its media and the template.
[[nodiscard]] inline TokenBounds prompt_bounds(const ActiveRequest& request) {
  return {request.prompt_tokens_least, request.prompt_tokens_most};
}

// A stream shows its tokens unless its request hides a part of them. A whole answer does not.
[[nodiscard]] bool shows_tokens(const ActiveRequest& request, const SeenOutput& seen);

// The output has at least one token per event with text. A stream that shows its tokens has at most one per byte of
// text, one per event, those that the engine names as reasoning, and some that no text shows. `limit` is the most that
// the request and the context allow. An answer without text bounds nothing else.
[[nodiscard]] TokenBounds output_bounds(const ActiveRequest& request, const SeenOutput& seen,
                                        std::uint64_t reasoning_tokens, std::uint64_t limit);

}  // namespace penstock::dispatch
