// The engines that a sizing compares: one model on several GPU types, with several precisions and numbers of GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "engine/roofline.h"

namespace penstock::capacity {

// The numbers of GPUs of one replica that a sizing compares: 1, 2, 4 and 8, as far as a node has them and the heads of
// the model can be divided among them.
[[nodiscard]] std::vector<std::uint32_t> tensor_parallel_sizes(const engine::RooflineSpec& spec);

struct EngineGrid {
  std::vector<std::string> gpus;               // Names of GPU types; empty: that of the engine.
  std::vector<std::string> precisions;         // Empty: that of the engine.
  std::vector<std::uint32_t> tensor_parallel;  // Empty: that of the engine, else tensor_parallel_sizes().

  [[nodiscard]] bool is_empty() const { return gpus.empty() && precisions.empty() && tensor_parallel.empty(); }
};

struct EngineCandidate {
  std::string engine;   // As make_step_time_model() reads it.
  std::string gpu{};    // As the grid names it; empty: the GPU of the engine.
  std::string label{};  // "h100_sxm tp=2 fp8", or the engine itself where it is no roofline.
};

// Returns every combination, GPU types first. Other engines than rooflines are returned as they are. The GPU of a
// roofline may be left out if the grid has GPU types. Errors: an engine that cannot be read, figures of one GPU
// (gpu_memory_gib …) beside GPU types, and a grid for another engine than a roofline.
[[nodiscard]] core::Result<std::vector<EngineCandidate>> engine_candidates(std::string_view engine,
                                                                           const EngineGrid& grid);

}  // namespace penstock::capacity
