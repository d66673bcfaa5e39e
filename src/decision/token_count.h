// Tokens of requests, and the GPU cost that they bear.
#pragma once

#include <cstdint>

namespace penstock::decision {

struct TokenCount {
  std::uint64_t input = 0, output = 0;

  TokenCount& operator+=(const TokenCount& other) {
    input += other.input;
    output += other.output;
    return *this;
  }
};

// GPU cost (USD) by what the GPUs computed: prompts or output.
struct TokenCost {
  double input = 0.0, output = 0.0;

  TokenCost& operator+=(const TokenCost& other) {
    input += other.input;
    output += other.output;
    return *this;
  }
};

}  // namespace penstock::decision
