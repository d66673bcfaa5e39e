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
  // Empty: not named. Pods of two namespaces may have the same name. `host` is the exporter's label Hostname.
  std::string pod, in_namespace, host;
  std::optional<double> utilisation;   // Mean over the GPUs.
  std::optional<double> memory_usage;  // Of the GPU with the fullest memory.
  std::optional<double> bandwidth;     // Use of the memory's bandwidth, mean over the GPUs.
};

// DCGM_FI_DEV_GPU_UTIL (or DCGM_FI_PROF_GR_ENGINE_ACTIVE, which MIG slices have), DCGM_FI_DEV_FB_USED and _FREE (or
// _TOTAL), DCGM_FI_PROF_DRAM_ACTIVE; a pod is named by `pod` and `namespace`, or by `exported_pod` and
// `exported_namespace`. Sorted by pod, namespace and host. Impossible values count as missing.
[[nodiscard]] std::vector<GpuFigures> read_gpu_metrics(const Exposition& exposition);

}  // namespace penstock::telemetry
