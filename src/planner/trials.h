// Fleets tried out on traffic before anyone orders them. Whoever runs the planner brings the simulator along, so that the
// planner knows none.
#pragma once

#include <cstdint>
#include <span>

#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

struct TrialTraffic {
  std::span<const signals::RecentRequest> requests;  // in order of arrival; those not answered yet wait from the start
  double rate_factor = 1.0;                          // the same traffic at so many times its rate
};

struct TrialOutcome {
  std::uint64_t requests = 0;
  // Shares of the requests that kept both targets, the one for TTFT, the one for ITL.
  double slo_attainment = 1.0, ttft_attainment = 1.0, itl_attainment = 1.0;
};

// Equal traffic and fleets give equal outcomes. Not thread-safe.
class FleetTrials {
 public:
  virtual ~FleetTrials() = default;
  // What the attempts from now on serve.
  virtual void load(const TrialTraffic& traffic) = 0;
  // A fleet with so many replicas in each pool, ready from the start and with empty caches.
  [[nodiscard]] virtual TrialOutcome attempt(std::span<const std::uint32_t> replicas) = 0;
};

}  // namespace penstock::planner
