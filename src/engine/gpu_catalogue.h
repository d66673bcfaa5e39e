// Figures of GPUs, from their vendors' public data sheets: what a roofline divides work by.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::engine {

enum class Precision : std::uint8_t { kBf16, kFp8, kFp4, kInt4 };  // of weights and matrix products; int4: weights only

struct GpuCard {
  std::string_view name;               // "h100_sxm"
  double memory_gb = 0.0;              // 1e9 bytes
  double bandwidth_gb_per_s = 0.0;     // of that memory
  double bf16_tflops = 0.0;            // dense, without structured sparsity
  double fp8_tflops = 0.0;             // those of bf16 where the GPU has no such unit
  double fp4_tflops = 0.0;             // those of fp8 where the GPU has no such unit
  double interconnect_gb_per_s = 0.0;  // to other GPUs of one replica, one direction

  [[nodiscard]] double flops_per_ms(Precision precision) const;
};

// "bf16", "fp8", "fp4", "int4".
[[nodiscard]] std::string_view name_of(Precision precision);
// Also "bfloat16", "float16", "fp16", "nvfp4", "mxfp4". False when the text is none of them.
[[nodiscard]] bool parse_precision(std::string_view text, Precision& precision);
[[nodiscard]] double bytes_per_weight(Precision precision);

[[nodiscard]] std::span<const GpuCard> gpu_catalogue();
// By its name or the part before "_" ("h100" is "h100_sxm"), whatever the case; nullptr when unknown.
[[nodiscard]] const GpuCard* find_gpu(std::string_view name);

}  // namespace penstock::engine
