// Replicas that the calendar asks for, and spare ones that are always there: a stage between a plan and the guardrails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "forecast/cron.h"
#include "planner/policy.h"
#include "signals/observation.h"

namespace penstock::planner {

struct PoolSchedule {
  std::string pool;  // its name; empty: every pool
  forecast::ScheduledFloor floor;
};

struct ScheduleOptions {
  std::vector<PoolSchedule> floors;
  std::int64_t unix_start = 0;  // what the calendar says at core::kStart
  // Added to a pool's start-up time: from one decision to the next, and what a limit on growth takes.
  core::Duration lead = std::chrono::seconds{60};
  std::uint32_t warm_pool = 0;  // ready replicas beyond what is planned, in each pool
};

// target = max(plan + warm pool, greatest floor that is active or becomes so within start-up time + lead), at most
// max_replicas. Never below what is planned, as far as the maximum allows.
//
// It is meant for policies that say how many replicas the traffic needs. One that has no plan holds what there is, and
// that includes what this stage added before; its last plan then counts, so that nothing is added twice and a floor that
// has passed is given up. Before the first plan there is no warm pool, since nobody knows what is spare: a planner that
// restarts over and over must not add replicas each time. So the stage remembers the plan of each pool.
class ScheduleFloor {
 public:
  explicit ScheduleFloor(ScheduleOptions options);

  // One proposal for each pool of the observation, in its order. Raises targets, and says in reason, limited_by and
  // evidence what it did.
  void apply(const signals::Observation& observation, std::vector<PoolDecision>& proposals);

  void archive(core::StateArchive& state) { state("schedule", options_.unix_start, plans_); }

 private:
  struct Plan {
    std::uint32_t replicas = 0;
    bool known = false;  // a policy said it; else it is what there was at first
    void archive(core::StateArchive& state) { state.values_of(replicas, known); }
  };
  [[nodiscard]] std::uint32_t floor_of(core::Instant now, const signals::PoolObservation& pool) const;
  [[nodiscard]] Plan planned(const signals::PoolObservation& pool, const PoolDecision& proposal,
                             std::optional<Plan>& last) const;

  ScheduleOptions options_;
  std::vector<std::optional<Plan>> plans_;  // by pool
};

}  // namespace penstock::planner
