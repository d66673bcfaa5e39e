// KV cache events as vLLM publishes them over ZeroMQ (vllm/distributed/kv_events.py), SGLang and TensorRT-LLM likewise: which
// blocks an engine's prefix cache has gained and lost.
//
// A message has three frames: topic (often empty), sequence number (8 bytes, big-endian, from 0), and a batch in msgpack.
// Batch and events were arrays until mid-2026; then the events became maps with a key "type", the batches too in some
// releases (vllm-project/vllm#42892, sgl-project/sglang#37482). All of them are read.
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

// Integers as they are, negative ones by their bits. Hashes that come as bytes (SHA-256) are cut to their last 8,
// big-endian: what vLLM itself does where it is asked for integers.
using BlockHash = std::uint64_t;

struct BlockStored {
  std::vector<BlockHash> block_hashes;
  std::optional<BlockHash> parent_block_hash;  // of the block before the first; none: they begin a prompt
  std::vector<std::uint32_t> token_ids;        // of all the blocks
  std::uint32_t block_size = 0;                // tokens
  std::optional<std::int64_t> lora_id;
  std::string medium;                      // "GPU", "CPU", …; empty where the engine does not say
  std::string lora_name;                   // empty: none
  std::optional<std::uint32_t> group_idx;  // of the KV cache groups of hybrid models

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
  double ts = 0.0;  // seconds since 1970, by the engine's clock
  std::vector<KvEvent> events;
  std::optional<std::uint32_t> data_parallel_rank;
  std::uint32_t unknown_events = 0;  // of other kinds, which were skipped; not written
};

enum class KvEventLayout : std::uint8_t { kArrays, kMaps };

inline constexpr std::size_t kKvBatchBytesMax = 16 * 1024 * 1024;
inline constexpr std::uint32_t kKvBlockSizeMax = 1'000'000;

[[nodiscard]] std::string encode_batch(const KvEventBatch& batch, KvEventLayout layout = KvEventLayout::kArrays);
// A batch is read whole or not at all. Fields that are not known, and array elements after the known ones, are skipped. Input
// of any bytes; O(bytes).
[[nodiscard]] core::Result<KvEventBatch> decode_batch(std::string_view bytes);

}  // namespace penstock::telemetry
