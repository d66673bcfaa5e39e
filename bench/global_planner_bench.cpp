// One plan over 200 pools: how long it takes and what it proves. `gap_ppm` is the share, in millionths, that a better
// plan may gain at most; 0 is proven optimal. `24_fleets` plans for 24 random fleets one after the other: the time is
// the mean of a plan, `worst_ms` the longest of them, `proven` how many plans are proven optimal.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"
#include "planner/global/global_planner.h"

namespace {

using namespace penstock::planner::global;
using penstock::core::RandomStream;

constexpr std::size_t kPools = 200;
constexpr std::uint64_t kFleets = 24;

const std::vector<Hardware> kPriceList = {{"a100", 1.8, {}}, {"h100", 3.3, {}}, {"h200", 4.1, {}}, {"l40s", 0.9, {}}};

struct Fleet {
  std::vector<Deployment> deployments;
  std::vector<Hardware> hardware = kPriceList;
  Budget budget;
  Options options;
};

OfferPool pool_of(RandomStream& random, const std::string& name) {
  return {name, kPriceList[random.below(kPriceList.size())].name, 1U << random.below(4)};
}

// Shares as trials give them: an S, not concave, flat at its end.
Offer tried_offer(RandomStream& random, const std::string& name, double demand_rps) {
  const double middle = random.uniform(2.0, 18.0), steepness = random.uniform(0.3, 1.5);
  std::vector<double> shares;
  for (int n = 1; n <= 32; ++n) shares.push_back(1.0 / (1.0 + std::exp(-steepness * (n - middle))));
  return *curve_offer(pool_of(random, name), {1, 32}, demand_rps, shares);
}

Offer capacity_offer(RandomStream& random, const std::string& name, std::uint32_t max) {
  return linear_offer(pool_of(random, name), {0, max}, random.uniform(0.5, 4.0));
}

// `share` of the GPUs that everybody would like is there.
Fleet fleet_of(std::size_t pools_each, std::size_t classes, double share, std::uint64_t number = 0) {
  RandomStream random{pools_each * 100 + classes + number * 7919};
  Fleet fleet;
  double wished = 0.0;
  for (std::size_t d = 0; d < kPools / pools_each; ++d) {
    Deployment deployment;
    deployment.name = "deployment-" + std::to_string(d);
    deployment.priority = static_cast<int>(random.below(classes));
    deployment.weight = 1.0 + static_cast<double>(random.below(4));
    deployment.demand_rps = random.uniform(5.0, 60.0);
    for (std::size_t p = 0; p < pools_each; ++p)
      deployment.offers.push_back(pools_each == 1 ? tried_offer(random, "pool", deployment.demand_rps)
                                                  : capacity_offer(random, "pool-" + std::to_string(p), 24));
    const Offer& first = deployment.offers[0];
    for (const Step& step : first.steps) {
      if (step.carried_rps < 0.97 * deployment.demand_rps && &step != &first.steps.back()) continue;
      wished += step.replicas[0] * first.pools[0].gpus_per_replica;
      break;
    }
    fleet.deployments.push_back(deployment);
  }
  fleet.budget.gpus = static_cast<std::uint64_t>(share * wished);
  return fleet;
}

// Every kind is scarce by itself, too, and money is.
Fleet with_scarce_kinds(Fleet fleet) {
  const auto gpus = static_cast<double>(*fleet.budget.gpus);
  for (Hardware& kind : fleet.hardware) kind.gpus = static_cast<std::uint64_t>(0.3 * gpus);
  fleet.budget.money_per_hour = 2.2 * gpus;
  return fleet;
}

Fleet fair(Fleet fleet) {
  fleet.options.objective = Objective::kMaxMin;
  return fleet;
}

void run(benchmark::State& state, const Fleet& fleet) {
  double gap = 0.0;
  for (auto _ : state) {
    const auto result = plan(fleet.deployments, fleet.hardware, fleet.budget, fleet.options);
    if (!result) {
      state.SkipWithError(result.error().message().c_str());
      return;
    }
    gap = result->gap;
  }
  state.counters["gap_ppm"] = gap * 1e6;
}

void run_each(benchmark::State& state, const std::vector<Fleet>& fleets) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> gaps(fleets.size(), 1.0), worst_ms(fleets.size(), 0.0);
  std::size_t next = 0;
  for (auto _ : state) {
    const Fleet& fleet = fleets[next];
    const auto start = Clock::now();
    const auto result = plan(fleet.deployments, fleet.hardware, fleet.budget, fleet.options);
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    if (!result) {
      state.SkipWithError(result.error().message().c_str());
      return;
    }
    gaps[next] = result->gap;
    worst_ms[next] = worst_ms[next] > 0.0 ? std::min(worst_ms[next], ms) : ms;
    next = (next + 1) % fleets.size();
  }
  double gap = 0.0;
  for (const double each : gaps) gap += each;
  state.counters["gap_ppm"] = gap / static_cast<double>(fleets.size()) * 1e6;
  state.counters["proven"] = static_cast<double>(std::count(gaps.begin(), gaps.end(), 0.0));
  state.counters["worst_ms"] = *std::max_element(worst_ms.begin(), worst_ms.end());
}

[[maybe_unused]] const bool kRegistered = [] {
  const auto add = [](const char* name, const Fleet& fleet) {
    benchmark::RegisterBenchmark(name, [fleet](benchmark::State& state) {
      run(state, fleet);
    })->Unit(benchmark::kMillisecond);
  };
  add("200_pools/gpu_budget", fleet_of(1, 1, 0.6));
  add("200_pools/gpu_budget/3_classes", fleet_of(1, 3, 0.6));
  add("200_pools/gpu_budget/fair", fair(fleet_of(1, 1, 0.6)));
  add("200_pools/enough", fleet_of(1, 3, 8.0));
  add("200_pools/scarce_kinds", with_scarce_kinds(fleet_of(1, 1, 0.6)));
  add("200_pools/scarce_kinds/3_classes", with_scarce_kinds(fleet_of(1, 3, 0.6)));
  add("200_pools/two_kinds_each/enough", fleet_of(2, 1, 8.0));
  add("200_pools/two_kinds_each/gpu_budget", fleet_of(2, 3, 0.5));
  add("200_pools/two_kinds_each/scarce_kinds", with_scarce_kinds(fleet_of(2, 3, 0.5)));
  add("200_pools/two_kinds_each/scarce_kinds/fair", fair(with_scarce_kinds(fleet_of(2, 3, 0.5))));

  const auto add_each = [](const char* name, std::size_t pools_each, std::size_t classes, double share, auto change) {
    std::vector<Fleet> fleets;
    for (std::uint64_t number = 0; number < kFleets; ++number)
      fleets.push_back(change(with_scarce_kinds(fleet_of(pools_each, classes, share, number))));
    benchmark::RegisterBenchmark(name, [fleets](benchmark::State& state) { run_each(state, fleets); })
        ->Unit(benchmark::kMillisecond)
        ->Iterations(3 * static_cast<benchmark::IterationCount>(kFleets));
  };
  const auto as_it_is = [](Fleet fleet) { return fleet; };
  add_each("24_fleets/scarce_kinds", 1, 1, 0.6, as_it_is);
  add_each("24_fleets/scarce_kinds/3_classes", 1, 3, 0.6, as_it_is);
  add_each("24_fleets/two_kinds_each/scarce_kinds", 2, 3, 0.5, as_it_is);
  add_each("24_fleets/two_kinds_each/scarce_kinds/fair", 2, 3, 0.5, fair);
  return true;
}();

}  // namespace
