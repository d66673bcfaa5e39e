// Prompts of earlier requests that the caches of a fleet hold when a run begins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock::simulation {

struct PoolSpec;

struct EarlierPrompt {
  std::uint32_t pool = 0;                    // The one that computed it.
  std::span<const std::uint32_t> block_ids;  // Its full blocks.
};

struct CachedPrompt {
  std::uint32_t replica = 0;  // Index in its pool.
  EarlierPrompt prompt;
};

// Distributes the latest of the prompts, given in order of arrival, until the caches are full. A prompt goes to the
// replica that holds most of its blocks, or else to the one that holds the least, as prefix-aware routers do. A prompt
// that is the beginning of a later one is left out, because the later one holds it. Returns the prompts in their order.
// O(blocks of the prompts that fit).
[[nodiscard]] std::vector<CachedPrompt> place_prompts(std::span<const EarlierPrompt> prompts,
                                                      const std::vector<PoolSpec>& pools);

}  // namespace penstock::simulation
