// Penstock's own policy: simulate before scaling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "forecast/traffic.h"
#include "planner/penstock/burn_rate.h"
#include "planner/penstock/guardrails.h"
#include "planner/penstock/headroom.h"
#include "planner/penstock/plan_loop.h"
#include "planner/penstock/replica_speed.h"
#include "planner/penstock/schedule_floor.h"
#include "planner/penstock/traffic_outlook.h"
#include "planner/penstock/trials.h"
#include "planner/policy.h"
#include "signals/slo.h"

namespace penstock::planner {

enum class OptimizationTarget : std::uint8_t { kThroughput, kLatency, kSla };

struct PlannerOptions {
  OptimizationTarget target = OptimizationTarget::kSla;
  RolloutPhase phase = RolloutPhase::kCost;
  PlanLoopOptions throughput_loop;  // the floor. An interval of 0: this loop is off
  // What comes above it. In trouble a search begins at every tick that has none under way.
  PlanLoopOptions load_loop{.interval = std::chrono::seconds{20},
                            .memory = {.length_least = std::chrono::minutes{2},
                                       .slice_least = std::chrono::seconds{30},
                                       .slice_most = std::chrono::seconds{60}},
                            .requests_min = 30};
  core::Duration interval = std::chrono::seconds{5};  // of a tick
  double headroom_goal = 0.9;                         // of the best, that is kept at the headroom's rate
  double utilisation = 0.75;                          // of the token formula
  core::Duration cost_after = std::chrono::minutes{30};
  HeadroomOptions headroom;  // its goal, lag and hold are set from the other options
  BurnRateOptions burn_rate;
  TrafficOutlookOptions outlook;
  std::vector<forecast::TrafficSample> history;  // of traffic before the start, for the outlook
  ScheduleOptions schedule;
  GuardrailOptions guardrails;
  std::vector<PoolProfile> profiles;  // by pool; empty: nothing is corrected, and there is no formula
};

// Ticks of 5 s. Observations are checked; the throughput loop tries fleets on the traffic of some minutes, at the rate that
// is forecast, and sets a floor; the load loop does the same with the last minute or so, at a rate that leaves headroom,
// and reacts above it. Both take the cheapest fleet that keeps the goal of every target. Where a loop has had no time to
// finish, the token formula serves, and the reason says so. Where the SLO burns although trials say that the fleet is
// large enough, it grows step by step. Floors of the calendar and warm replicas come on top, guardrails last.
//
// Without trials, as without an SLO, the load rule serves (targets throughput and latency).
[[nodiscard]] std::unique_ptr<Policy> make_penstock_planner(std::shared_ptr<FleetTrials> trials,
                                                            const signals::SloPolicy& slo,
                                                            const PlannerOptions& options = {});

}  // namespace penstock::planner
