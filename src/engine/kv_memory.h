// GPU memory by the law of vLLM: what weights leave for keys and values, and the tokens and requests that fit there.
#pragma once

#include <cstdint>
#include <string>

#include "engine/roofline.h"

namespace penstock::engine {

[[nodiscard]] double dense_weight_bytes(const ModelCard& model, Precision precision);  // Of one weight.
[[nodiscard]] double kv_element_bytes(Precision precision);                            // Of one key or value element.

// How one GPU keeps keys and values. Layers of one kind form groups of equal size, which take blocks of one pool.
struct KvLayout {
  double group_token_bytes = 0.0;     // Of one token in one group.
  std::uint32_t full_groups = 1;      // Keep every token of a sequence.
  std::uint32_t windowed_groups = 0;  // Keep `window` tokens of a sequence.
  std::uint32_t state_groups = 0;     // Keep one block of a sequence: linear attention.
  std::uint32_t window = 0;
  std::uint32_t block_tokens = 16;

  [[nodiscard]] double token_bytes() const { return full_groups * group_token_bytes; }
  // Bytes of a sequence besides those of its tokens in full groups.
  [[nodiscard]] double sequence_bytes() const;
  [[nodiscard]] std::uint64_t blocks(double kv_bytes) const;  // Of the pool of one GPU.
  // Blocks of a request of so many tokens, at most `batched_tokens` of which are computed in one iteration.
  [[nodiscard]] std::uint64_t blocks_of_request(std::uint64_t tokens, std::uint64_t batched_tokens) const;
  // Requests of that length that fit at once.
  [[nodiscard]] double concurrency(double kv_bytes, std::uint64_t tokens, std::uint64_t batched_tokens) const;
};

// `block_tokens` is the least; layers that keep a state enlarge it until a block holds the state.
[[nodiscard]] KvLayout kv_layout(const RooflineSpec& spec, std::uint32_t block_tokens);

// Settings of the engine that the memory depends on.
struct MemorySettings {
  std::uint32_t max_sequences = 256;
  std::uint32_t max_batched_tokens = 8192;
  std::uint32_t block_tokens = 16;
};

// Memory of one GPU in GiB, and what follows for the replica.
struct KvMemory {
  double total_gib = 0.0;  // As the driver reports it.
  double weights_gib = 0.0;
  double overhead_gib = 0.0;  // CUDA context, communication buffers, peak activations and CUDA graphs.
  double kv_gib = 0.0;        // At most 0: nothing is left.
  double token_bytes = 0.0, sequence_bytes = 0.0;
  double tokens = 0.0;       // Of the replica, while `max_sequences` run.
  double most_tokens = 0.0;  // The same without overhead and with all of the memory.
};
[[nodiscard]] KvMemory kv_memory(const RooflineSpec& spec, const MemorySettings& settings);

// Returns "0.92 of 79.19 GiB a GPU, less 15.0 GiB of weights and 2.4 GiB of overhead, leaves …".
[[nodiscard]] std::string describe(const KvMemory& memory, const RooflineSpec& spec);

}  // namespace penstock::engine
