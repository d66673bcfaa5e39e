#include "replay/fixed_fleet_run.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/policy.h"
#include "report/answer.h"

namespace penstock::replay {
namespace {

constexpr double kUsualTrials = 8.0;  // Approximate number of runs of a search, for its progress.

core::Result<decision::RunResult> run_static(const workload::Workload& workload,
                                             const simulation::RunOptions& options) {
  auto policy = planner::make_policy("static", {});
  if (!policy) return tl::make_unexpected(policy.error());
  auto done = simulation::run(workload, **policy, options);
  if (done) done->policy = "static";
  return done;
}

}  // namespace

simulation::RunOptions fixed_at(simulation::RunOptions options, const FleetSizes& replicas) {
  options.series_points = 1;
  options.progress = nullptr;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    simulation::PoolSpec& pool = options.pools[i];
    pool.replicas = pool.min_replicas = pool.max_replicas = replicas[i];
  }
  return options;
}

core::Result<FixedFleetSearch> find_fixed_fleet(const workload::Workload& workload,
                                                const simulation::RunOptions& options,
                                                const std::function<void(double share_done)>& progress,
                                                std::uint32_t expected) {
  std::vector<PoolSizes> sizes;
  for (const simulation::PoolSpec& pool : options.pools) {
    const double price = pool.price_per_gpu_hour > 0.0 ? pool.price_per_gpu_hour : 1.0;
    // A fleet that never changes serves nothing without a replica.
    sizes.push_back({std::max(1U, pool.min_replicas), pool.max_replicas, price * pool.gpus_per_replica, expected});
  }
  FixedFleetSearch search;
  const auto attempt = [&](const FleetSizes& replicas) -> core::Result<FleetTrial> {
    auto done = run_static(workload, fixed_at(options, replicas));
    if (!done) return tl::make_unexpected(done.error());
    const decision::RunResult& result = search.tried[replicas] = *std::move(done);
    const auto trials = static_cast<double>(search.tried.size());
    if (progress) progress(trials / (trials + kUsualTrials));
    return FleetTrial{report::reaches_goal(result, options.slo_goal), result.slo_attainment};
  };
  const auto found = cheapest_fleet(sizes, attempt);
  if (!found) return tl::make_unexpected(found.error());
  search.reaches_goal = found->has_value();
  search.chosen =
      *found ? **found : std::max_element(search.tried.begin(), search.tried.end(), [](const auto& a, const auto& b) {
                           return a.second.slo_attainment < b.second.slo_attainment;
                         })->first;
  return search;
}

}  // namespace penstock::replay
