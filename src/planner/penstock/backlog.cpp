#include "planner/penstock/backlog.h"

#include <algorithm>
#include <cmath>

#include "planner/penstock/fleet_activity.h"

namespace penstock::planner {
namespace {

constexpr double kClearLeast_s = 60.0;
// Limit in multiples of the fleet: completions of a minute are no precise measure of what a replica serves.
constexpr double kGrowthMost = 2.0;

}  // namespace

std::uint32_t fleet_for_backlog(const signals::PoolObservation& pool, std::uint32_t planned, core::Duration start_up) {
  const signals::TrafficWindow& minute = pool.last_minute;
  const auto waiting = static_cast<double>(waiting_requests(pool));
  const double window_s = core::to_seconds(minute.length);
  if (!(waiting > 0.0) || minute.arrivals == 0 || !(window_s > 0.0) || planned == 0) return planned;
  const double arrive = static_cast<double>(minute.arrivals) / window_s;
  // Requests per second of a replica. What completes lags behind where requests are long.
  const double completed = static_cast<double>(minute.completed) / window_s / std::max(1U, pool.ready);
  const double serves = std::max(completed, arrive / planned);
  const double start_s = core::to_seconds(start_up), clear_s = std::max(kClearLeast_s, start_s);
  const std::uint32_t fleet = std::max(planned, pool.ready);
  const std::uint32_t starting = std::min(pool.starting, fleet - pool.ready), ordered = fleet - pool.ready - starting;
  // Those that start already are halfway on average.
  const double served =
      serves * (pool.ready * (start_s + clear_s) + starting * (0.5 * start_s + clear_s) + ordered * clear_s);
  const double more = (waiting + arrive * (start_s + clear_s) - served) / (serves * clear_s);
  if (more < 0.5) return planned;
  return static_cast<std::uint32_t>(std::min(fleet + std::round(more), kGrowthMost * fleet));
}

void clear_backlog(const signals::PoolObservation& pool, core::Duration start_up, PoolDecision& plan) {
  const std::uint32_t fleet = fleet_for_backlog(pool, plan.target, start_up);
  if (fleet <= plan.target) return;
  plan.target = fleet;
  plan.evidence.push_back({"fleet_for_backlog", static_cast<double>(fleet), "replicas"});
}

}  // namespace penstock::planner
