// Warm-up prompts of a new replica.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::actuation {

// A request that makes an engine cache a prefix that many requests start with.
struct HotPrefix {
  std::string path, body;    // "/v1/chat/completions"; JSON.
  std::uint32_t tokens = 0;  // Approximate.
  std::uint64_t hits = 0;    // Recent requests that started with the prefix.
};

struct WarmUpOptions {
  // Number of prompts of synthetic text, with lengths distributed like recent traffic.
  std::uint32_t representative = 4;
  std::uint32_t prefixes_max = 32;           // Maximum number of hot prefixes.
  std::uint64_t tokens_max = 200'000;        // Sum over all prompts.
  std::uint64_t bytes_max = 1'000'000;       // Sum over their texts.
  std::uint32_t prompt_tokens_max = 32'768;  // Maximum length of a synthetic prompt.
  std::uint32_t output_tokens = 8;           // Requested by each representative prompt; a prefix requests one.
  double bytes_per_token = 4.0;              // Synthetic text.
};

// Synthetic texts for completions, and recorded requests, which are sent after those are answered.
struct WarmUp {
  struct Prompt {
    std::string text;
    std::uint32_t tokens = 0;      // Approximate.
    std::uint32_t max_tokens = 1;  // Requested output.
  };
  std::vector<Prompt> representative;
  std::vector<HotPrefix> prefixes;
};

// Representative prompts come first, shortest first, so that the engine compiles and allocates; no two of them share a
// prefix. They are followed by the prefixes with the highest savings (hits · tokens) within the limits. Lengths are the
// medians of equal parts of the sorted `recent_input_tokens`; without any, one length of 256 tokens is used. The order
// of `prefixes` does not matter. O(n log n).
[[nodiscard]] WarmUp plan_warm_up(std::span<const std::uint32_t> recent_input_tokens,
                                  std::span<const HotPrefix> prefixes, const WarmUpOptions& options);

}  // namespace penstock::actuation
