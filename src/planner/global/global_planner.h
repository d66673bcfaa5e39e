// Several deployments, one budget: how many replicas each pool gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "planner/global/offers.h"

namespace penstock::planner::global {

// A line of the price list. GPUs of one kind that cost different amounts (reserved, spot) are two lines.
struct Hardware {
  std::string name;
  double price_per_gpu_hour = 0.0;    // ≥ 0; rounded up to the millionth
  std::optional<std::uint64_t> gpus;  // none: as many as one likes
};

struct Budget {
  std::optional<std::uint64_t> gpus;  // of all kinds together
  std::optional<double> money_per_hour;
};

// One model at one SLO. Its offers add up: two on different hardware are one heterogeneous fleet.
struct Deployment {
  std::string name;     // unique
  int priority = 0;     // class; a higher one is served first
  double weight = 1.0;  // within the class, > 0
  double demand_rps = 0.0;
  std::vector<Offer> offers;
};

// What a class maximises when not everything can be carried.
enum class Objective : std::uint8_t {
  kMostTraffic,  // Σ weight · requests/s within the SLO
  kMaxMin,  // first the least share/weight of the deployments that do not have all they can get, then Σ requests/s
};

struct PoolReplicas {
  std::string deployment, pool;
  std::uint32_t replicas = 0;
};

struct Options {
  Objective objective = Objective::kMostTraffic;
  std::vector<PoolReplicas> previous;  // the plan in force; empty: none
  // The plan in force stays, where it still fits, unless the new one gains more than this share of a class's demand, or
  // saves more than that share of the cost while no class loses more than the first.
  double gain_min = 0.01;
  double saving_min = 0.02;
  // Limits of the search. At a limit the plan is the best one found, and its gap says how far from the best it may be.
  std::size_t states_max = 4096;
  std::size_t work_max = 180'000;  // states made in all, some 0.2 µs each
};

// What kept a pool from having one step more. Names are stable.
enum class PoolLimit : std::uint8_t {
  kNone,  // its deployment's demand is carried
  kMaxReplicas,
  kHardware,  // GPUs of its kind are out
  kGpuBudget,
  kMoneyBudget,
  kNoGain,       // a step more fits and would carry nothing more
  kKept,         // a step more would fit and gain, by less than what is worth a change of the previous plan
  kSearchEnded,  // a step more would fit and gain; the search ended at its limits before it saw that
};
[[nodiscard]] const char* to_string(PoolLimit limit);  // "", "max_replicas", "hardware_gpus", "gpu_budget", …

struct PoolPlan {
  std::string deployment, pool, hardware;
  std::uint32_t replicas = 0;
  std::uint64_t gpus = 0;
  double cost_per_hour = 0.0;
  PoolLimit limited_by = PoolLimit::kNone;
};

struct DeploymentPlan {
  std::string name;
  double kept_rps = 0.0;  // of the demand, within the SLO
  double cost_per_hour = 0.0;
};

// What was proven for one class: no plan that serves the higher classes as well as this one has more than the bound.
struct ClassPlan {
  int priority = 0;
  double value = 0.0;  // Σ weight · kept requests/s; kMaxMin: Σ kept requests/s
  double value_bound = 0.0;
  double level = 0.0;        // kMaxMin: the least share/weight; 0 otherwise. Infinite: all have all they can get
  double level_bound = 0.0;  // no plan has a higher one
};

// A resource that the plan may run out of: "gpu_budget", "money_budget", or the name of a kind of hardware.
struct ResourcePlan {
  std::string name;
  double used = 0.0;
  double available = 0.0;
  // What one more would bring at the margin, on average over whole steps (the dual price): value of the highest class
  // that goes short of it; 0 when none does. `gains_class` says which.
  double value_per_unit = 0.0;
  int gains_class = 0;
  double saving_per_unit = 0.0;  // money per hour that one more would save, at the same value
};

struct GlobalPlan {
  std::vector<PoolPlan> pools;              // in the order of the input
  std::vector<DeploymentPlan> deployments;  // likewise
  std::vector<ClassPlan> classes;           // highest first
  std::vector<ResourcePlan> resources;      // those with a limit: kinds by name, then budgets
  double cost_per_hour = 0.0;
  double cost_bound = 0.0;     // no plan of the same value is cheaper
  double gap = 0.0;            // 0: proven optimal. Largest of (bound - value) / bound by class, (cost - bound) / cost
  bool kept_previous = false;  // then the bounds are those of the plan that was not worth the change
};

// The plan that, in this order: has every offer at its first step at least; is best for the highest class, then for the
// next, …; costs least; changes the fewest deployments against the previous plan. Equal inputs in any order give equal
// plans.
//
// Errors: a first step of all offers together that does not fit, named by what it does not fit in; names that are
// missing, double or unknown; figures that are negative, infinite or NaN; steps that fall; more combinations of a
// deployment's offers than kMixesMax.
[[nodiscard]] core::Result<GlobalPlan> plan(const std::vector<Deployment>& deployments,
                                            const std::vector<Hardware>& hardware, const Budget& budget,
                                            const Options& options = {});

}  // namespace penstock::planner::global
