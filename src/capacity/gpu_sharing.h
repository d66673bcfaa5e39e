// Parts of a GPU that an engine may have: instances of Multi-Instance GPU (MIG), or a share by the Multi-Process
// Service (MPS). Profiles and fractions are those of NVIDIA's "Multi-Instance GPU User Guide", chapter "Supported MIG
// Profiles".
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/gpu_catalogue.h"

namespace penstock::capacity {

// One GPU instance. A process sees one instance only, so that no engine spreads over several.
struct MigProfile {
  std::string_view name;             // For example "3g.40gb"; its resource in Kubernetes is nvidia.com/mig-3g.40gb.
  std::uint32_t compute_slices = 1;  // Of the seven of a GPU.
  std::uint32_t memory_slices = 1;   // Of the eight of a GPU; memory and bandwidth.
  std::uint32_t instances = 1;       // The most of them that one GPU has at once.

  // The larger share of the slices of a GPU that it takes.
  [[nodiscard]] double gpu_share() const;
};

// From small to large, without the profile that is the whole GPU. Empty for GPUs without MIG, and for those whose
// profiles are not listed here.
[[nodiscard]] std::span<const MigProfile> mig_profiles(const engine::GpuCard& gpu);
// The figures of one instance, under the name of the GPU.
[[nodiscard]] engine::GpuCard instance_of(const engine::GpuCard& gpu, const MigProfile& profile);
// The speed that is left to one of `processes` engines that share the GPU by MPS while all of them compute. Memory is
// that of the GPU: each engine is told its part as gpu_memory_utilization.
[[nodiscard]] engine::GpuCard shared_by(const engine::GpuCard& gpu, std::uint32_t processes);

}  // namespace penstock::capacity
