// One plan after the other over a demand that changes, and what they keep of it; beside it, what the same budget keeps
// when it is not shared, and when it is never planned again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "planner/global/global_planner.h"

namespace penstock::planner::global {

struct ChangingDeployment {
  Deployment deployment;                 // its demand is not looked at
  std::vector<double> rps_by_minute;     // what arrives; as many minutes for each deployment
  std::vector<core::Duration> start_up;  // by pool, in the order of the offers; counted in whole minutes, rounded up
};

struct OverTimeOptions {
  std::size_t minutes_each = 5;  // from one plan to the next, ≥ 1
  Options plan;                  // `previous`: in force before the first plan; then each plan's is the one before
};

struct IntervalPlan {
  std::size_t first_minute = 0;
  std::vector<double> planned_rps;  // by deployment: the peak minute of the interval before
  GlobalPlan plan;
};

struct DeploymentTotal {
  std::string name;
  double requests = 0.0;
  double kept = 0.0;  // of them
};

struct OverTime {
  std::size_t minutes = 0;  // counted
  std::vector<DeploymentTotal> deployments;
  double gpu_hours = 0.0;
  double cost = 0.0;
  std::vector<IntervalPlan> intervals;
};

// A plan for each interval, for the busiest minute of the interval before: nothing of the future is known. The first
// interval is only watched, so that counting begins with the second, whose plan is in place at once. Later, a replica
// more is paid for from its order and carries traffic when it has started; one less is gone at once.
//
// A minute's requests are kept as far as the ready replicas carry them; nothing waits for the next minute. Takes one
// plan() an interval. Errors: those of plan(), series that are of different lengths or shorter than two intervals,
// start-up times that do not match the pools.
[[nodiscard]] core::Result<OverTime> plan_over_time(const std::vector<ChangingDeployment>& deployments,
                                                    const std::vector<Hardware>& hardware, const Budget& budget,
                                                    const OverTimeOptions& options);

// The same over the same minutes, but each deployment alone with a fixed share of every limit: its floor, and of the
// rest as much as its mean demand takes GPUs at best. GPUs are split whole. `intervals` is left empty.
[[nodiscard]] core::Result<OverTime> plan_apart_over_time(const std::vector<ChangingDeployment>& deployments,
                                                          const std::vector<Hardware>& hardware, const Budget& budget,
                                                          const OverTimeOptions& options);

// One plan for the busiest of the minutes that count, known beforehand, that stays as it is.
[[nodiscard]] core::Result<OverTime> plan_once_at_peak(const std::vector<ChangingDeployment>& deployments,
                                                       const std::vector<Hardware>& hardware, const Budget& budget,
                                                       const OverTimeOptions& options);

}  // namespace penstock::planner::global
