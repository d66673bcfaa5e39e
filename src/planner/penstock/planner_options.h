// Settings of Penstock's policy.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/time.h"
#include "forecast/traffic.h"
#include "planner/penstock/backtest.h"
#include "planner/penstock/burn_rate.h"
#include "planner/penstock/guardrails.h"
#include "planner/penstock/plan_loop.h"
#include "planner/penstock/replica_speed.h"
#include "planner/penstock/schedule_floor.h"
#include "planner/penstock/traffic_outlook.h"
#include "planner/policy.h"

namespace penstock::planner {

enum class OptimizationTarget : std::uint8_t { kThroughput, kLatency, kSla };

struct PlannerOptions {
  OptimizationTarget target = OptimizationTarget::kSla;
  RolloutPhase phase = RolloutPhase::kCost;
  PlanLoopOptions throughput_loop;  // By the forecast. An interval of 0 disables a loop.
  // For likely loads. While the SLO burns, a search starts at every tick without one in progress.
  PlanLoopOptions load_loop{.interval = std::chrono::seconds{20}, .look_back = std::chrono::minutes{2}};
  MemoryOptions memory;                               // The traffic of both loops.
  core::Duration interval = std::chrono::seconds{5};  // Length of a tick.
  // Instead of the one that the backtest chooses. An allowance of 1 plans for the traffic as it is.
  std::optional<Controller> controller;
  double utilisation = 0.75;  // Target utilisation of the token formula.
  // Time without requests after which a pool with min_replicas 0 has no replica.
  core::Duration scale_to_zero_after = std::chrono::minutes{10};
  BurnRateOptions burn_rate;
  TrafficOutlookOptions outlook;
  std::vector<forecast::TrafficSample> history;  // Traffic before the start, for the forecast.
  ScheduleOptions schedule;
  GuardrailOptions guardrails;
  // The engines are not ours: a default profile is a guess until it is corrected, and calls for larger futures.
  bool guesses_engines = false;
  std::vector<PoolProfile> profiles;  // Indexed by pool; empty means no correction and no formula.
};

// Both loops remember the traffic of this time at most. A memory that is shorter than usual is cut into shorter slices.
void set_memory(PlannerOptions& options, core::Duration length);

}  // namespace penstock::planner
