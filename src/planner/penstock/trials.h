// Fleets tried out on traffic before anyone orders them. Whoever runs the planner brings the simulator along, so that the
// planner knows none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

struct TrialTraffic {
  std::span<const signals::RecentRequest>
      requests{};                            // in order of arrival; those not answered yet wait from the start
  double rate_factor = 1.0;                  // the same traffic at so many times its rate
  core::Instant judged_from = core::kStart;  // earlier arrivals are served, but not counted
};

// Requests, and those of them that kept their target; counts that may stand for more requests than were tried.
struct TrialCounts {
  double requests = 0.0, met = 0.0;
  [[nodiscard]] double attainment() const { return requests > 0.0 ? met / requests : 1.0; }
  void archive(core::StateArchive& state) { state.values_of(requests, met); }
};

struct TrialOutcome {
  TrialCounts all, ttft, itl;        // both targets, the one for TTFT, the one for ITL
  std::vector<TrialCounts> targets;  // by RecentRequest::target; empty: there is only the general one

  TrialOutcome& operator+=(const TrialOutcome& more);
  [[nodiscard]] TrialOutcome times(double factor) const;
  void archive(core::StateArchive& state) { state.values_of(all, ttft, itl, targets); }
};

// Equal traffic and fleets give equal outcomes. Not thread-safe.
class FleetTrials {
 public:
  virtual ~FleetTrials() = default;
  // What the attempts from now on serve.
  virtual void load(const TrialTraffic& traffic) = 0;
  // A fleet with so many replicas in each pool, ready from the start and with empty caches.
  [[nodiscard]] virtual TrialOutcome attempt(std::span<const std::uint32_t> replicas) = 0;
  // From now on steps take so many times as long as the profile of each pool says.
  virtual void correct(std::span<const double> step_time_factors) = 0;
};

}  // namespace penstock::planner
