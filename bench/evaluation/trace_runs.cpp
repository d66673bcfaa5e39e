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

core::Result<TraceRuns> TraceRuns::prepare(configuration::Configuration settings) {
  auto setup = replay::prepare_replay(std::move(settings));
  if (!setup) return tl::make_unexpected(setup.error());
  TraceRuns runs{*std::move(setup)};
  const auto first = runs.smallest_fleet(core::kStart, core::kStart + kFirstMinutes);
  if (!first) return tl::make_unexpected(first.error());
  for (std::size_t i = 0; i < first->size(); ++i)
    runs.setup_.options.pools[i].replicas = runs.setup_.info.pools[i].replicas = (*first)[i];
  return runs;
}

core::Result<void> TraceRuns::find_capacity() {
  for (std::size_t i = 0; i < setup_.options.pools.size(); ++i) {
    auto found = replay::find_capacity(setup_, i);
    if (!found) return tl::make_unexpected(found.error());
    capacities_.push_back(*std::move(found));
  }
  return {};
}

simulation::RunOptions TraceRuns::options(const Progress& progress) const {
  simulation::RunOptions options = setup_.options;
  options.series_points = 1;
  options.progress = progress;
  return options;
}

core::Result<RunResult> TraceRuns::penstock(double goal, const Progress& progress, PlannerChange change) const {
  simulation::RunOptions options = this->options(progress);
  options.slo_goal = goal;
  planner::PlannerOptions planner = setup_.planner;
  if (change != nullptr) change(planner, goal);
  const auto policy = replay::make_penstock(std::move(planner), options, setup_.uncertainty);
  return simulation::run(setup_.workload, *policy, options);
}

core::Result<RunResult> TraceRuns::clairvoyant(double goal, std::uint64_t requests_simulated,
                                               const Progress& progress) const {
  simulation::RunOptions options = this->options(progress);
  options.slo_goal = goal;
  const auto policy =
      simulation::make_clairvoyant(setup_.workload, options, {.requests_simulated = requests_simulated});
  if (!policy) return tl::make_unexpected(policy.error());
  options.progress = nullptr;  // The search was most of the work.
  return simulation::run(setup_.workload, *policy->policy, options);
}

core::Result<RunResult> TraceRuns::peer(const std::string& policy) const {
  auto made = replay::make_policy_with(capacities_, policy, setup_.options);
  if (!made) return tl::make_unexpected(made.error());
  return simulation::run(setup_.workload, **made, options({}));
}

core::Result<RunResult> TraceRuns::fixed(const replay::FleetSizes& replicas) const {
  return simulation::run(setup_.workload, *still(), fixed_at(options({}), replicas));
}

core::Result<ScenarioEvaluation> TraceRuns::watched(double trial_step_time_factor, const Progress& progress) const {
  const simulation::RunOptions options = this->options(progress);
  simulation::TrialOptions trials;
  trials.step_time_factor = trial_step_time_factor;
  const auto policy = replay::make_penstock(setup_.planner, options, setup_.uncertainty, trials);
  WatchedPolicy watched{*policy};
  const auto result = simulation::run(setup_.workload, watched, options);
  if (!result) return tl::make_unexpected(result.error());
  const auto largest = fixed(replay::FleetSizes(options.pools.size(), options.pools.front().max_replicas));
  if (!largest) return tl::make_unexpected(largest.error());
  ScenarioEvaluation evaluation;
  evaluation.run = run_of(*result);
  evaluation.best_possible = std::max(largest->slo_attainment, result->slo_attainment);
  evaluation.scale_down_failures = scale_down_failures(*result);
  evaluation.invariants_broken = watched.broken();
  evaluation.first_broken = watched.first_broken();
  return evaluation;
}

core::Result<replay::FleetSizes> TraceRuns::smallest_fleet(core::Instant from, core::Instant until, double goal) const {
  std::vector<replay::PoolSizes> sizes;
  for (const simulation::PoolSpec& pool : setup_.options.pools)
    sizes.push_back({pool.min_replicas, pool.max_replicas, static_cast<double>(pool.gpus_per_replica)});
  std::map<replay::FleetSizes, double> tried;
  const auto attempt = [&](const replay::FleetSizes& replicas) -> core::Result<replay::FleetTrial> {
    simulation::RunOptions options = fixed_at(setup_.options, replicas);
    options.details = false;
    options.judged_from = from;
    options.judged_until = until;
    const auto result = simulation::run(setup_.workload, *still(), options);
    if (!result) return tl::make_unexpected(result.error());
    tried[replicas] = result->slo_attainment;
    return replay::FleetTrial{result->slo_attainment >= goal, result->slo_attainment};
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

core::Instant TraceRuns::middle() const { return core::kStart + setup_.workload.span() / 2; }

}  // namespace penstock::evaluation
