// Block keys of a prompt, which match prefix caches without a tokenizer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace penstock::api {

// Key i identifies the first (i + 1)·block_bytes bytes of the text: equal keys mean equal prefixes (xxh3 truncated to
// 63 bits). Only complete blocks have a key. `keys` is cleared first and keeps its memory. O(bytes).
void prompt_keys(std::string_view text, std::uint32_t block_bytes, std::vector<std::uint64_t>& keys);

// Returns a salt for core::salt_keys(): requests with another `cache_salt` or adapter share no blocks.
[[nodiscard]] std::uint64_t key_salt_of(std::string_view name);

// Penstock's own engines count four bytes of text as a token, so that lengths need no vocabulary.
inline constexpr std::uint32_t kBytesPerToken = 4;
[[nodiscard]] constexpr std::uint32_t simulated_tokens(std::size_t text_bytes) {
  return static_cast<std::uint32_t>((text_bytes + kBytesPerToken - 1) / kBytesPerToken);
}

}  // namespace penstock::api
