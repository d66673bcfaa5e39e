#include "engine/gpu_catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace penstock::engine {
namespace {

// NVIDIA data sheets (A10, A100, L4, L40S, H100, H200, H20, B200/B300 and GB200/GB300 as parts of HGX and NVL72). PCIe
// cards: half of the bidirectional rate. GB300's and B300's FP4 rate is the dense one.
// Memory of the driver: logs of vLLM for A100, L40S, H100, H200 and B300, otherwise nvidia-smi's less 0.5 GiB.
constexpr std::array kGpus = {
    //       name       memory  bandwidth  bf16   fp8     fp4     interconnect  driver
    GpuCard{"a10", 24.0, 600.0, 125.0, 125.0, 125.0, 32.0, 22.06},
    GpuCard{"a100_sxm", 80.0, 2039.0, 312.0, 312.0, 312.0, 300.0, 79.15},
    GpuCard{"a100_pcie", 80.0, 1935.0, 312.0, 312.0, 312.0, 32.0, 79.15},
    GpuCard{"a100_40gb", 40.0, 1555.0, 312.0, 312.0, 312.0, 300.0, 39.39},
    GpuCard{"l4", 24.0, 300.0, 121.0, 242.0, 242.0, 32.0, 22.03},
    GpuCard{"l40s", 48.0, 864.0, 362.0, 733.0, 733.0, 32.0, 44.4},
    GpuCard{"h20_sxm", 96.0, 4000.0, 148.0, 296.0, 296.0, 450.0, 95.1},
    GpuCard{"h100_sxm", 80.0, 3350.0, 989.0, 1979.0, 1979.0, 450.0, 79.19},
    GpuCard{"h100_pcie", 80.0, 2000.0, 756.0, 1513.0, 1513.0, 64.0, 79.19},
    GpuCard{"h200_sxm", 141.0, 4800.0, 989.0, 1979.0, 1979.0, 450.0, 139.81},
    GpuCard{"b200_sxm", 180.0, 8000.0, 2250.0, 4500.0, 9000.0, 900.0, 178.4},
    GpuCard{"b300_sxm", 270.0, 8000.0, 2250.0, 4500.0, 13500.0, 900.0, 276.6},
    GpuCard{"gb200", 186.0, 8000.0, 2500.0, 5000.0, 10000.0, 900.0, 184.3, 72},
    GpuCard{"gb300", 279.0, 8000.0, 2500.0, 5000.0, 15000.0, 900.0, 276.6, 72},
};

struct PrecisionName {
  std::string_view name;
  Precision precision;
};
// The first name of each is the one that is printed.
constexpr std::array kPrecisions = {
    PrecisionName{"bf16", Precision::kBf16},     PrecisionName{"fp8", Precision::kFp8},
    PrecisionName{"fp4", Precision::kFp4},       PrecisionName{"int4", Precision::kInt4},
    PrecisionName{"bfloat16", Precision::kBf16}, PrecisionName{"float16", Precision::kBf16},
    PrecisionName{"fp16", Precision::kBf16},     PrecisionName{"nvfp4", Precision::kFp4},
    PrecisionName{"mxfp4", Precision::kFp4},
};

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

double GpuCard::flops_per_ms(Precision precision) const {
  switch (precision) {
    case Precision::kBf16:
    case Precision::kInt4: return bf16_tflops * 1e9;  // int4 weights are widened before the product
    case Precision::kFp8: return fp8_tflops * 1e9;
    case Precision::kFp4: return fp4_tflops * 1e9;
  }
  return bf16_tflops * 1e9;
}

std::string_view name_of(Precision precision) {
  for (const PrecisionName& each : kPrecisions)
    if (each.precision == precision) return each.name;
  return "bf16";
}

bool parse_precision(std::string_view text, Precision& precision) {
  for (const PrecisionName& each : kPrecisions) {
    if (!same(each.name, text)) continue;
    precision = each.precision;
    return true;
  }
  return false;
}

double bytes_per_weight(Precision precision) {
  switch (precision) {
    case Precision::kBf16: return 2.0;
    case Precision::kFp8: return 1.0;
    case Precision::kFp4: return 0.5625;   // and one byte of scale for 16 weights
    case Precision::kInt4: return 0.5625;  // and a scale and a zero point for 32
  }
  return 2.0;
}

std::span<const GpuCard> gpu_catalogue() { return kGpus; }

const GpuCard* find_gpu(std::string_view name) {
  for (const GpuCard& gpu : kGpus)
    if (same(gpu.name, name)) return &gpu;
  for (const GpuCard& gpu : kGpus)
    if (same(gpu.name.substr(0, gpu.name.find('_')), name)) return &gpu;
  return nullptr;
}

}  // namespace penstock::engine
