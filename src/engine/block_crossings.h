// When decoding sequences need their next KV block.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "engine/sequence_table.h"

namespace penstock::engine {

// A decoding sequence needs one more block at every step s with s mod block_tokens = its class. The counts by class
// tell in O(1) how many blocks a step needs, and in O(block_tokens / 64) when the next step comes that needs any.
class BlockCrossings {
 public:
  explicit BlockCrossings(std::uint32_t block_tokens) : counts_(block_tokens), bits_((block_tokens + 63) / 64) {}

  void add(const Sequence& sequence) { count(class_of(sequence), +1); }
  void remove(const Sequence& sequence) { count(class_of(sequence), -1); }

  // Sequences that need a block at this step.
  [[nodiscard]] const std::uint32_t& at(std::uint64_t step) const { return counts_[step % counts_.size()]; }

  // Steps from the one after `step` to the last before the next that needs a block; at least 1, UINT32_MAX if none
  // does.
  [[nodiscard]] std::uint32_t steps_to_next(std::uint64_t step) const {
    const auto size = static_cast<std::uint32_t>(counts_.size());
    const auto from = static_cast<std::uint32_t>((step + 2) % size);  // The class of the step after the next one.
    const auto words = static_cast<std::uint32_t>(bits_.size());
    std::uint32_t word = from / 64;
    std::uint64_t bits = bits_[word] & (~std::uint64_t{0} << (from % 64));
    for (std::uint32_t checked = 0; checked <= words; ++checked) {
      if (bits != 0) {
        const std::uint32_t found = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
        return 1 + (found >= from ? found - from : found + size - from);
      }
      word = word + 1 == words ? 0 : word + 1;
      bits = bits_[word];
    }
    return UINT32_MAX;
  }

 private:
  // At step s > joined a sequence computes the token number input + generated + (s − joined) − 1, counted from 0, which
  // begins a block when the number is a multiple of the block size.
  [[nodiscard]] std::uint32_t class_of(const Sequence& sequence) const {
    const std::uint64_t size = counts_.size();
    const std::uint64_t length = std::uint64_t{sequence.request.input_tokens} + sequence.generated - 1;
    return static_cast<std::uint32_t>((sequence.joined_step + 1 + size - length % size) % size);
  }
  void count(std::uint32_t crossing, int change) {
    counts_[crossing] += static_cast<std::uint32_t>(change);
    const std::uint64_t bit = std::uint64_t{1} << (crossing % 64);
    if (counts_[crossing] > 0) {
      bits_[crossing / 64] |= bit;
    } else {
      bits_[crossing / 64] &= ~bit;
    }
  }

  std::vector<std::uint32_t> counts_;  // by class
  std::vector<std::uint64_t> bits_;    // Bit i is set if counts_[i] > 0.
};

}  // namespace penstock::engine
