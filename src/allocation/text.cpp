#include "allocation/renderings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/format.h"
#include "report/grid.h"

namespace penstock::allocation {
namespace {

namespace global = planner::global;
using global::PoolLimit;
using report::format_quantity;
using report::format_share;
using report::Grid;

std::string money(double amount) { return fmt::format("{:.2f}", amount); }

std::string limit_text(const global::PoolPlan& pool) {
  switch (pool.limited_by) {
    case PoolLimit::kNone: return "nothing: the demand is served";
    case PoolLimit::kMaxReplicas: return "max_replicas";
    case PoolLimit::kHardware: return "no " + pool.hardware + " left";
    case PoolLimit::kGpuBudget: return "the GPU budget";
    case PoolLimit::kMoneyBudget: return "the money budget";
    case PoolLimit::kNoGain: return "no gain from one more replica";
    case PoolLimit::kKept: return "the current plan: the gain of one more replica does not justify a change";
    case PoolLimit::kSearchEnded: return "the time limit of the search";
  }
  return {};
}

// Returns the largest possible distance of a figure from the optimum.
std::string gap_text(double value, double bound) {
  if (!(bound > value)) return "proven optimal";
  if (std::isinf(bound)) return "no bound known";
  const double percent = (bound - value) / bound * 100.0;
  return fmt::format("at most {} % below the optimum",
                     percent < 0.095 ? "0.1" : fmt::format("{:.1f}", std::ceil(percent * 10.0 - 1e-9) / 10.0));
}

std::string share(double part, double whole) { return whole > 0.0 ? format_share(part / whole) : "–"; }

std::string resource_text(const std::string& name) {
  if (name == "gpu_budget") return "GPUs of all kinds";
  if (name == "money_budget") return "USD per hour";
  return name;
}

std::string pools_text(const global::GlobalPlan& plan) {
  Grid grid{{{"pool", true}, {"hardware", true}, {"replicas"}, {"GPUs"}, {"USD/h"}, {"limited by", true}}};
  for (const global::PoolPlan& pool : plan.pools)
    grid.add({pool.deployment + "/" + pool.pool, pool.hardware, std::to_string(pool.replicas),
              std::to_string(pool.gpus), money(pool.cost_per_hour), limit_text(pool)});
  return grid.text();
}

std::string deployments_text(const AllocationSetup& setup, const global::GlobalPlan& plan) {
  Grid grid{{{"deployment", true}, {"class"}, {"weight"}, {"requests/s"}, {"served/s"}, {"share"}, {"USD/h"}}};
  for (std::size_t d = 0; d < plan.deployments.size(); ++d) {
    const global::DeploymentPlan& kept = plan.deployments[d];
    const global::Deployment& asked = setup.deployments[d].deployment;
    grid.add({kept.name, std::to_string(asked.priority), format_quantity(asked.weight),
              format_quantity(asked.demand_rps), format_quantity(kept.kept_rps), share(kept.kept_rps, asked.demand_rps),
              money(kept.cost_per_hour)});
  }
  return grid.text();
}

std::string classes_text(const AllocationSetup& setup, const global::GlobalPlan& plan) {
  const bool fair = setup.options.planner.objective == global::Objective::kMaxMin;
  std::vector<Grid::Column> columns = {{"class"}};
  if (fair) columns.insert(columns.end(), {{"lowest share/weight"}, {"", true}});
  columns.insert(columns.end(), {{fair ? "requests/s served" : "weight · requests/s served"}, {"", true}});
  Grid grid{std::move(columns)};
  for (const global::ClassPlan& each : plan.classes) {
    std::vector<std::string> cells = {std::to_string(each.priority)};
    if (fair) {
      cells.push_back(std::isinf(each.level) ? "maximum" : format_share(each.level));
      cells.push_back(gap_text(each.level, each.level_bound));
    }
    cells.push_back(format_quantity(each.value));
    cells.push_back(gap_text(each.value, each.value_bound));
    grid.add(std::move(cells));
  }
  return grid.text();
}

std::string resources_text(const global::GlobalPlan& plan) {
  if (plan.resources.empty()) return {};
  Grid grid{{{"resource", true}, {"used"}, {"available"}, {"marginal value of one more", true}}};
  for (const global::ResourcePlan& each : plan.resources) {
    const bool whole = each.name != "money_budget";
    std::string brings = "nothing";
    if (each.value_per_unit > 0.0)
      brings = fmt::format("{} {} to class {}", format_quantity(each.value_per_unit), "requests/s", each.gains_class);
    if (each.saving_per_unit > 0.0)
      brings = (each.value_per_unit > 0.0 ? brings + ", or " : std::string{}) +
               fmt::format("{} USD per hour saved", money(each.saving_per_unit));
    grid.add({resource_text(each.name), whole ? fmt::format("{:.0f}", each.used) : money(each.used),
              whole ? fmt::format("{:.0f}", each.available) : money(each.available), brings});
  }
  return "\n" + grid.text();
}

std::string capacities_text(const AllocationSetup& setup) {
  std::string text;
  for (const PoolFigures& pool : setup.capacities)
    text += fmt::format("One replica of {}/{} serves {} requests/s ({}).\n", report::printable(pool.deployment),
                        report::printable(pool.pool), format_quantity(pool.requests_per_s),
                        pool.tested ? "load-tested in simulation" : "as given");
  return text;
}

std::uint64_t gpus_of(const global::GlobalPlan& plan) {
  std::uint64_t gpus = 0;
  for (const global::PoolPlan& pool : plan.pools) gpus += pool.gpus;
  return gpus;
}

double sum(const global::OverTime& run, double global::DeploymentTotal::*figure) {
  double all = 0.0;
  for (const global::DeploymentTotal& total : run.deployments) all += total.*figure;
  return all;
}

}  // namespace

std::string plan_text(const AllocationSetup& setup, const global::GlobalPlan& plan) {
  std::string text = pools_text(plan) + "\n" + deployments_text(setup, plan) + "\n" + classes_text(setup, plan) +
                     resources_text(plan) + "\n";
  text += fmt::format("Total: {} GPUs, {} USD per hour, {}.\n", gpus_of(plan), money(plan.cost_per_hour),
                      plan.cost_per_hour > plan.cost_bound * (1.0 + 1e-12)
                          ? fmt::format("at most {} USD more than the cheapest plan of the same value",
                                        money(plan.cost_per_hour - plan.cost_bound))
                          : "and no plan of the same value is cheaper");
  if (plan.kept_previous) text += "The current plan stays: the gain of another plan does not justify the change.\n";
  return text + capacities_text(setup);
}

std::string runs_text(const AllocationSetup& setup, const AllocationRuns& runs) {
  std::vector<Grid::Column> columns = {{"budget", true}, {"GPU-hours"}, {"GPU cost (USD)"}, {"served"}};
  for (const global::DeploymentTotal& total : runs.shared.deployments)
    columns.push_back({report::printable(total.name)});
  Grid grid{std::move(columns)};
  const auto add = [&](const std::string& name, const global::OverTime& run) {
    std::vector<std::string> cells = {
        name, fmt::format("{:.1f}", run.gpu_hours), money(run.cost),
        share(sum(run, &global::DeploymentTotal::kept), sum(run, &global::DeploymentTotal::requests))};
    for (const global::DeploymentTotal& total : run.deployments) cells.push_back(share(total.kept, total.requests));
    grid.add(std::move(cells));
  };
  add("shared, replanned", runs.shared);
  add("split by mean demand, planned separately", runs.apart);
  add("shared, one plan for the peak", runs.at_peak);
  double gap = 0.0;
  for (const global::IntervalPlan& interval : runs.shared.intervals) gap = std::max(gap, interval.plan.gap);
  const auto proven = std::count_if(runs.shared.intervals.begin(), runs.shared.intervals.end(),
                                    [](const global::IntervalPlan& interval) { return interval.plan.gap == 0.0; });
  std::string text =
      fmt::format("{} plans, one every {}, over {}; {} requests. {} of the plans are proven optimal{}.\n\n",
                  runs.shared.intervals.size(), report::format_seconds(core::to_seconds(setup.options.every)),
                  report::format_seconds(static_cast<double>(runs.shared.minutes) * 60.0),
                  report::format_count(
                      static_cast<std::uint64_t>(std::llround(sum(runs.shared, &global::DeploymentTotal::requests)))),
                  proven, gap > 0.0 ? ", the worst gap is " + format_share(gap) : std::string{});
  text += grid.text() + "\n";
  text +=
      "A plan uses the busiest minute of the previous interval; new replicas serve after their start-up. The plan for "
      "the\n"
      "peak knows the peak in advance. Served is the share that the ready replicas have capacity for, minute by "
      "minute.\n";
  return text + capacities_text(setup);
}

}  // namespace penstock::allocation
