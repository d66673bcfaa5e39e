// Penstock's own policy: simulate before scaling.
#pragma once

#include <cstddef>
#include <memory>

#include "core/time.h"
#include "planner/guardrails.h"
#include "planner/policy.h"
#include "planner/rate_outlook.h"
#include "planner/trials.h"

namespace penstock::planner {

struct PlannerOptions {
  double goal = 0.99;                                     // of the SLO attainment that a fleet of any size would keep
  core::Duration memory = std::chrono::minutes{20};       // traffic that plans are tried on
  double stress = 1.5;                                    // times the rate at which a fleet must not collapse …
  double stress_goal = 0.9;                               // … but keep this much of the best
  std::size_t requests_max = 6000;                        // the latest of it, at most
  std::size_t requests_min = 30;                          // fewer say nothing
  core::Duration plan_every = std::chrono::seconds{60};   // the floor: what the traffic of a while needs
  core::Duration react_every = std::chrono::seconds{10};  // above it, in trouble: what the last minute needs
  core::Duration react_memory = std::chrono::seconds{60};
  core::Duration check_memory = std::chrono::minutes{3};  // a fleet that stood so long is compared with its trial
  double bias_step = 0.1;  // more replicas than a trial asks for, each time it was too kind
  double bias_max = 1.0;
  RateOutlookOptions rate;
  GuardrailOptions guardrails;
};

// Two loops on one interval of 5 s. The plan tries fleets on the requests of the last minutes and takes the cheapest that
// keeps the goal, and does not collapse at a higher rate. The reaction does the first with what came in the last minute,
// those included that still wait, as soon as a queue grows or latencies leave the SLO. The larger of the two is what the
// guardrails get. Without trials, or requests to try them on, it holds.
//
// Trials can be wrong: a replica may be slow, a profile too kind. Where a fleet has stood for a while and missed more than
// its trial on the same requests, plans are raised a step, and lowered again once they come true.
[[nodiscard]] std::unique_ptr<Policy> make_penstock_planner(std::shared_ptr<FleetTrials> trials,
                                                            const signals::SloTarget& slo,
                                                            const PlannerOptions& options = {});

}  // namespace penstock::planner
