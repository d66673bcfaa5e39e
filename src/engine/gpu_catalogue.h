// Figures of GPUs from their vendors' public data sheets, used by the roofline model.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::engine {

// Precision of weights and matrix products; int4 applies to weights only.
enum class Precision : std::uint8_t { kBf16, kFp8, kFp4, kInt4 };

// Rate of the network between nodes for one GPU, one direction: a 400 Gb/s adapter, as DGX and HGX systems have.
inline constexpr double kNetworkGbPerS = 50.0;

struct GpuCard {
  std::string_view name;               // For example "h100_sxm".
  double memory_gb = 0.0;              // Unit: 1e9 bytes.
  double bandwidth_gb_per_s = 0.0;     // Memory bandwidth.
  double bf16_tflops = 0.0;            // Dense, without structured sparsity.
  double fp8_tflops = 0.0;             // Equals the bf16 value if the GPU has no FP8 units.
  double fp4_tflops = 0.0;             // Equals the fp8 value if the GPU has no FP4 units.
  double interconnect_gb_per_s = 0.0;  // Bandwidth to the other GPUs of one replica, one direction.
  double driver_gib = 0.0;             // Memory that the driver reports; unit: 2^30 bytes.
  std::uint32_t node_gpus = 8;         // GPUs that the interconnect joins; more are joined by kNetworkGbPerS.

  [[nodiscard]] double flops_per_ms(Precision precision) const;
};

// Returns "bf16", "fp8", "fp4" or "int4".
[[nodiscard]] std::string_view name_of(Precision precision);
// Also accepts "bfloat16", "float16", "fp16", "nvfp4" and "mxfp4". Returns false for unknown text.
[[nodiscard]] bool parse_precision(std::string_view text, Precision& precision);
[[nodiscard]] double bytes_per_weight(Precision precision);

[[nodiscard]] std::span<const GpuCard> gpu_catalogue();
// Finds a GPU by its name or the part before "_" ("h100" is "h100_sxm"), ignoring case; nullptr if unknown.
[[nodiscard]] const GpuCard* find_gpu(std::string_view name);

}  // namespace penstock::engine
