// The checked input of plan(), with resolved names and in an order of its own, so that the order of the input does not
// matter.
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
  Deployment deployment;                          // Offers are in the order of their first pool's name.
  std::size_t place = 0;                          // Index in the input.
  std::vector<std::size_t> offer_at;              // Index of each offer of the input in this list.
  std::vector<std::vector<std::size_t>> kind_of;  // By offer and pool.
  std::vector<Mix> mixes;
  double kept_max_rps = 0.0;  // Maximum over all mixes.
};

// A limit that can constrain a plan.
struct Resource {
  std::string name;  // "gpu_budget", "money_budget", or the kind of hardware.
  PoolLimit limit = PoolLimit::kNone;
  std::optional<std::size_t> kind;  // Set for kHardware.
  double available = 0.0;           // For money: in units.

  [[nodiscard]] double used_by(const Mix& mix) const;
};

struct Inputs {
  double money_unit = 1e-6;                    // Coarser for fleets that cost more than a million per hour.
  std::vector<std::string> kinds;              // Sorted by name.
  std::vector<double> prices;                  // By kind: units of money per GPU-hour.
  std::vector<PlannedDeployment> deployments;  // By priority, highest first, then by name.
  std::vector<Resource> resources;             // Kinds by name, then budgets.

  [[nodiscard]] MixInput mix_input(const PlannedDeployment& planned) const {
    return {planned.deployment, planned.kind_of, prices};
  }
};

[[nodiscard]] core::Result<Inputs> inputs_of(const std::vector<Deployment>& deployments,
                                             const std::vector<Hardware>& hardware, const Budget& budget);

}  // namespace penstock::planner::global
