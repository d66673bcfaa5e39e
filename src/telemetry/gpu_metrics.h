// Reads the /metrics of NVIDIA's DCGM exporter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telemetry/exposition.h"

namespace penstock::telemetry {

// Figures of the GPUs of one pod, or of a host where the exporter names no pod. All are shares from 0 to 1; unknown
// ones are empty.
struct GpuFigures {
  std::string pod, host;               // Empty: not named. `host` is the exporter's label Hostname.
  std::optional<double> utilisation;   // Mean over the GPUs.
  std::optional<double> memory_usage;  // Of the GPU with the fullest memory.
  std::optional<double> bandwidth;     // Use of the memory's bandwidth, mean over the GPUs.
};

// DCGM_FI_DEV_GPU_UTIL (or DCGM_FI_PROF_GR_ENGINE_ACTIVE, which MIG slices have), DCGM_FI_DEV_FB_USED and _FREE (or
// _TOTAL), DCGM_FI_PROF_DRAM_ACTIVE; a pod is named by `pod` or `exported_pod`. Sorted by pod and host. Impossible
// values count as missing.
[[nodiscard]] std::vector<GpuFigures> read_gpu_metrics(const Exposition& exposition);

}  // namespace penstock::telemetry
