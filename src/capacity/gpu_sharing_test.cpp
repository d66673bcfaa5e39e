#include "capacity/gpu_sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <string>

namespace penstock::capacity {
namespace {

const engine::GpuCard& gpu_named(std::string_view name) { return *engine::find_gpu(name); }

TEST(MigProfiles, AreAsManyAsTheSlicesOfAGpuAllow) {
  std::size_t gpus = 0;
  for (const engine::GpuCard& gpu : engine::gpu_catalogue()) {
    const auto profiles = mig_profiles(gpu);
    gpus += profiles.empty() ? 0 : 1;
    for (const MigProfile& profile : profiles) {
      EXPECT_EQ(profile.instances, std::min(7 / profile.compute_slices, 8 / profile.memory_slices)) << profile.name;
      EXPECT_TRUE(profile.name.starts_with(std::to_string(profile.compute_slices) + "g.")) << profile.name;
      // The name has the memory in GB, rounded.
      const std::string_view memory = profile.name.substr(profile.name.find('.') + 1);
      double named = 0.0;
      ASSERT_EQ(std::from_chars(memory.data(), memory.data() + memory.size(), named).ec, std::errc{});
      EXPECT_NEAR(named, gpu.memory_gb * profile.memory_slices / 8.0, 0.05 * named + 0.5) << gpu.name;
    }
  }
  EXPECT_EQ(gpus, 7U);
  EXPECT_TRUE(mig_profiles(gpu_named("l40s")).empty());
}

TEST(MigProfiles, AnInstanceHasTheFractionsOfItsSlices) {
  const MigProfile half = mig_profiles(gpu_named("h100"))[3];
  ASSERT_EQ(half.name, "3g.40gb");
  const engine::GpuCard of_h100 = instance_of(gpu_named("h100"), half);
  EXPECT_DOUBLE_EQ(of_h100.bf16_tflops, 989.0 * 3.0 / 7.0);
  EXPECT_DOUBLE_EQ(of_h100.fp8_tflops, 1979.0 * 3.0 / 7.0);
  EXPECT_DOUBLE_EQ(of_h100.bandwidth_gb_per_s, 3350.0 / 2.0);
  EXPECT_DOUBLE_EQ(of_h100.driver_gib, 79.19 / 2.0 - 0.4);
  EXPECT_DOUBLE_EQ(half.gpu_share(), 0.5) << "half of the memory, which is more than 3/7 of the compute";
  const MigProfile twice = mig_profiles(gpu_named("a100"))[2];
  ASSERT_EQ(twice.name, "2g.20gb");
  EXPECT_DOUBLE_EQ(instance_of(gpu_named("a100"), twice).bf16_tflops, 312.0 * 28.0 / 108.0) << "28 of 108 SMs";
  EXPECT_DOUBLE_EQ(twice.gpu_share(), 2.0 / 7.0);
}

TEST(MigProfiles, OfTheTwoA100AreTwoSeries) {
  EXPECT_EQ(mig_profiles(gpu_named("a100_40gb"))[0].name, "1g.5gb");
  EXPECT_EQ(mig_profiles(gpu_named("a100"))[0].name, "1g.10gb");
}

TEST(Mps, EnginesShareSpeedAndSeeTheWholeMemory) {
  const engine::GpuCard shared = shared_by(gpu_named("l40s"), 3);
  EXPECT_DOUBLE_EQ(shared.bandwidth_gb_per_s, 864.0 / 3.0);
  EXPECT_DOUBLE_EQ(shared.bf16_tflops, 362.0 / 3.0);
  EXPECT_DOUBLE_EQ(shared.driver_gib, 44.4);
}

}  // namespace
}  // namespace penstock::capacity
