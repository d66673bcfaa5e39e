#include "planner/global/outcome.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/enum_names.h"

namespace penstock::planner::global {
namespace {

// Share of a demand that counts as all of it, because sums of requests/s are rounded.
constexpr double kNearlyAll = 1.0 - 1e-9;

std::vector<double> used_by(const Inputs& inputs, const std::vector<Mix>& mixes) {
  std::vector<double> used(inputs.resources.size(), 0.0);
  for (std::size_t r = 0; r < used.size(); ++r)
    for (const Mix& mix : mixes) used[r] += inputs.resources[r].used_by(mix);
  return used;
}

bool fit(const Inputs& inputs, const std::vector<Mix>& mixes) {
  const std::vector<double> used = used_by(inputs, mixes);
  for (std::size_t r = 0; r < used.size(); ++r)
    if (used[r] > inputs.resources[r].available) return false;
  return true;
}

// Computes the figures of the classes for other mixes; the bounds stay.
std::vector<ClassPlan> values_of(const Inputs& inputs, Objective objective, std::vector<ClassPlan> classes,
                                 const std::vector<Mix>& mixes) {
  for (ClassPlan& plan : classes) {
    plan.value = 0.0;
    plan.level = objective == Objective::kMaxMin ? std::numeric_limits<double>::infinity() : 0.0;
    for (std::size_t d = 0; d < mixes.size(); ++d) {
      const PlannedDeployment& planned = inputs.deployments[d];
      if (planned.deployment.priority != plan.priority) continue;
      plan.value += (objective == Objective::kMostTraffic ? planned.deployment.weight : 1.0) * mixes[d].carried_rps;
      if (objective == Objective::kMaxMin) plan.level = std::min(plan.level, level_of(planned, mixes[d].carried_rps));
    }
  }
  return classes;
}

double demand_of(const Inputs& inputs, Objective objective, int priority) {
  double sum = 0.0;
  for (const PlannedDeployment& planned : inputs.deployments)
    if (planned.deployment.priority == priority)
      sum += (objective == Objective::kMostTraffic ? planned.deployment.weight : 1.0) * planned.deployment.demand_rps;
  return sum;
}

double cost_of(const Inputs& inputs, const std::vector<Mix>& mixes) {
  double sum = 0.0;
  for (const Mix& mix : mixes) sum += mix.cost;
  return sum * inputs.money_unit;
}

// The first class that differs by more than the share decides, then the cost.
bool worth_it(const Inputs& inputs, const Options& options, const std::vector<ClassPlan>& before, double cost_before,
              const Solution& after) {
  for (std::size_t c = 0; c < before.size(); ++c) {
    const ClassPlan& old = before[c];
    const ClassPlan& now = after.classes[c];
    if (now.level > old.level && (std::isinf(now.level) || now.level - old.level > options.gain_min * now.level))
      return true;
    if (old.level > now.level) return false;
    const double least = options.gain_min * demand_of(inputs, options.objective, old.priority);
    const double gain = now.value - old.value;
    if (gain > least && gain > 0.0) return true;
    if (-gain > least) return false;
  }
  return cost_before - after.cost_per_hour > options.saving_min * cost_before;
}

struct Leftovers {
  const Inputs& inputs;
  const Solution& solution;
  std::vector<double> used;
  bool proven = false;
};

// The reason why an offer of a deployment does not have its next step.
PoolLimit limit_of(const Leftovers& left, std::size_t d, std::size_t o) {
  const PlannedDeployment& planned = left.inputs.deployments[d];
  const Mix& mix = left.solution.mixes[d];
  if (mix.carried_rps >= planned.deployment.demand_rps * kNearlyAll) return PoolLimit::kNone;
  const std::vector<Step>& steps = planned.deployment.offers[o].steps;
  std::uint32_t next = mix.steps[o] + 1;
  if (next == steps.size()) return PoolLimit::kMaxReplicas;
  while (next < steps.size() && steps[next].carried_rps <= steps[mix.steps[o]].carried_rps) ++next;
  if (next == steps.size()) return PoolLimit::kNoGain;
  std::vector<std::uint32_t> raised = mix.steps;
  raised[o] = next;
  const Mix more = mix_at(left.inputs.mix_input(planned), std::move(raised));
  for (std::size_t r = 0; r < left.inputs.resources.size(); ++r) {
    const Resource& resource = left.inputs.resources[r];
    if (left.used[r] - resource.used_by(mix) + resource.used_by(more) > resource.available) return resource.limit;
  }
  if (left.solution.kept_previous) return PoolLimit::kKept;
  return left.proven ? PoolLimit::kNoGain : PoolLimit::kSearchEnded;
}

void render_deployment(const Leftovers& left, std::size_t d, GlobalPlan& plan,
                       std::vector<std::vector<PoolPlan>>& pools) {
  const PlannedDeployment& planned = left.inputs.deployments[d];
  const Mix& mix = left.solution.mixes[d];
  DeploymentPlan& deployment = plan.deployments[planned.place];
  deployment.name = planned.deployment.name;
  deployment.kept_rps = mix.carried_rps;
  deployment.cost_per_hour = mix.cost * left.inputs.money_unit;
  for (const std::size_t o : planned.offer_at) {
    const Offer& offer = planned.deployment.offers[o];
    const PoolLimit limit = limit_of(left, d, o);
    for (std::size_t p = 0; p < offer.pools.size(); ++p) {
      PoolPlan pool;
      pool.deployment = planned.deployment.name;
      pool.pool = offer.pools[p].name;
      pool.hardware = offer.pools[p].hardware;
      pool.replicas = offer.steps[mix.steps[o]].replicas[p];
      pool.gpus = std::uint64_t{pool.replicas} * offer.pools[p].gpus_per_replica;
      pool.cost_per_hour =
          static_cast<double>(pool.gpus) * left.inputs.prices[planned.kind_of[o][p]] * left.inputs.money_unit;
      pool.limited_by = limit;
      pools[planned.place].push_back(std::move(pool));
    }
  }
}

double gap_of(const Solution& solution) {
  double gap = 0.0;
  for (const ClassPlan& plan : solution.classes) {
    if (plan.value_bound > plan.value) gap = std::max(gap, (plan.value_bound - plan.value) / plan.value_bound);
    if (plan.level_bound > plan.level)
      gap = std::max(gap, std::isinf(plan.level_bound) ? 1.0 : (plan.level_bound - plan.level) / plan.level_bound);
  }
  if (solution.cost_per_hour > solution.cost_bound)
    gap = std::max(gap, (solution.cost_per_hour - solution.cost_bound) / solution.cost_per_hour);
  return gap;
}

}  // namespace

const char* to_string(PoolLimit limit) {
  return core::name_of<PoolLimit::kSearchEnded>(limit, {"", "max_replicas", "hardware_gpus", "gpu_budget",
                                                        "money_budget", "no_gain", "kept_previous", "search_ended"});
}

double level_of(const PlannedDeployment& planned, double kept_rps) {
  if (kept_rps >= planned.kept_max_rps * kNearlyAll) return std::numeric_limits<double>::infinity();
  return kept_rps / planned.deployment.demand_rps / planned.deployment.weight;
}

std::optional<std::vector<std::uint32_t>> previous_steps(const PlannedDeployment& planned,
                                                         const std::vector<PoolReplicas>& previous) {
  std::vector<std::uint32_t> steps;
  for (const Offer& offer : planned.deployment.offers) {
    std::vector<std::uint32_t> replicas;
    for (const OfferPool& pool : offer.pools)
      for (const PoolReplicas& entry : previous)
        if (entry.deployment == planned.deployment.name && entry.pool == pool.name) {
          replicas.push_back(entry.replicas);
          break;
        }
    const auto at = std::find_if(offer.steps.begin(), offer.steps.end(),
                                 [&](const Step& step) { return step.replicas == replicas; });
    if (at == offer.steps.end()) return std::nullopt;
    steps.push_back(static_cast<std::uint32_t>(at - offer.steps.begin()));
  }
  return steps;
}

void keep_previous(const Inputs& inputs, const Options& options, Solution& solution) {
  if (options.previous.empty()) return;
  std::vector<Mix> previous;
  bool equal = true;
  for (const PlannedDeployment& planned : inputs.deployments) {
    auto steps = previous_steps(planned, options.previous);
    if (!steps) return;
    equal = equal && *steps == solution.mixes[previous.size()].steps;
    previous.push_back(mix_at(inputs.mix_input(planned), std::move(*steps)));
  }
  if (equal || !fit(inputs, previous)) return;
  std::vector<ClassPlan> classes = values_of(inputs, options.objective, solution.classes, previous);
  const double cost = cost_of(inputs, previous);
  if (worth_it(inputs, options, classes, cost, solution)) return;
  solution.mixes = std::move(previous);
  solution.classes = std::move(classes);
  solution.cost_per_hour = cost;
  solution.kept_previous = true;
}

GlobalPlan rendered(const Inputs& inputs, const Options& options, const Solution& solution) {
  GlobalPlan plan;
  // Exact sums of the served traffic; the search rounds them to its unit of traffic.
  plan.classes = values_of(inputs, options.objective, solution.classes, solution.mixes);
  for (std::size_t c = 0; c < plan.classes.size(); ++c)
    if (solution.classes[c].value_bound <= solution.classes[c].value && !solution.kept_previous)
      plan.classes[c].value_bound = plan.classes[c].value;
  plan.cost_per_hour = solution.cost_per_hour;
  plan.cost_bound = solution.cost_bound;
  plan.kept_previous = solution.kept_previous;
  Solution exact = solution;
  exact.classes = plan.classes;
  plan.gap = gap_of(exact);

  Leftovers left{inputs, solution, used_by(inputs, solution.mixes), plan.gap == 0.0};
  plan.deployments.resize(inputs.deployments.size());
  std::vector<std::vector<PoolPlan>> pools(inputs.deployments.size());
  for (std::size_t d = 0; d < inputs.deployments.size(); ++d) render_deployment(left, d, plan, pools);
  for (std::vector<PoolPlan>& of_one : pools)
    for (PoolPlan& pool : of_one) plan.pools.push_back(std::move(pool));
  plan.resources = solution.resources;
  for (std::size_t r = 0; r < inputs.resources.size(); ++r) {
    const double unit = inputs.resources[r].limit == PoolLimit::kMoneyBudget ? inputs.money_unit : 1.0;
    plan.resources[r].name = inputs.resources[r].name;
    plan.resources[r].used = left.used[r] * unit;
    plan.resources[r].available = inputs.resources[r].available * unit;
  }
  return plan;
}

}  // namespace penstock::planner::global
