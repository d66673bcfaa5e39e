#include "planner/penstock/plan_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/penstock/traffic_step.h"

namespace penstock::planner {
namespace {

constexpr double kCalmDeviations = 2.0;  // Standard deviations of a Poisson count.

}  // namespace

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
    if (!urgent && !is_due(observation)) return;
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
    steady_ = plan_ && plan_->fleet == found->fleet && from_ == search_->from;
    from_ = std::move(search_->from);
    plan_ = LoopPlan{*std::move(found), observation.now, memory_.rate(), std::move(search_->goal)};
    search_.reset();
  }
}

bool PlanLoop::is_due(const signals::Observation& observation) const {
  if (observation.now < next_) return false;
  const core::Duration since = observation.now - next_ + options_.interval;
  if (!steady_ || since >= options_.calm_interval || from_ != targets_of(observation)) return true;
  const auto& recent = observation.recent;
  const auto first = std::partition_point(recent.begin(), recent.end(), [&](const signals::RecentRequest& request) {
    return request.arrival <= plan_->made;
  });
  const double expected = plan_->rate * core::to_seconds(observation.now - plan_->made);
  return static_cast<double>(recent.end() - first) > expected + kCalmDeviations * std::sqrt(expected);
}

std::optional<core::Instant> PlanLoop::waiting_since() const {
  if (!search_) return std::nullopt;
  return search_->began;
}

}  // namespace penstock::planner
