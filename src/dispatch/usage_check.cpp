#include "dispatch/usage_check.h"

#include <algorithm>

namespace penstock::dispatch {

// No tokenizer makes more than one token of a byte. The template of a chat may leave out parts of the messages, for
// example earlier reasoning.
void note_bounds(ActiveRequest& request, const RequestInfo& info, std::uint32_t context_tokens) {
  constexpr std::uint64_t kBytesPerTokenOfChats = 64;
  request.prompt_tokens_given = info.prompt_tokens_given;
  request.hides_output = info.hides_output;
  request.hides_reasoning = info.hides_reasoning;
  request.repeats_prompt = info.repeats_prompt;
  const bool has_ids = info.prompt_tokens_given > 0;
  const std::uint64_t most = has_ids ? info.prompt_tokens_given : info.text_bytes;
  request.prompt_tokens_most =
      std::max<std::uint64_t>(most + info.media_tokens + info.template_tokens, request.estimate.prompt_tokens);
  if (info.extends_prompt)
    request.prompt_tokens_most = std::max(request.prompt_tokens_most, info.prompts * context_tokens);
  if (info.cuts_prompt || info.max_tokens == 0U) return;
  request.prompt_tokens_least = std::max<std::uint64_t>(1, has_ids ? most : most / kBytesPerTokenOfChats);
}

bool shows_tokens(const ActiveRequest& request, const SeenOutput& seen) {
  constexpr std::uint32_t kEventsMin = 3;  // Fewer may be a whole answer in one piece.
  return !request.hides_output && seen.events >= kEventsMin;
}

TokenBounds output_bounds(const ActiveRequest& request, const SeenOutput& seen, std::uint64_t reasoning_tokens,
                          std::uint64_t limit) {
  // The end of an answer, and markers around tool calls and channels, have no text.
  constexpr std::uint64_t kWithoutText = 16;
  constexpr std::uint64_t kBytesPerTokenMost = 64;
  constexpr std::uint64_t kInaccuracy = 100;  // One event of so many may have no token of its own.
  TokenBounds bounds{0, limit};
  if (!seen.has_text()) return bounds;
  bounds.least = std::max<std::uint64_t>(1, seen.events - seen.events / kInaccuracy);
  if (!request.repeats_prompt) bounds.least = std::max(bounds.least, seen.bytes / kBytesPerTokenMost);
  bounds.least = std::min(bounds.least, limit);
  if (!shows_tokens(request, seen)) return bounds;
  const std::uint64_t shown =
      seen.bytes + std::max(seen.steps, seen.events) + kWithoutText * request.answers + reasoning_tokens;
  bounds.most = std::min(limit, shown);
  return bounds;
}

}  // namespace penstock::dispatch
