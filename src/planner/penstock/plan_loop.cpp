#include "planner/penstock/plan_loop.h"

#include <algorithm>
#include <utility>

#include "planner/penstock/traffic_step.h"

namespace penstock::planner {

Fleet targets_of(const signals::Observation& observation) {
  Fleet fleet;
  for (const signals::PoolObservation& pool : observation.pools) fleet.push_back(std::max(1U, pool.target_replicas));
  return fleet;
}

void PlanLoop::tick(const signals::Observation& observation, const std::function<PlanGoal(double rate)>& goal_at,
                    bool urgent, std::optional<core::Instant> step) {
  memory_.begin_tick(observation);
  if (step) {
    memory_.restart(*step);
    search_.reset();
    urgent = true;
  }
  if (!search_) {
    next_ = std::min(next_, observation.now + options_.interval);  // Also correct after a clock jump backwards.
    if (observation.now < next_ && !urgent) return;
    memory_.advance();
    memory_.look_back(urgent ? options_.urgent_memory : core::Duration::max());
    if (memory_.requests() < (step ? std::min(kStepRequests, options_.requests_min) : options_.requests_min)) {
      // None of the traffic of the last plan is left, so the little recent traffic is used.
      const bool outlived = plan_ && plan_->made <= observation.now - options_.memory.length;
      if (!outlived || observation.now < next_) return;
      memory_.look_back(core::Duration::max());
    }
    search_ = Search{observation.now, targets_of(observation), goal_at(memory_.rate())};
    next_ = observation.now + options_.interval;
  }
  if (auto found = search_plan(memory_, observation.pools, search_->from, search_->goal)) {
    plan_ = LoopPlan{*std::move(found), observation.now, memory_.rate(), std::move(search_->goal)};
    search_.reset();
  }
}

std::optional<core::Instant> PlanLoop::waiting_since() const {
  if (!search_) return std::nullopt;
  return search_->began;
}

}  // namespace penstock::planner
