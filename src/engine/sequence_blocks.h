// The KV blocks of sequences: which of them are shared by prefix, and how they are allocated and released.
#pragma once

#include <cstdint>

#include "engine/config.h"
#include "engine/kv_cache.h"
#include "engine/sequence_table.h"

namespace penstock::engine {

// What it takes to admit a sequence.
struct AdmissionNeed {
  std::uint32_t hits = 0;    // Leading blocks that the cache holds.
  std::uint32_t blocks = 0;  // Blocks that are taken from what is available.
  bool crosses = false;      // Its next token begins a block.
};

// The config and the cache must outlive it.
class SequenceBlocks {
 public:
  SequenceBlocks(const EngineConfig& config, KvCache& cache) : config_(config), cache_(cache) {}

  [[nodiscard]] std::uint32_t blocks_for(std::uint64_t tokens) const {
    return static_cast<std::uint32_t>((tokens + config_.block_tokens - 1) / config_.block_tokens);
  }
  [[nodiscard]] BlockKey key_of(const Sequence& sequence, std::uint32_t block) const {
    const auto& ids = sequence.request.block_ids;
    return block < ids.size() ? BlockKey{ids[block]} : private_key(sequence.request.request, block);
  }
  // Leading blocks that others may share. A last block that is not full has no identity, whatever the workload calls
  // it.
  [[nodiscard]] std::uint32_t shareable_blocks(const Sequence& sequence) const;
  // The prefix of the first `limit` blocks that the cache holds.
  [[nodiscard]] KvCache::Prefix find_prefix(const Sequence& sequence, std::uint32_t limit) const;

  // `arrives` means that its KV was computed elsewhere.
  [[nodiscard]] AdmissionNeed need_of(const Sequence& sequence, bool arrives) const;
  // Takes references on the first `blocks` blocks of a prefix that was found.
  void acquire_prefix(Sequence& sequence, std::uint32_t blocks);
  // Allocates what is missing to hold the first `tokens` tokens. A block that will be full can be found from here on,
  // as in vLLM, although a prompt that is cut within a block fills it only in the next iteration.
  void allocate(Sequence& sequence, std::uint32_t tokens);
  // Releases `allocated` blocks, of whose tokens `computed` are in the cache. The end of a sequence is evicted first,
  // its beginning, which others may share, last. A sequence that comes back can find all its full blocks again.
  void release(Sequence& sequence, std::uint64_t computed, std::uint32_t allocated, bool comes_back);
  // Releases all blocks of a sequence that has generated its last token, which is never computed.
  void release_completed(Sequence& sequence) {
    const std::uint32_t tokens = sequence.request.input_tokens + sequence.request.output_tokens - 1;
    release(sequence, tokens, blocks_for(tokens), false);
  }

 private:
  const EngineConfig& config_;
  KvCache& cache_;
};

}  // namespace penstock::engine
