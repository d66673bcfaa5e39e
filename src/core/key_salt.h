// Separates the keys of prompt blocks by cache, so that equal prompts with different KV do not match.
#pragma once

#include <cstdint>
#include <span>

#include "core/random.h"

namespace penstock::core {

// Keys have 63 bits; see api/prompt_keys.h. Keys with different salts differ. Several salts may be applied in turn.
inline void salt_keys(std::span<std::uint64_t> keys, std::uint64_t salt) {
  constexpr std::uint64_t kTopBit = 1ULL << 63;
  for (std::uint64_t& key : keys) key = mix64(key ^ salt) & ~kTopBit;
}

}  // namespace penstock::core
