#include "simulation/schedule.h"

#include <algorithm>
#include <limits>

namespace penstock::simulation {
namespace {

constexpr int kBisections = 40;
constexpr double kDearest_s = 1e9;  // replica-seconds for one miss: more than any run costs

}  // namespace

Schedule cheapest_schedule(const MissTable& table, const ScheduleLimits& limits, double price_s) {
  const std::size_t windows = table.misses.size();
  const std::size_t sizes = table.misses.front().size();
  const double width_s = core::to_seconds(table.window);
  const double growth_s = limits.growth_s();
  constexpr double kImpossible = std::numeric_limits<double>::infinity();

  // cost[n]: the least cost of the windows so far that ends with the fleet size of index n.
  std::vector<double> cost(sizes, kImpossible), next(sizes);
  const std::size_t initial = std::clamp(limits.initial, table.smallest, table.largest()) - table.smallest;
  cost[initial] = 0.0;
  std::vector<std::vector<std::uint32_t>> came_from(windows, std::vector<std::uint32_t>(sizes));
  for (std::size_t window = 0; window < windows; ++window) {
    std::size_t best = sizes - 1;
    for (std::size_t n = sizes; n-- > 0;) {  // a larger fleet shrinks for nothing
      if (cost[n] <= cost[best]) best = n;
      next[n] = cost[best];
      came_from[window][n] = static_cast<std::uint32_t>(best);
    }
    const bool may_grow = table.window * static_cast<std::int64_t>(window) >= limits.start_up;
    if (may_grow) {
      std::size_t from = 0;
      for (std::size_t n = 1; n < sizes; ++n) {  // a smaller one grows for the time until the replicas are needed
        if (cost[n - 1] - static_cast<double>(n - 1) * growth_s < cost[from] - static_cast<double>(from) * growth_s)
          from = n - 1;
        const double grown = cost[from] + static_cast<double>(n - from) * growth_s;
        if (grown < next[n]) {
          next[n] = grown;
          came_from[window][n] = static_cast<std::uint32_t>(from);
        }
      }
    }
    for (std::size_t n = 0; n < sizes; ++n)
      next[n] += (table.smallest + static_cast<double>(n)) * width_s + price_s * table.misses[window][n];
    cost.swap(next);
  }

  Schedule schedule{table.window, std::vector<std::uint32_t>(windows)};
  auto state = static_cast<std::uint32_t>(std::min_element(cost.begin(), cost.end()) - cost.begin());
  for (std::size_t window = windows; window-- > 0;) {
    schedule.replicas[window] = table.smallest + state;
    state = came_from[window][state];
  }
  return schedule;
}

double misses_of(const MissTable& table, const Schedule& schedule) {
  double misses = 0.0;
  for (std::size_t window = 0; window < schedule.replicas.size(); ++window)
    misses += table.misses[window][schedule.replicas[window] - table.smallest];
  return misses;
}

PricedSchedule cheapest_within(const MissTable& table, const ScheduleLimits& limits, double allowed) {
  PricedSchedule best{cheapest_schedule(table, limits, kDearest_s), kDearest_s};
  if (misses_of(table, best) > allowed) return best;
  double low = 0.0, high = kDearest_s;  // Bounds of the price, on a scale that bisects orders of magnitude.
  for (int i = 0; i < kBisections; ++i) {
    const double price = i < 12 && low == 0.0 ? high * 0.1 : 0.5 * (low + high);
    Schedule schedule = cheapest_schedule(table, limits, price);
    if (misses_of(table, schedule) <= allowed) {
      best = {std::move(schedule), price};
      high = price;
    } else {
      low = price;
    }
  }
  return best;
}

decision::Decision FollowSchedules::decide(const signals::Observation& observation) {
  decision::Decision decision;
  for (std::size_t pool = 0; pool < observation.pools.size(); ++pool) {
    const signals::PoolObservation& seen = observation.pools[pool];
    const Schedule& schedule = schedules_[pool];
    const core::Duration now = observation.now.time_since_epoch();
    const auto first = static_cast<std::size_t>(now / schedule.window);
    const auto last = static_cast<std::size_t>((now + seen.start_up + lead_ + interval()) / schedule.window);
    std::uint32_t needed = seen.min_replicas;
    for (std::size_t window = first; window <= last && window < schedule.replicas.size(); ++window)
      needed = std::max(needed, schedule.replicas[window]);
    decision::PoolDecision& made = decision.pools.emplace_back();
    made.current = seen.target_replicas;
    made.target = needed;
    made.reason = decision::Reason::kForeseen;
    made.evidence = {{"replicas_needed_until_start_up", static_cast<double>(needed), "replicas"}};
  }
  return decision;
}

}  // namespace penstock::simulation
