#include "capacity/gpu_sharing.h"

#include <algorithm>
#include <array>

namespace penstock::capacity {
namespace {

constexpr double kComputeSlices = 7.0, kMemorySlices = 8.0;
// Memory of an instance that no process can have: `nvidia-smi mig -lgip` lists 9.5, 19.5 and 39.25 GiB for one, two and
// four of the eight slices of an A100 with 79.15 GiB.
constexpr double kInstanceGib = 0.4;
// A slice of an A100 has 14 of its 108 SMs. Of other GPUs it is counted as a seventh.
constexpr double kA100SmsOfSlice = 14.0, kA100Sms = 108.0;

constexpr std::array kOf40Gb = {MigProfile{"1g.5gb", 1, 1, 7}, MigProfile{"1g.10gb", 1, 2, 4},
                                MigProfile{"2g.10gb", 2, 2, 3}, MigProfile{"3g.20gb", 3, 4, 2},
                                MigProfile{"4g.20gb", 4, 4, 1}};
constexpr std::array kOf80Gb = {MigProfile{"1g.10gb", 1, 1, 7}, MigProfile{"1g.20gb", 1, 2, 4},
                                MigProfile{"2g.20gb", 2, 2, 3}, MigProfile{"3g.40gb", 3, 4, 2},
                                MigProfile{"4g.40gb", 4, 4, 1}};
constexpr std::array kOf141Gb = {MigProfile{"1g.18gb", 1, 1, 7}, MigProfile{"1g.35gb", 1, 2, 4},
                                 MigProfile{"2g.35gb", 2, 2, 3}, MigProfile{"3g.71gb", 3, 4, 2},
                                 MigProfile{"4g.71gb", 4, 4, 1}};
constexpr std::array kOf180Gb = {MigProfile{"1g.23gb", 1, 1, 7}, MigProfile{"1g.45gb", 1, 2, 4},
                                 MigProfile{"2g.45gb", 2, 2, 3}, MigProfile{"3g.90gb", 3, 4, 2},
                                 MigProfile{"4g.90gb", 4, 4, 1}};

struct ProfilesOfGpu {
  std::string_view gpu;
  std::span<const MigProfile> profiles;
};
constexpr std::array kProfiles = {
    ProfilesOfGpu{"a100_40gb", kOf40Gb}, ProfilesOfGpu{"a100_sxm", kOf80Gb},  ProfilesOfGpu{"a100_pcie", kOf80Gb},
    ProfilesOfGpu{"h100_sxm", kOf80Gb},  ProfilesOfGpu{"h100_pcie", kOf80Gb}, ProfilesOfGpu{"h200_sxm", kOf141Gb},
    ProfilesOfGpu{"b200_sxm", kOf180Gb},
};

double compute_share(const engine::GpuCard& gpu, const MigProfile& profile) {
  if (gpu.name.starts_with("a100")) return profile.compute_slices * kA100SmsOfSlice / kA100Sms;
  return profile.compute_slices / kComputeSlices;
}

void scale(engine::GpuCard& gpu, double compute, double bandwidth) {
  gpu.bandwidth_gb_per_s *= bandwidth;
  gpu.bf16_tflops *= compute;
  gpu.fp8_tflops *= compute;
  gpu.fp4_tflops *= compute;
}

}  // namespace

double MigProfile::gpu_share() const {
  return std::max(compute_slices / kComputeSlices, memory_slices / kMemorySlices);
}

std::span<const MigProfile> mig_profiles(const engine::GpuCard& gpu) {
  for (const ProfilesOfGpu& each : kProfiles)
    if (each.gpu == gpu.name) return each.profiles;
  return {};
}

engine::GpuCard instance_of(const engine::GpuCard& gpu, const MigProfile& profile) {
  engine::GpuCard instance = gpu;
  const double memory = profile.memory_slices / kMemorySlices;
  scale(instance, compute_share(gpu, profile), memory);
  instance.memory_gb *= memory;
  instance.driver_gib = gpu.driver_gib * memory - kInstanceGib;
  return instance;
}

engine::GpuCard shared_by(const engine::GpuCard& gpu, std::uint32_t processes) {
  engine::GpuCard shared = gpu;
  scale(shared, 1.0 / processes, 1.0 / processes);
  return shared;
}

}  // namespace penstock::capacity
