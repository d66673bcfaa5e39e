// Small changes of schedules that a simulation tries many at a time, far enough from each other that the misses around
// each show its own effect.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <vector>

#include "simulation/schedule.h"

namespace penstock::simulation {

// The windows [begin, end) of a pool change from one size to another.
struct Move {
  std::size_t pool = 0, begin = 0, end = 0;
  std::uint32_t from = 0, to = 0;
  auto operator<=>(const Move&) const = default;
};

// The schedules of all pools with what is known of them.
struct SchedulePlan {
  std::vector<Schedule> schedules;  // By pool.
  std::vector<double> misses;       // By window.
  double total = 0.0;               // Misses of the run.
};

// What does not change between moves.
struct MoveContext {
  std::vector<MissTable> tables;  // By pool: what is expected of a size.
  std::vector<ScheduleLimits> limits;
  std::vector<double> prices;  // Of a replica of each pool.
  double price_s = 0.0;        // Replica-seconds that one miss is worth.
  std::size_t reach = 3;       // The misses of so many windows after a move may change.
};

// The change of cost in replica-seconds, weighted with the price of the pool.
[[nodiscard]] double cost_of(const Move& move, const std::vector<Schedule>& schedules, const MoveContext& context);

// Selects moves that seem worth trying and are not in `tried`, the most promising first, and adds them to `tried`. The
// windows that they affect do not overlap.
[[nodiscard]] std::vector<Move> propose(const SchedulePlan& plan, const MoveContext& context, std::set<Move>& tried);

void apply(const Move& move, std::vector<Schedule>& schedules);

// Adopts those moves that make the plan cheapest with at most `allowed` misses, or with the fewest if no selection
// comes so low. `seen` has the misses by window of a run with all of the moves.
void adopt(std::span<const Move> moves, std::span<const double> seen, double allowed, const MoveContext& context,
           SchedulePlan& plan);

}  // namespace penstock::simulation
