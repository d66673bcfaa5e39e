#include "evaluation/trace_runs.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "evaluation/watch.h"
#include "replay/planner_setup.h"
#include "simulation/clairvoyant.h"

namespace penstock::evaluation {

using decision::RunResult;
namespace {

constexpr core::Duration kFirstMinutes = std::chrono::minutes{10};
constexpr double kNearBest = 0.005;

constexpr std::array kSwept{
    SweptParameter{"hpa-rate", "utilisation", {AxisKind::kLoad, 0.1, 2.5}, 0.8},
    SweptParameter{"hpa-concurrency", "utilisation", {AxisKind::kLoad, 0.1, 2.5}, 0.8},
    SweptParameter{"keda-tokens", "utilisation", {AxisKind::kLoad, 0.1, 2.5}, 0.75},
    SweptParameter{"llmd-slo", "up", {AxisKind::kLoad, 0.06, 2.0}, 0.55},
    SweptParameter{"llmd-queue", "running", {AxisKind::kLoad, 1.0, 128.0}, 16.0, Rank::kOther},
    SweptParameter{"llmd-queue-guard", "running", {AxisKind::kLoad, 1.0, 128.0}, 16.0, Rank::kOther},
    SweptParameter{"llmd-pool-saturation", "running", {AxisKind::kLoad, 1.0, 128.0}, 16.0, Rank::kOther},
    SweptParameter{"llmd-token-aware", "backlog", {AxisKind::kLoad, 0.05, 30.0}, 1.5, Rank::kOther},
    SweptParameter{"token-velocity", "headroom", {AxisKind::kHeadroom, 0.0, 3.0}, 0.0},
    SweptParameter{"hourly-floor", "up", {AxisKind::kLoad, 0.05, 2.5}, 0.7},
    SweptParameter{"kpa", "utilisation", {AxisKind::kLoad, 0.05, 2.5}, 0.7, Rank::kOther},
    SweptParameter{"apa", "kv", {AxisKind::kLoad, 0.01, 1.0}, 0.5, Rank::kOther},
    SweptParameter{"llmd-saturation-v2", "up", {AxisKind::kLoad, 0.05, 2.0}, 0.85, Rank::kOther},
    SweptParameter{"dynamo-sla", "slo", {AxisKind::kLoad, 0.05, 2.0}, 1.0, Rank::kHours},
    SweptParameter{"dynamo-sla-load", "slo", {AxisKind::kLoad, 0.05, 2.0}, 1.0, Rank::kHours},
    SweptParameter{"dynamo-sla-throughput", "slo", {AxisKind::kLoad, 0.05, 2.0}, 1.0, Rank::kHours},
    SweptParameter{"penstock", "goal", {AxisKind::kShare, 0.8, 0.9995}, kGoal},
};

std::unique_ptr<decision::Policy> still() { return *planner::make_policy("static", {}); }

simulation::RunOptions fixed_at(simulation::RunOptions options, const replay::FleetSizes& replicas) {
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    simulation::PoolSpec& pool = options.pools[i];
    pool.replicas = pool.min_replicas = pool.max_replicas = replicas[i];
  }
  return options;
}

}  // namespace

const SweptParameter* swept_parameter(std::string_view policy) {
  const auto* found =
      std::find_if(kSwept.begin(), kSwept.end(), [&](const auto& each) { return each.policy == policy; });
  return found == kSwept.end() ? nullptr : found;
}

core::Result<TraceRuns> TraceRuns::prepare(const configuration::Configuration& settings) {
  return prepare(settings, std::span{&settings.run.seed, 1});
}

core::Result<TraceRuns> TraceRuns::prepare(const configuration::Configuration& settings,
                                           std::span<const std::uint64_t> seeds) {
  TraceRuns all;
  for (const std::uint64_t seed : seeds) {
    configuration::Configuration seeded = settings;
    seeded.run.seed = seeded.traces.read.seed = seed;
    auto setup = replay::prepare_replay(std::move(seeded));
    if (!setup) return tl::make_unexpected(setup.error());
    TraceRuns one;
    one.seeds_.push_back({*std::move(setup), {}});
    const auto first = one.smallest_fleet(core::kStart, core::kStart + kFirstMinutes);
    if (!first) return tl::make_unexpected(first.error());
    replay::ReplaySetup& made = one.seeds_.front().setup;
    for (std::size_t i = 0; i < first->size(); ++i)
      made.options.pools[i].replicas = made.info.pools[i].replicas = (*first)[i];
    all.seeds_.push_back(std::move(one.seeds_.front()));
  }
  return all;
}

core::Result<void> TraceRuns::find_capacity() {
  for (Seed& seed : seeds_)
    for (std::size_t i = 0; i < seed.setup.options.pools.size(); ++i) {
      auto found = replay::find_capacity(seed.setup, i);
      if (!found) return tl::make_unexpected(found.error());
      seed.capacities.push_back(*std::move(found));
    }
  return {};
}

simulation::RunOptions TraceRuns::options_of(const Seed& seed, const Progress& progress) {
  simulation::RunOptions options = seed.setup.options;
  options.series_points = 1;
  options.progress = progress;
  return options;
}

template <class OneRun>
core::Result<Run> TraceRuns::pool(const Progress& progress, const OneRun& run) const {
  std::vector<Run> runs;
  for (const Seed& seed : seeds_) {
    Progress part;
    if (progress != nullptr)
      part = [&](double share) {
        progress((static_cast<double>(runs.size()) + share) / static_cast<double>(seeds_.size()));
      };
    const core::Result<RunResult> result = run(seed, part);
    if (!result) return tl::make_unexpected(result.error());
    runs.push_back(run_of(*result));
  }
  return pooled(runs);
}

core::Result<Run> TraceRuns::penstock(double goal, const Progress& progress, PlannerChange change) const {
  return pool(progress, [&](const Seed& seed, const Progress& part) {
    simulation::RunOptions options = options_of(seed, part);
    options.slo_goal = goal;
    planner::PlannerOptions planner = seed.setup.planner;
    if (change != nullptr) change(planner, goal);
    const auto policy = replay::make_penstock(std::move(planner), options);
    return simulation::run(seed.setup.workload, *policy, options);
  });
}

core::Result<Run> TraceRuns::clairvoyant(double goal, std::uint64_t requests_simulated,
                                         const Progress& progress) const {
  return pool(progress, [&](const Seed& seed, const Progress& part) -> core::Result<RunResult> {
    simulation::RunOptions options = options_of(seed, part);
    options.slo_goal = goal;
    const auto policy =
        simulation::make_clairvoyant(seed.setup.workload, options, {.requests_simulated = requests_simulated});
    if (!policy) return tl::make_unexpected(policy.error());
    options.progress = nullptr;  // The search was most of the work.
    return simulation::run(seed.setup.workload, *policy->policy, options);
  });
}

core::Result<Run> TraceRuns::peer(const std::string& policy) const {
  return pool({}, [&](const Seed& seed, const Progress& part) -> core::Result<RunResult> {
    auto made = replay::make_policy_with(seed.capacities, policy, seed.setup.options);
    if (!made) return tl::make_unexpected(made.error());
    return simulation::run(seed.setup.workload, **made, options_of(seed, part));
  });
}

core::Result<Run> TraceRuns::fixed(const replay::FleetSizes& replicas) const {
  return pool({}, [&](const Seed& seed, const Progress& part) {
    return simulation::run(seed.setup.workload, *still(), fixed_at(options_of(seed, part), replicas));
  });
}

core::Result<ScenarioEvaluation> TraceRuns::watched(double trial_step_time_factor, const Progress& progress) const {
  const replay::ReplaySetup& setup = seeds_.front().setup;
  const simulation::RunOptions options = options_of(seeds_.front(), progress);
  simulation::TrialOptions trials;
  trials.step_time_factor = trial_step_time_factor;
  const auto policy = replay::make_penstock(setup.planner, options, trials);
  WatchedPolicy watched{*policy};
  const auto result = simulation::run(setup.workload, watched, options);
  if (!result) return tl::make_unexpected(result.error());
  const auto largest = fixed(replay::FleetSizes(options.pools.size(), options.pools.front().max_replicas));
  if (!largest) return tl::make_unexpected(largest.error());
  ScenarioEvaluation evaluation;
  evaluation.run = run_of(*result);
  evaluation.best_possible = std::max(largest->attainment, result->slo_attainment);
  evaluation.scale_down_failures = scale_down_failures(*result);
  evaluation.invariants_broken = watched.broken();
  evaluation.first_broken = watched.first_broken();
  return evaluation;
}

core::Result<replay::FleetSizes> TraceRuns::smallest_fleet(core::Instant from, core::Instant until, double goal) const {
  std::vector<replay::PoolSizes> sizes;
  for (const simulation::PoolSpec& pool : seeds_.front().setup.options.pools)
    sizes.push_back({pool.min_replicas, pool.max_replicas, static_cast<double>(pool.gpus_per_replica)});
  std::map<replay::FleetSizes, double> tried;
  const auto attempt = [&](const replay::FleetSizes& replicas) -> core::Result<replay::FleetTrial> {
    const auto run = pool({}, [&](const Seed& seed, const Progress&) {
      simulation::RunOptions options = fixed_at(seed.setup.options, replicas);
      options.details = false;
      options.judged_from = from;
      options.judged_until = until;
      return simulation::run(seed.setup.workload, *still(), options);
    });
    if (!run) return tl::make_unexpected(run.error());
    tried[replicas] = run->attainment;
    return replay::FleetTrial{run->attainment >= goal, run->attainment};
  };
  const auto found = replay::cheapest_fleet(sizes, attempt);
  if (!found) return tl::make_unexpected(found.error());
  if (*found) return **found;
  const double best = std::max_element(tried.begin(), tried.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->second;
  return std::find_if(tried.begin(), tried.end(), [&](const auto& each) { return each.second >= best - kNearBest; })
      ->first;
}

core::Instant TraceRuns::middle() const { return core::kStart + seeds_.front().setup.workload.span() / 2; }

}  // namespace penstock::evaluation
