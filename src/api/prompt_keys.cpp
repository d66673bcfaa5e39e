#include "api/prompt_keys.h"

#include <xxhash.h>

#include "core/result.h"

namespace penstock::api {

void prompt_keys(std::string_view text, std::uint32_t block_bytes, std::vector<std::uint64_t>& keys) {
  PENSTOCK_ASSERT(block_bytes > 0, "a block has bytes");
  constexpr std::uint64_t kTopBit = 1ULL << 63;
  keys.clear();
  keys.reserve(text.size() / block_bytes);
  // Each block is hashed once and chained to the previous key, so that a key depends on everything before it.
  struct Link {
    std::uint64_t before = 0, low = 0, high = 0;
  } link;
  for (; text.size() >= block_bytes; text.remove_prefix(block_bytes)) {
    const XXH128_hash_t block = XXH3_128bits(text.data(), block_bytes);
    link.low = block.low64;
    link.high = block.high64;
    link.before = XXH3_64bits(&link, sizeof link) & ~kTopBit;
    keys.push_back(link.before);
  }
}

std::uint64_t key_salt_of(std::string_view name) { return XXH3_64bits(name.data(), name.size()); }

}  // namespace penstock::api
