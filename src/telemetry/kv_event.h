// KV cache events, which report the blocks that an engine's prefix cache has gained and lost, as vLLM publishes them
// over ZeroMQ (vllm/distributed/kv_events.py); SGLang and TensorRT-LLM use the same format.
//
// A message has three frames: topic (often empty), sequence number (8 bytes, big-endian, from 0), and a batch in
// msgpack. Batch and events were arrays until mid-2026; then the events became maps with a key "type", in some releases
// also the batches (vllm-project/vllm#42892, sgl-project/sglang#37482). All of these are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/result.h"

namespace penstock::telemetry {

// Integers are kept, negative ones by their bits. Hashes that are bytes (SHA-256) are reduced to their last 8 bytes,
// big-endian, as vLLM does when it is configured for integers.
using BlockHash = std::uint64_t;

struct BlockStored {
  std::vector<BlockHash> block_hashes;
  // Hash of the block before the first one; empty if the blocks begin a prompt.
  std::optional<BlockHash> parent_block_hash;
  std::vector<std::uint32_t> token_ids;  // Tokens of all blocks.
  std::uint32_t block_size = 0;          // Tokens per block.
  std::optional<std::int64_t> lora_id;
  std::string medium;                      // "GPU", "CPU", …; empty if the engine does not report it.
  std::string lora_name;                   // Empty if there is none.
  std::optional<std::uint32_t> group_idx;  // KV cache group of a hybrid model.

  bool operator==(const BlockStored&) const = default;
};

struct BlockRemoved {
  std::vector<BlockHash> block_hashes;
  std::string medium;
  std::optional<std::uint32_t> group_idx;

  bool operator==(const BlockRemoved&) const = default;
};

struct AllBlocksCleared {
  bool operator==(const AllBlocksCleared&) const = default;
};

using KvEvent = std::variant<BlockStored, BlockRemoved, AllBlocksCleared>;

struct KvEventBatch {
  double ts = 0.0;  // Seconds since 1970, by the engine's clock.
  std::vector<KvEvent> events;
  std::optional<std::uint32_t> data_parallel_rank;
  std::uint32_t unknown_events = 0;  // Number of events of other kinds, which were skipped. Not written.
};

enum class KvEventLayout : std::uint8_t { kArrays, kMaps };

inline constexpr std::size_t kKvBatchBytesMax = 16 * 1024 * 1024;
inline constexpr std::uint32_t kKvBlockSizeMax = 1'000'000;

[[nodiscard]] std::string encode_batch(const KvEventBatch& batch, KvEventLayout layout = KvEventLayout::kArrays);
// Reads the complete batch or nothing. Unknown fields, and array elements after the known ones, are skipped. Accepts
// any bytes. O(bytes).
[[nodiscard]] core::Result<KvEventBatch> decode_batch(std::string_view bytes);

}  // namespace penstock::telemetry
