// What a run keeps of its policy's decisions.
#include "planner/decision_figures.h"
#include "planner/decision_note.h"
#include "simulation/world.h"

namespace penstock::simulation {

// What lasts is noted once: a day of ticks stays a few hundred notes.
void World::note_hold(std::uint32_t index, const planner::PoolDecision& pool, const planner::Decision& decision) {
  Said said{pool.reason, pool.limited_by, decision.cause, pool.next_phase_target};
  if (last_said_[index] == said) return;
  last_said_[index] = std::move(said);
  const std::uint32_t target = fleet_.pools()[index].target;
  holds_.push_back(note_of(index, target, target, decision));
}

// Ticks are closer to each other than a chart has points.
void World::note_outlook(const planner::Decision& decision) {
  if (!outlooks_.empty() && now_ - outlooks_.back().at < point_width_) return;
  signals::OutlookPoint point;
  point.at = now_;
  if (decision.outlook) point.expected = planner::note_of(*decision.outlook);
  const planner::Estimate estimate = planner::estimate_of(decision);
  point.ttft_ms = estimate.ttft_ms;
  point.itl_ms = estimate.itl_ms;
  bool capacity_known = false;
  for (std::size_t pool = 0; pool < decision.pools.size(); ++pool) {
    point.capacity_by_pool.push_back(planner::capacity_per_replica(decision, pool));
    capacity_known |= point.capacity_by_pool.back().has_value();
  }
  if (point.expected.known() || point.ttft_ms || point.itl_ms || capacity_known) outlooks_.push_back(std::move(point));
}

signals::DecisionNote World::note_of(std::uint32_t index, std::uint32_t current, std::uint32_t target,
                                     const planner::Decision& decision) const {
  return planner::note_of(decision, {now_, options_.pools[index].name, index, current, target});
}

}  // namespace penstock::simulation
