// Tokens of requests, and the GPU cost that they bear.
#pragma once

#include <cstdint>

namespace penstock::decision {

struct TokenCount {
  std::uint64_t input = 0, output = 0;
};

// GPU cost (USD) by what the GPUs computed: prompts or output.
struct TokenCost {
  double input = 0.0, output = 0.0;
};

}  // namespace penstock::decision
