// What plan() was given: checked, names resolved, and in an order of its own, so that the order of the input decides
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "planner/global/global_planner.h"
#include "planner/global/mixes.h"

namespace penstock::planner::global {

struct PlannedDeployment {
  Deployment deployment;                          // offers in order of their first pool's name
  std::size_t place = 0;                          // in the input
  std::vector<std::size_t> offer_at;              // by place in the input: its offer here
  std::vector<std::vector<std::size_t>> kind_of;  // by offer and pool
  std::vector<Mix> mixes;
  double kept_max_rps = 0.0;  // by any mix
};

// A limit that a plan may run into.
struct Resource {
  std::string name;  // "gpu_budget", "money_budget", or the kind of hardware
  PoolLimit limit = PoolLimit::kNone;
  std::optional<std::size_t> kind;  // of kHardware
  double available = 0.0;           // money: in units

  [[nodiscard]] double used_by(const Mix& mix) const;
};

struct Inputs {
  double money_unit = 1e-6;                    // coarser for fleets that cost more than a million an hour
  std::vector<std::string> kinds;              // by name
  std::vector<double> prices;                  // by kind: of a GPU-hour, in units of money
  std::vector<PlannedDeployment> deployments;  // by priority, highest first, then by name
  std::vector<Resource> resources;             // kinds by name, then budgets

  [[nodiscard]] MixInput mix_input(const PlannedDeployment& planned) const {
    return {planned.deployment, planned.kind_of, prices};
  }
};

[[nodiscard]] core::Result<Inputs> inputs_of(const std::vector<Deployment>& deployments,
                                             const std::vector<Hardware>& hardware, const Budget& budget);

}  // namespace penstock::planner::global
