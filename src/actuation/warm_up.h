// What a new replica is asked before it takes traffic.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock::actuation {

// A request that makes an engine compute a prefix that many users' requests begin with.
struct HotPrefix {
  std::string path, body;    // "/v1/chat/completions", JSON
  std::uint32_t tokens = 0;  // about
  std::uint64_t hits = 0;    // requests that began with it lately
};

struct WarmUpOptions {
  std::uint32_t representative = 4;          // prompts of made-up text, with lengths across those of recent traffic
  std::uint32_t prefixes_max = 32;           // hot ones
  std::uint64_t tokens_max = 200'000;        // of all prompts together
  std::uint64_t bytes_max = 1'000'000;       // of their text
  std::uint32_t prompt_tokens_max = 32'768;  // of one of made-up text
  std::uint32_t output_tokens = 8;           // asked of a representative prompt; of a prefix one is enough
  double bytes_per_token = 4.0;              // of made-up text
};

// Made-up texts for completions, and requests as they are, to be sent once those are answered.
struct WarmUp {
  struct Prompt {
    std::string text;
    std::uint32_t tokens = 0;      // about
    std::uint32_t max_tokens = 1;  // to be answered
  };
  std::vector<Prompt> representative;
  std::vector<HotPrefix> prefixes;
};

// Representative prompts first, shortest first, so that the engine compiles and allocates what it needs; no two of them
// share a prefix, so that each is computed. Then the prefixes that save most (hits · tokens) as far as the limits allow.
// Lengths are the middles of equal parts of `recent_input_tokens` when sorted; without any, one of 256 tokens.
// The order of `prefixes` does not matter. O(n log n).
[[nodiscard]] WarmUp plan_warm_up(std::span<const std::uint32_t> recent_input_tokens,
                                  std::span<const HotPrefix> prefixes, const WarmUpOptions& options);

}  // namespace penstock::actuation
