#include "planner/penstock/plan_loop.h"

#include <algorithm>
#include <utility>

#include "planner/penstock/traffic_step.h"

namespace penstock::planner {

Fleet targets_of(const signals::Observation& observation) {
  Fleet fleet;
  for (const signals::PoolObservation& pool : observation.pools)
    fleet.push_back(std::max(1U, pool.target_replicas + pool.asleep_target));
  return fleet;
}

void PlanLoop::tick(const signals::Observation& observation, const Fleet& current,
                    const std::function<PlanGoal(double rate)>& goal_at, bool urgent,
                    std::optional<core::Instant> step) {
  if (step) {
    memory_->restart(*step);
    search_.reset();
    urgent = true;
  }
  if (!search_) {
    next_ = std::min(next_, observation.now + options_.interval);  // Also correct after a clock jump backwards.
    if (observation.now < next_ && !urgent) return;
    memory_->advance();
    Search search{observation.now, options_.look_back, options_.enough_requests, current, {}};
    if (urgent) {
      search.look_back = options_.urgent_memory;
      search.enough_requests = 0;
    }
    memory_->look_back(search.look_back, search.enough_requests);
    if (memory_->requests() < (step ? std::min(kStepRequests, options_.requests_min) : options_.requests_min)) {
      // None of the traffic of the last plan is left, so the little recent traffic is used.
      const bool outlived = plan_ && plan_->made <= observation.now - memory_->length();
      if (!outlived || observation.now < next_) return;
      search.look_back = memory_->length();
      memory_->look_back(search.look_back, 0);
    }
    search.goal = goal_at(memory_->rate());
    search_ = std::move(search);
    next_ = observation.now + options_.interval;
  }
  memory_->look_back(search_->look_back, search_->enough_requests);
  if (auto found = search_plan(*memory_, observation.pools, search_->from, search_->goal)) {
    plan_ = LoopPlan{*std::move(found), observation.now, memory_->used(), memory_->rate(), std::move(search_->goal)};
    search_.reset();
  }
}

std::optional<core::Instant> PlanLoop::waiting_since() const {
  if (!search_) return std::nullopt;
  return search_->began;
}

}  // namespace penstock::planner
