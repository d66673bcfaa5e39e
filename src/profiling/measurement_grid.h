// The points of a profile that are measured.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::profiling {

struct GridLimits {
  std::uint32_t prompt_tokens = 8192;  // Longest prompt, and longest context of decode steps.
  std::uint32_t sequences = 64;        // Most sequences that decode at once.
};
inline constexpr std::uint32_t kShortestPrompt = 64, kShortestContext = 128;

// A prompt on an idle endpoint if `sequences` is 0, otherwise a decode step of sequences of `tokens` tokens each.
struct GridPoint {
  std::uint32_t tokens = 0, sequences = 0;
  bool is_required = false;  // A profile without the point has a hole.

  [[nodiscard]] bool is_prompt() const { return sequences == 0; }
  [[nodiscard]] std::uint64_t kv_tokens() const { return std::uint64_t{tokens} * sequences; }
  [[nodiscard]] bool same_as(const GridPoint& other) const {
    return tokens == other.tokens && sequences == other.sequences;
  }
};
// Returns "prompt of 2,048 tokens" or "decode step of 8 sequences of 512 tokens".
[[nodiscard]] std::string to_string(const GridPoint& point);

// Prompts and numbers of sequences are powers of two, contexts powers of four, and the limits themselves. Required
// points come first: every second of them, and the first and last. Within them prompts come before decode steps, and
// both ascend.
[[nodiscard]] std::vector<GridPoint> measurement_grid(const GridLimits& limits);

}  // namespace penstock::profiling
