#include "replay/runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "replay/fixed_fleet_run.h"
#include "replay/policies.h"
#include "replay/run_notes.h"
#include "report/answer.h"
#include "report/metrics.h"

namespace penstock::replay {
namespace {

using decision::Policy;
using decision::RunResult;
using Progress = std::function<void(double share_done)>;

constexpr double kClairvoyantRuns = 40.0;  // Approximate number of runs of that policy.
constexpr double kFixedFleetRuns = 8.0;    // The same of the search for a fixed fleet.

// The targets of a run, as steps of a schedule.
std::vector<planner::PoolSteps> steps_of(const RunResult& result, const std::vector<simulation::PoolSpec>& pools) {
  std::vector<planner::PoolSteps> all;
  for (const simulation::PoolSpec& pool : pools) {
    planner::PoolSteps& steps = all.emplace_back();
    steps.push_back({core::Duration{}, pool.replicas});
    for (const decision::DecisionRecord& record : result.decisions)
      if (record.pool == pool.name) steps.push_back({record.at.time_since_epoch(), record.target});
  }
  return all;
}

class Replay {
 public:
  Replay(const ReplaySetup& setup, const std::function<void(const TaskProgress&)>& show) : setup_(setup), show_(show) {}

  core::Result<ReplayRuns> run() {
    return find_capacities(setup_, show_)
        .map([this](std::vector<PoolCapacity> found) { keep(std::move(found)); })
        .and_then([this] { return run_policies(); })
        .and_then([this] { return follow_cheaper_rows(); })
        .map([this] {
          keep_best_splits();
          for (std::string& note : run_notes(runs_.results, setup_.configuration.planner))
            runs_.notes.push_back(std::move(note));
          return std::move(runs_);
        });
  }

 private:
  [[nodiscard]] std::uint32_t jobs() const { return setup_.configuration.jobs; }

  void keep(std::vector<PoolCapacity> found) {
    capacities_ = std::move(found);
    for (const PoolCapacity& capacity : capacities_) {
      if (capacity.note.empty()) continue;
      runs_.notes.push_back(capacity.note);
      runs_.capacities.push_back(capacity.capacity);
    }
  }

  core::Result<void> run_one(std::string_view name, simulation::RunOptions options, const Progress& progress,
                             RunResult& result, report::PlannerMetrics* metrics = nullptr) const {
    options.progress = progress;
    simulation::RunOptions with_goal = options;
    const std::optional<double> goal = goal_of(name, options.slo_goal);
    with_goal.slo_goal = goal.value_or(options.slo_goal);
    auto policy = make_policy(setup_, capacities_, name, with_goal);
    if (!policy) return tl::make_unexpected(policy.error());
    if (is_clairvoyant(name)) options.progress = nullptr;  // The search was most of the work.
    report::MeteredPolicy metered{**policy, prices()};
    auto done = simulation::run(setup_.workload, metrics == nullptr ? **policy : metered, options);
    if (!done) return tl::make_unexpected(done.error());
    result = *std::move(done);
    result.policy = name;
    result.goal = goal;
    if (metrics != nullptr) *metrics = metered.at_end(result, options.slo);
    return {};
  }

  core::Result<void> run_policies() {
    const auto& policies = setup_.configuration.policies;
    runs_.results.resize(policies.size());
    if (!setup_.configuration.output.metrics.empty()) runs_.metrics.resize(policies.size());
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < policies.size(); ++i)
      tasks.push_back({policies[i], is_clairvoyant(policies[i]) ? kClairvoyantRuns : 1.0,
                       [this, i, &policies](const Progress& progress) {
                         return run_one(policies[i], setup_.options, progress, runs_.results[i],
                                        runs_.metrics.empty() ? nullptr : &runs_.metrics[i]);
                       }});
    const std::vector<simulation::RunOptions> fleets = static_fleets();
    splits_.resize(fleets.size());
    for (std::size_t i = 0; i < fleets.size(); ++i)
      tasks.push_back({"static fleets", 1.0, [this, i, &fleets](const Progress& progress) {
                         return run_one("static", fleets[i], progress, splits_[i]);
                       }});
    if (setup_.configuration.answer && !setup_.workload.requests.empty())
      tasks.push_back({"cheapest fixed fleet", kFixedFleetRuns,
                       [this](const Progress& progress) { return search_fixed_fleet(progress); }});
    // The longest task starts first, so that the others do not wait for it at the end.
    std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.weight > b.weight; });
    return run_tasks(tasks, jobs(), show_);
  }

  // A clairvoyant run must not be dearer than another row that reaches its goal. It then follows the targets of that
  // row, which a simulation of the same seed repeats.
  core::Result<void> follow_cheaper_rows() {
    for (std::size_t i = 0; i < runs_.results.size(); ++i) {
      RunResult& own = runs_.results[i];
      if (!is_clairvoyant(own.policy)) continue;
      const auto better = [&](const RunResult& row, const RunResult& than) {
        return row.slo_attainment >= *own.goal && (than.slo_attainment < *own.goal || report::is_cheaper(row, than));
      };
      const RunResult* best = &own;
      for (const RunResult& row : runs_.results)
        if (better(row, *best)) best = &row;
      if (best == &own) continue;
      const std::string followed = best->policy;
      const std::unique_ptr<Policy> policy = planner::make_schedule(steps_of(*best, setup_.options.pools));
      report::MeteredPolicy metered{*policy, prices()};
      auto done = simulation::run(setup_.workload, metered, setup_.options);
      if (!done) return tl::make_unexpected(done.error());
      if (!better(*done, own)) continue;
      done->policy = own.policy;
      done->goal = own.goal;
      own = *std::move(done);
      if (!runs_.metrics.empty()) runs_.metrics[i] = metered.at_end(own, setup_.options.slo);
      runs_.notes.push_back(
          fmt::format("{} follows the replicas of {}, which cost less than its search found", own.policy, followed));
    }
    return {};
  }

  [[nodiscard]] std::vector<double> prices() const {
    std::vector<double> prices;
    for (const simulation::PoolSpec& pool : setup_.options.pools) prices.push_back(pool.price_per_gpu_hour);
    return prices;
  }

  core::Result<void> search_fixed_fleet(const Progress& progress) {
    auto found = find_fixed_fleet(setup_.workload, setup_.options, progress);
    if (!found) return tl::make_unexpected(found.error());
    runs_.fixed = report::FixedFleet{std::move(found->tried.at(found->chosen)), found->chosen};
    return {};
  }

  // Returns fleets of every size of the frontier; with two pools, in every split.
  [[nodiscard]] std::vector<simulation::RunOptions> static_fleets() const {
    std::vector<simulation::RunOptions> fleets;
    const auto add = [&](const FleetSizes& replicas) { fleets.push_back(fixed_at(setup_.options, replicas)); };
    const options::CountRange& sizes = setup_.configuration.frontier;
    if (sizes.empty()) return fleets;
    for (std::uint32_t size = sizes.first; size <= sizes.last; ++size) {
      if (setup_.options.pools.size() == 1)
        add({size});
      else
        for (std::uint32_t first = 1; first < size; ++first) add({first, size - first});
    }
    return fleets;
  }

  void keep_best_splits() {
    const auto better = [](const RunResult& a, const RunResult& b) {
      return a.slo_attainment != b.slo_attainment ? a.slo_attainment > b.slo_attainment : a.gpu_hours < b.gpu_hours;
    };
    for (RunResult& split : splits_) {
      auto& kept = runs_.frontier;
      if (kept.empty() || kept.back().replicas != split.replicas)
        kept.push_back(std::move(split));
      else if (better(split, kept.back()))
        kept.back() = std::move(split);
    }
    if (capacities_.size() > 1 && !runs_.frontier.empty())
      runs_.notes.emplace_back("static fleets: of each size the best split between the pools");
  }

  const ReplaySetup& setup_;
  const std::function<void(const TaskProgress&)>& show_;
  std::vector<PoolCapacity> capacities_;  // Indexed by pool.
  std::vector<RunResult> splits_;         // Runs of the frontier by size and split.
  ReplayRuns runs_;
};

}  // namespace

core::Result<ReplayRuns> run_replay(const ReplaySetup& setup, const std::function<void(const TaskProgress&)>& show) {
  return Replay{setup, show}.run();
}

}  // namespace penstock::replay
