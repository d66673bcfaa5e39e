#include "engine/sequence_blocks.h"

#include <algorithm>

namespace penstock::engine {

std::uint32_t SequenceBlocks::shareable_blocks(const Sequence& sequence) const {
  if (!config_.prefix_caching) return 0;
  return std::min(static_cast<std::uint32_t>(sequence.request.block_ids.size()),
                  sequence.request.input_tokens / config_.block_tokens);
}

KvCache::Prefix SequenceBlocks::find_prefix(const Sequence& sequence, std::uint32_t limit) const {
  if (!config_.prefix_caching) return {};
  return cache_.find_prefix(limit, [&](std::uint32_t block) { return key_of(sequence, block); });
}

AdmissionNeed SequenceBlocks::need_of(const Sequence& sequence, bool arrives) const {
  // One token at least is computed, or there is nothing to sample from; KV that was moved here is whole.
  std::uint32_t limit = arrives ? shareable_blocks(sequence) : (sequence.known - 1) / config_.block_tokens;
  if (!sequence.admitted_before) limit = std::min(limit, shareable_blocks(sequence));
  const KvCache::Prefix prefix = find_prefix(sequence, limit);
  const bool crosses = arrives && sequence.request.input_tokens % config_.block_tokens == 0;
  const std::uint32_t blocks = blocks_for(sequence.known) - prefix.hits + prefix.inactive_hits + (crosses ? 1U : 0U);
  return {prefix.hits, blocks, crosses};
}

void SequenceBlocks::acquire_prefix(Sequence& sequence, std::uint32_t blocks) {
  cache_.acquire_all(
      blocks, [&](std::uint32_t block) { return key_of(sequence, block); }, sequence.shared);
}

void SequenceBlocks::allocate(Sequence& sequence, std::uint32_t tokens) {
  const std::uint32_t target = blocks_for(tokens);
  const std::uint32_t shareable = shareable_blocks(sequence);
  std::uint32_t held = sequence.prompt_blocks();
  for (; held < target && held < shareable && sequence.private_blocks == 0; ++held)
    sequence.shared.push_back(cache_.acquire(key_of(sequence, held)));
  if (held < target) {
    cache_.allocate_private(target - held);
    sequence.private_blocks += target - held;
  }
}

void SequenceBlocks::release(Sequence& sequence, std::uint64_t computed, std::uint32_t allocated, bool comes_back) {
  const auto shared = static_cast<std::uint32_t>(sequence.shared.size());
  const auto full = std::max(static_cast<std::uint32_t>(computed / config_.block_tokens), shared);
  const auto named =
      comes_back ? full : std::clamp(static_cast<std::uint32_t>(sequence.request.block_ids.size()), shared, full);
  cache_.release_private(full - named, allocated - full);
  for (std::uint32_t block = named; block > shared; --block) cache_.release_private_as(key_of(sequence, block - 1));
  for (std::uint32_t block = shared; block > 0; --block) cache_.release(sequence.shared[block - 1]);
  sequence.shared.clear();
  sequence.private_blocks = 0;
}

}  // namespace penstock::engine
