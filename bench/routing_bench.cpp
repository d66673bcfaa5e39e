// The choice of a replica, by strategy and number of replicas, for prompts of 64 blocks that share 32 with others.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>

#include "core/random.h"
#include "routing/router.h"

namespace {

using namespace penstock;

void choose(benchmark::State& state, routing::Strategy strategy) {
  const auto replicas = static_cast<std::uint32_t>(state.range(0));
  core::RandomStream random{1};
  routing::Router router{strategy, 64, random.fork("router")};
  constexpr std::uint32_t kFamilies = 512, kShared = 32, kBlocks = 64;
  for (std::uint32_t slot = 0; slot < replicas; ++slot) {
    router.set_eligible(slot, true);
    router.dispatched(slot, static_cast<std::uint32_t>(random.below(20'000)),
                      static_cast<std::uint32_t>(random.below(500)));
  }
  for (std::uint32_t family = 0; family < kFamilies; ++family)
    for (std::uint32_t block = 0; block < kShared; ++block)
      router.index().stored(family % replicas, family * kShared + block);
  std::array<std::uint64_t, kBlocks> keys{};
  std::uint32_t fresh = 1U << 20;
  for (auto _ : state) {
    const auto family = static_cast<std::uint32_t>(random.below(kFamilies));
    for (std::uint32_t block = 0; block < kBlocks; ++block)
      keys[block] = block < kShared ? family * kShared + block : fresh++;
    benchmark::DoNotOptimize(router.choose({kBlocks * 64, keys}));
  }
}
BENCHMARK_CAPTURE(choose, kv, routing::Strategy::kKv)->Arg(8)->Arg(64)->Arg(256)->ArgName("replicas");
BENCHMARK_CAPTURE(choose, least_loaded, routing::Strategy::kLeastLoaded)->Arg(64)->ArgName("replicas");
BENCHMARK_CAPTURE(choose, power_of_two, routing::Strategy::kPowerOfTwo)->Arg(64)->ArgName("replicas");
BENCHMARK_CAPTURE(choose, round_robin, routing::Strategy::kRoundRobin)->Arg(64)->ArgName("replicas");

}  // namespace
