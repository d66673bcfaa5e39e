// A sequence of plans for a changing demand and the traffic that they serve, compared with the same budget in fixed
// shares and with one plan for the whole time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "planner/global/global_planner.h"

namespace penstock::planner::global {

struct ChangingDeployment {
  Deployment deployment;                 // Its demand is ignored.
  std::vector<double> rps_by_minute;     // Arrivals; the same number of minutes for each deployment.
  std::vector<core::Duration> start_up;  // By pool, in the order of the offers; rounded up to whole minutes.
};

struct OverTimeOptions {
  std::size_t minutes_each = 5;  // Interval between plans, ≥ 1.
  Options plan;                  // `previous` is the plan before the first one; later it is set to the plan before.
};

struct IntervalPlan {
  std::size_t first_minute = 0;
  std::vector<double> planned_rps;  // By deployment: the peak minute of the interval before.
  GlobalPlan plan;
};

struct DeploymentTotal {
  std::string name;
  double requests = 0.0;
  double kept = 0.0;  // Requests served within the SLO.
};

struct OverTime {
  std::size_t minutes = 0;  // Minutes counted.
  std::vector<DeploymentTotal> deployments;
  double gpu_hours = 0.0;
  double cost = 0.0;
  std::vector<IntervalPlan> intervals;
};

// Makes a plan for each interval from the busiest minute of the interval before, without knowledge of the future. The
// first interval is only observed; counting begins with the second, whose plan takes effect at once. Later, an added
// replica is paid for from its order and serves after its start-up time; a removed one stops at once.
//
// The requests of a minute are served as far as the ready replicas carry them; none wait for the next minute. Calls
// plan() once per interval. Errors: those of plan(), series of different lengths or shorter than two intervals,
// start-up times that do not match the pools.
[[nodiscard]] core::Result<OverTime> plan_over_time(const std::vector<ChangingDeployment>& deployments,
                                                    const std::vector<Hardware>& hardware, const Budget& budget,
                                                    const OverTimeOptions& options);

// The same for the same minutes, with a fixed share of every limit for each deployment: its floor, and of the rest a
// part in the ratio of the GPUs that its mean demand uses at best. GPUs are split in whole numbers. `intervals` stays
// empty.
[[nodiscard]] core::Result<OverTime> plan_apart_over_time(const std::vector<ChangingDeployment>& deployments,
                                                          const std::vector<Hardware>& hardware, const Budget& budget,
                                                          const OverTimeOptions& options);

// One unchanged plan for the busiest of the counted minutes, known in advance.
[[nodiscard]] core::Result<OverTime> plan_once_at_peak(const std::vector<ChangingDeployment>& deployments,
                                                       const std::vector<Hardware>& hardware, const Budget& budget,
                                                       const OverTimeOptions& options);

}  // namespace penstock::planner::global
