#include "planner/penstock/schedule_floor.h"

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "planner/bounds.h"

namespace penstock::planner {
namespace {

using forecast::CronSchedule;

// Returns true if a target that equals the current one was planned and not only kept.
bool is_plan(Reason reason) {
  switch (reason) {
    case Reason::kCheapestThatKeepsSlo:
    case Reason::kSloAtRisk:
    case Reason::kSloBurns:
    case Reason::kFormula:
    case Reason::kIdle:
    case Reason::kScaledToZero:
    case Reason::kFirstReplica:
    case Reason::kForeseen: return true;
    default: return false;
  }
}

}  // namespace

ScheduleFloor::ScheduleFloor(ScheduleOptions options) : options_(std::move(options)) {
  options_.unix_start = std::clamp(options_.unix_start, CronSchedule::kUnixMin, CronSchedule::kUnixMax);
  options_.lead = std::max(options_.lead, core::Duration{});
}

void ScheduleFloor::apply(const signals::Observation& observation, std::vector<PoolDecision>& proposals) {
  PENSTOCK_ASSERT(proposals.size() == observation.pools.size(), "there is a proposal for each pool");
  if (options_.floors.empty() && options_.warm_pool == 0) return;
  plans_.resize(proposals.size());
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    const signals::PoolObservation& pool = observation.pools[i];
    PoolDecision& proposal = proposals[i];
    const Plan plan = planned(pool, proposal, plans_[i]);
    const double spare = plan.known ? options_.warm_pool : 0.0;
    const double floor = floor_of(observation.now, pool);
    const double wanted = std::max(plan.replicas + spare, floor);

    if (plan.replicas < proposal.target) proposal.reason = Reason::kSchedule;  // A floor has ended.
    proposal.target = plan.replicas;
    if (wanted <= plan.replicas) continue;
    const Bounded bounded = bound(wanted, {0, bounds_of(pool).max});
    proposal.limited_by = bounded.limit;
    proposal.evidence.push_back({"planned", static_cast<double>(plan.replicas), "replicas"});
    if (floor > 0.0) proposal.evidence.push_back({"scheduled_floor", floor, "replicas"});
    if (spare > 0.0) proposal.evidence.push_back({"warm_pool", spare, "replicas"});
    if (bounded.replicas <= plan.replicas) continue;  // The plan is at the maximum.
    proposal.target = bounded.replicas;
    proposal.reason = floor > plan.replicas + spare ? Reason::kSchedule : Reason::kWarmPool;
  }
}

ScheduleFloor::Plan ScheduleFloor::planned(const signals::PoolObservation& pool, const PoolDecision& proposal,
                                           std::optional<Plan>& last) const {
  const bool holds = proposal.target == pool.target_replicas && !is_plan(proposal.reason);
  if (!holds || !last) last = Plan{proposal.target, !holds};
  // A hold is limited to the current replicas, even if the last plan was higher.
  return {std::min(last->replicas, proposal.target), last->known};
}

std::uint32_t ScheduleFloor::floor_of(core::Instant now, const signals::PoolObservation& pool) const {
  const auto second = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  const std::int64_t unix_s = options_.unix_start + second;
  // Both are limited, so that their sum does not overflow.
  constexpr core::Duration kLeadMax = forecast::kFloorLengthMax;
  const core::Duration lead = std::min(options_.lead, kLeadMax) + std::clamp(pool.start_up, core::Duration{}, kLeadMax);
  std::uint32_t greatest = 0;
  for (const PoolSchedule& each : options_.floors)
    if (each.pool.empty() || each.pool == pool.name)
      greatest = std::max(greatest, forecast::floor_at({&each.floor, 1}, unix_s, lead));
  return greatest;
}

}  // namespace penstock::planner
