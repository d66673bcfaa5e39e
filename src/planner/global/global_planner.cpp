#include "planner/global/global_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "planner/global/inputs.h"
#include "planner/global/multi_choice.h"
#include "planner/global/outcome.h"

namespace penstock::planner::global {
namespace {

constexpr double kTrafficUnitsMax =
    1e12;                              // Sums up to this limit are exact in doubles; products with prices nearly so.
constexpr double kTrafficUnit = 1e-6;  // Requests/s; larger if the demand requires it.

// The deployments of one class, which are adjacent.
struct Class {
  int priority = 0;
  std::size_t begin = 0, end = 0;
};

std::vector<Class> classes_of(const Inputs& inputs) {
  std::vector<Class> classes;
  for (std::size_t d = 0; d < inputs.deployments.size(); ++d) {
    const int priority = inputs.deployments[d].deployment.priority;
    if (classes.empty() || classes.back().priority != priority) classes.push_back({priority, d, d});
    classes.back().end = d + 1;
  }
  return classes;
}

double weight_of(const PlannedDeployment& planned, Objective objective) {
  return objective == Objective::kMostTraffic ? planned.deployment.weight : 1.0;
}

// The resources that at least one selection could exhaust; the search ignores the others.
std::vector<std::size_t> scarce(const Inputs& inputs) {
  std::vector<std::size_t> result;
  for (std::size_t r = 0; r < inputs.resources.size(); ++r) {
    double most = 0.0;
    for (const PlannedDeployment& planned : inputs.deployments) {
      double of_one = 0.0;
      for (const Mix& mix : planned.mixes) of_one = std::max(of_one, inputs.resources[r].used_by(mix));
      most += of_one;
    }
    if (most > inputs.resources[r].available) result.push_back(r);
  }
  return result;
}

// Returns an error if the floors do not fit.
std::optional<core::Error> check_floors(const Inputs& inputs) {
  for (const Resource& resource : inputs.resources) {
    double floors = 0.0;
    for (const PlannedDeployment& planned : inputs.deployments) floors += resource.used_by(planned.mixes.front());
    if (floors <= resource.available) continue;
    const bool money = resource.limit == PoolLimit::kMoneyBudget;
    const double scale = money ? inputs.money_unit : 1.0;
    const std::string where = money           ? "budget.money_per_hour"
                              : resource.kind ? "hardware." + resource.name + ".gpus"
                                              : "budget.gpus";
    return core::invalid_input(where,
                               fmt::format("must hold all floors, which take {:.10g}, is {:.10g}", floors * scale,
                                           resource.available * scale),
                               "raise it, or lower the first steps of the offers")
        .value();
  }
  return std::nullopt;
}

// Passes the mixes of each deployment to the solver as choices, with one criterion per class, one for cost and one for
// changes.
class Planning {
 public:
  Planning(const Inputs& inputs, const Options& options)
      : inputs_(inputs),
        options_(options),
        classes_(classes_of(inputs)),
        scarce_(scarce(inputs)),
        solver_(limits(), classes_.size() + 2, {options.states_max, options.work_max}) {
    std::vector<std::vector<std::uint32_t>> previous;
    for (const PlannedDeployment& planned : inputs_.deployments)
      previous.push_back(previous_steps(planned, options_.previous).value_or(std::vector<std::uint32_t>{}));
    std::vector<double> scores(classes_.size() + 2), uses(scarce_.size());
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      units_.push_back(traffic_unit(classes_[c]));
      for (std::size_t d = classes_[c].begin; d < classes_[c].end; ++d) {
        const PlannedDeployment& planned = inputs_.deployments[d];
        solver_.add_group();
        for (const Mix& mix : planned.mixes) {
          std::fill(scores.begin(), scores.end(), 0.0);
          scores[c] = std::nearbyint(weight_of(planned, options_.objective) * mix.carried_rps / units_[c]);
          scores[cost_criterion()] = -mix.cost;
          scores[cost_criterion() + 1] = mix.steps == previous[d] ? 0.0 : -1.0;
          for (std::size_t r = 0; r < scarce_.size(); ++r) uses[r] = inputs_.resources[scarce_[r]].used_by(mix);
          solver_.add_choice(scores, uses);
        }
      }
    }
  }

  Solution solve() {
    Solution solution;
    solution.resources.resize(inputs_.resources.size());
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      ClassPlan plan;
      plan.priority = classes_[c].priority;
      if (options_.objective == Objective::kMaxMin) raise_level(classes_[c], plan);
      const Maximum most = solver_.maximise(c);
      plan.value = most.score * units_[c];
      plan.value_bound = most.bound * units_[c];
      for (std::size_t r = 0; r < scarce_.size(); ++r) {
        ResourcePlan& resource = solution.resources[scarce_[r]];
        if (resource.value_per_unit > 0.0 || !(most.prices[r] > 0.0)) continue;
        resource.value_per_unit = most.prices[r] * units_[c] * per_unit(scarce_[r]);
        resource.gains_class = classes_[c].priority;
      }
      solution.classes.push_back(plan);
    }
    const Maximum least_cost = solver_.maximise(cost_criterion());
    solution.cost_per_hour = -least_cost.score * inputs_.money_unit;
    solution.cost_bound = -least_cost.bound * inputs_.money_unit;
    for (std::size_t r = 0; r < scarce_.size(); ++r)
      solution.resources[scarce_[r]].saving_per_unit = least_cost.prices[r] * inputs_.money_unit * per_unit(scarce_[r]);
    if (!options_.previous.empty()) static_cast<void>(solver_.maximise(cost_criterion() + 1));
    const std::vector<std::uint32_t> chosen = solver_.selection();
    for (std::size_t d = 0; d < chosen.size(); ++d) solution.mixes.push_back(inputs_.deployments[d].mixes[chosen[d]]);
    return solution;
  }

 private:
  [[nodiscard]] std::size_t cost_criterion() const { return classes_.size(); }
  [[nodiscard]] double per_unit(std::size_t resource) const {  // 1 for GPUs, one currency unit for money.
    return inputs_.resources[resource].limit == PoolLimit::kMoneyBudget ? 1.0 / inputs_.money_unit : 1.0;
  }

  [[nodiscard]] std::vector<double> limits() const {
    std::vector<double> result;
    for (const std::size_t r : scarce_) result.push_back(inputs_.resources[r].available);
    return result;
  }

  [[nodiscard]] double traffic_unit(const Class& of) const {
    double most = 0.0;
    for (std::size_t d = of.begin; d < of.end; ++d)
      most += weight_of(inputs_.deployments[d], options_.objective) * inputs_.deployments[d].deployment.demand_rps;
    return std::max(kTrafficUnit, most / kTrafficUnitsMax);
  }

  // Finds the highest level that a plan can give all deployments of the class, by bisection over the existing levels.
  void raise_level(const Class& of, ClassPlan& plan) {
    std::vector<double> levels;  // Levels of all choices, in the solver's numbering.
    std::vector<double> rungs;
    for (std::size_t d = 0; d < inputs_.deployments.size(); ++d)
      for (const Mix& mix : inputs_.deployments[d].mixes) {
        const bool concerned = d >= of.begin && d < of.end;
        levels.push_back(concerned ? level_of(inputs_.deployments[d], mix.carried_rps)
                                   : std::numeric_limits<double>::infinity());
        if (concerned) rungs.push_back(levels.back());
      }
    std::sort(rungs.begin(), rungs.end());
    rungs.erase(std::unique(rungs.begin(), rungs.end()), rungs.end());
    std::size_t reached = 0, open_to = rungs.size(), proven_to = rungs.size();
    while (open_to - reached > 1) {
      const std::size_t middle = reached + (open_to - reached) / 2;
      std::vector<bool> allowed(levels.size());
      for (std::size_t i = 0; i < levels.size(); ++i) allowed[i] = levels[i] >= rungs[middle];
      switch (solver_.restrict_to(allowed)) {
        case Restriction::kKept: reached = middle; break;
        case Restriction::kImpossible: open_to = proven_to = middle; break;
        case Restriction::kUnknown: open_to = middle; break;
      }
    }
    plan.level = selected_level(of);
    plan.level_bound = std::max(plan.level, rungs[proven_to - 1]);
  }

  [[nodiscard]] double selected_level(const Class& of) const {
    const std::vector<std::uint32_t> chosen = solver_.selection();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t d = of.begin; d < of.end; ++d)
      least = std::min(least, level_of(inputs_.deployments[d], inputs_.deployments[d].mixes[chosen[d]].carried_rps));
    return least;
  }

  const Inputs& inputs_;
  const Options& options_;
  std::vector<Class> classes_;
  std::vector<std::size_t> scarce_;
  MultiChoice solver_;
  std::vector<double> units_;  // Unit of traffic by class.
};

}  // namespace

core::Result<GlobalPlan> plan(const std::vector<Deployment>& deployments, const std::vector<Hardware>& hardware,
                              const Budget& budget, const Options& options) {
  auto inputs = inputs_of(deployments, hardware, budget);
  if (!inputs) return tl::make_unexpected(std::move(inputs.error()));
  if (auto error = check_floors(*inputs)) return tl::make_unexpected(std::move(*error));
  if (!(options.gain_min >= 0.0)) return core::invalid_input("options.gain_min", "must be at least 0");
  if (!(options.saving_min >= 0.0)) return core::invalid_input("options.saving_min", "must be at least 0");
  if (options.states_max == 0) return core::invalid_input("options.states_max", "must be at least 1");
  Solution solution = Planning(*inputs, options).solve();
  keep_previous(*inputs, options, solution);
  return rendered(*inputs, options, solution);
}

}  // namespace penstock::planner::global
