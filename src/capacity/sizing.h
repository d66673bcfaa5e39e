// Which part of a GPU, or how many GPUs, a replica of a model should have: MIG instances, MPS or whole GPUs, by memory,
// speed and load.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "capacity/token_formula.h"
#include "engine/kv_memory.h"
#include "engine/roofline.h"
#include "signals/slo.h"

namespace penstock::capacity {

// Parameters of dense models below 10 billion, below 40 billion, and more; mixtures of experts.
enum class ModelClass : std::uint8_t { kSmall, kMedium, kLarge, kMixture };
[[nodiscard]] const char* to_string(ModelClass model_class);  // Returns "small", "medium", "large" or "mixture".
[[nodiscard]] ModelClass class_of(const engine::ModelCard& model);

struct SizingRequest {
  engine::RooflineSpec engine;  // Of one whole GPU.
  engine::RooflineEfficiency efficiency;
  double requests_per_s = 0.0;
  TrafficShape traffic;
  std::uint64_t longest_request = 0;  // Prompt and output tokens; the KV cache must hold one of them.
  std::uint32_t max_sequences = 256;
  std::uint32_t max_batched_tokens = 8192;
  signals::SloTarget slo;
  double utilisation = 0.75;  // Share of the capacity of the replicas that the load may use; above 0, at most 1.
  std::uint32_t min_replicas = 1;
  bool isolated = false;  // Engines that share a GPU must not slow each other down.
};

enum class Placement : std::uint8_t { kMig, kMps, kWholeGpus };
[[nodiscard]] const char* to_string(Placement placement);  // Returns "mig", "mps" or "gpus".

enum class Verdict : std::uint8_t {
  kServes,
  kWeightsDoNotFit,
  kKvCacheTooSmall,  // It holds no request of the greatest length.
  kMissesSlo,        // At the lowest rate, too.
  kNotIsolated,      // It serves the load, but the request excludes it.
};
// Returns "serves", "weights_do_not_fit", "kv_cache_too_small", "misses_slo" or "not_isolated".
[[nodiscard]] const char* to_string(Verdict verdict);

// With fewer requests at once, each iteration reads all weights for little, and one longer request stops the others.
inline constexpr double kBatchRequestsMin = 4.0;

// One way to run a replica.
struct SizingChoice {
  Placement placement = Placement::kWholeGpus;
  std::string_view mig_profile;       // Empty unless the placement is kMig.
  std::uint32_t tensor_parallel = 1;  // GPUs of a replica.
  std::uint32_t replicas_per_gpu = 1;
  // What one replica has, as shares of one GPU.
  double compute_share = 1.0, bandwidth_share = 1.0, gpu_share = 1.0;
  double memory_utilization = 0.0;  // For the engine, of the memory that it sees.
  engine::KvMemory memory;          // Of one GPU or instance.
  double concurrency = 0.0;         // Requests of the greatest length that the KV cache holds.
  double requests_at_once = 0.0;    // Requests of mean length that it holds.
  Verdict verdict = Verdict::kServes;
  // If it serves: what one replica serves within the SLO, the replicas that the load needs, and how much of their
  // capacity it uses.
  double requests_per_s = 0.0;
  std::uint32_t replicas = 0;
  double utilisation = 0.0;
  double gpus_used = 0.0;           // Shares of all replicas.
  std::uint32_t gpus_occupied = 0;  // Whole GPUs, if nothing else runs on them.

  [[nodiscard]] bool serves() const { return verdict == Verdict::kServes; }
  // Whether the KV cache holds enough requests for a batch.
  [[nodiscard]] bool holds_batch() const { return requests_at_once >= kBatchRequestsMin; }
};

// Why the best choice is the best one.
enum class SizingReason : std::uint8_t {
  kSliceSuffices,  // A MIG instance carries the load with less of a GPU, and nothing disturbs it.
  kNoMig,          // MPS does with less of a GPU, and no MIG profile serves the load.
  kFillsGpus,      // No part of a GPU carries the load with less than whole GPUs do.
  kNeedsGpus,      // No part of a GPU holds the model within the SLO.
  kIsolation,      // Only MPS serves on a part of a GPU, and the request excludes it.
  kNothingServes,
};
// Returns "slice_suffices", "no_mig", "fills_gpus", "needs_gpus", "isolation" or "nothing_serves".
[[nodiscard]] const char* to_string(SizingReason reason);

struct SizingAdvice {
  ModelClass model_class = ModelClass::kSmall;
  std::vector<SizingChoice> choices;       // MIG from small to large, MPS by processes, whole GPUs by their number.
  std::optional<std::size_t> best;         // Empty: nothing serves.
  std::optional<std::size_t> cheaper_mps;  // Needs less of a GPU than the best one, which is preferred.
  SizingReason reason = SizingReason::kNothingServes;
};

inline constexpr std::uint32_t kMpsProcessesMax = 4;

// Compares the choices of each kind that serve the load with the least of a GPU. A MIG instance is the best one where
// it needs less than whole GPUs, which have the largest batches. MPS is only where no instance serves, because its
// engines slow each other down and a fault of one ends all. Choices whose KV cache holds fewer than kBatchRequestsMin
// requests are considered only if no other one serves. Whole GPUs are tried up to those of a node, eight at most,
// where the heads of the model can be divided among them. Cost: a dozen calls of token_capacity().
[[nodiscard]] SizingAdvice advise(const SizingRequest& request);

}  // namespace penstock::capacity
