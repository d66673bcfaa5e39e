// Divides one budget among several deployments: the replicas of each pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "planner/global/offers.h"

namespace penstock::planner::global {

// A line of the price list. GPUs of one kind at different prices (reserved, spot) are two lines.
struct Hardware {
  std::string name;
  double price_per_gpu_hour = 0.0;    // At least 0; rounded up to the millionth.
  std::optional<std::uint64_t> gpus;  // Empty: unlimited.
};

struct Budget {
  std::optional<std::uint64_t> gpus;  // All kinds together.
  std::optional<double> money_per_hour;
};

// One model at one SLO. Its offers add up: two offers on different hardware are one heterogeneous fleet.
struct Deployment {
  std::string name;     // Unique.
  int priority = 0;     // Priority class; higher classes are served first.
  double weight = 1.0;  // Weight within the class, > 0.
  double demand_rps = 0.0;
  std::vector<Offer> offers;
};

// The objective of a class if not all demand can be served.
enum class Objective : std::uint8_t {
  kMostTraffic,  // Maximise Σ weight · requests/s within the SLO.
  kMaxMin,       // Maximise the lowest share/weight of the deployments that are limited, then Σ requests/s.
};

struct PoolReplicas {
  std::string deployment, pool;
  std::uint32_t replicas = 0;
};

struct Options {
  Objective objective = Objective::kMostTraffic;
  std::vector<PoolReplicas> previous;  // The current plan; empty if there is none.
  // The current plan is kept if it still fits, unless the new one gains more than this share of a class's demand, or
  // saves more than that share of the cost while no class loses more than the first share.
  double gain_min = 0.01;
  double saving_min = 0.02;
  // Limits of the search. At a limit the plan is the best one found, and its gap is the maximum distance from the
  // optimum.
  std::size_t states_max = 4096;
  std::size_t work_max = 180'000;  // Maximum number of states in all, about 0.2 µs each.
};

// The reason why a pool does not have one step more. Names are stable.
enum class PoolLimit : std::uint8_t {
  kNone,  // The demand of its deployment is served.
  kMaxReplicas,
  kHardware,  // No GPUs of its kind are left.
  kGpuBudget,
  kMoneyBudget,
  kNoGain,       // One step more fits but would not serve more.
  kKept,         // One step more would fit and gain, but less than a change of the previous plan is worth.
  kSearchEnded,  // One step more would fit and gain; the search ended at its limits before it found this.
};
[[nodiscard]] const char* to_string(PoolLimit limit);  // Returns "", "max_replicas", "hardware_gpus", "gpu_budget", ….

struct PoolPlan {
  std::string deployment, pool, hardware;
  std::uint32_t replicas = 0;
  std::uint64_t gpus = 0;
  double cost_per_hour = 0.0;
  PoolLimit limited_by = PoolLimit::kNone;
};

struct DeploymentPlan {
  std::string name;
  double kept_rps = 0.0;  // Requests/s of the demand that are served within the SLO.
  double cost_per_hour = 0.0;
};

// The proven bound of one class: no plan that serves the higher classes as well as this one exceeds it.
struct ClassPlan {
  int priority = 0;
  double value = 0.0;  // Σ weight · served requests/s; for kMaxMin Σ served requests/s.
  double value_bound = 0.0;
  double level = 0.0;        // For kMaxMin the lowest share/weight, otherwise 0. Infinite if no deployment is limited.
  double level_bound = 0.0;  // No plan has a higher level.
};

// A resource that can limit the plan: "gpu_budget", "money_budget", or a kind of hardware.
struct ResourcePlan {
  std::string name;
  double used = 0.0;
  double available = 0.0;
  // Marginal value of one unit more, on average over whole steps (the dual price), for the highest class that is short
  // of it; 0 if none is. `gains_class` is that class.
  double value_per_unit = 0.0;
  int gains_class = 0;
  double saving_per_unit = 0.0;  // Money per hour that one unit more would save at the same value.
};

struct GlobalPlan {
  std::vector<PoolPlan> pools;              // In the order of the input.
  std::vector<DeploymentPlan> deployments;  // In the order of the input.
  std::vector<ClassPlan> classes;           // Highest class first.
  std::vector<ResourcePlan> resources;      // Resources with a limit: kinds by name, then budgets.
  double cost_per_hour = 0.0;
  double cost_bound = 0.0;  // No plan of the same value is cheaper.
  double gap = 0.0;  // 0 if proven optimal. Maximum of (bound - value) / bound over classes and (cost - bound) / cost.
  bool kept_previous = false;  // The previous plan was kept; the bounds are those of the rejected plan.
};

// Returns the plan that has every offer at its first step or above; among those the best for the highest class, then
// for the next one, …; then the cheapest; then the one that changes the fewest deployments of the previous plan. The
// order of the input does not matter.
//
// Errors: first steps of all offers that do not fit together, with the resource that is exceeded; names that are
// missing, duplicate or unknown; figures that are negative, infinite or NaN; decreasing steps; more combinations of a
// deployment's offers than kMixesMax.
[[nodiscard]] core::Result<GlobalPlan> plan(const std::vector<Deployment>& deployments,
                                            const std::vector<Hardware>& hardware, const Budget& budget,
                                            const Options& options = {});

}  // namespace penstock::planner::global
