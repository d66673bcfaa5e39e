// Scheduled floors and warm replicas: a stage between a plan and the guardrails.
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
  std::string pool;  // Name of the pool; empty means every pool.
  forecast::ScheduledFloor floor;
};

struct ScheduleOptions {
  std::vector<PoolSchedule> floors;
  std::int64_t unix_start = 0;  // Unix time at core::kStart.
  // Added to a pool's start-up time: the decision interval plus the time that the growth limit takes.
  core::Duration lead = std::chrono::seconds{60};
  std::uint32_t warm_pool = 0;  // Ready replicas beyond the plan in each pool.
};

// target = max(plan + warm pool, highest floor that is active or starts within start-up time + lead), at most
// max_replicas and never below the plan, as far as the maximum allows.
//
// The stage is meant for policies that compute the replicas that the traffic needs. A policy without a plan holds the
// current replicas, which include the additions of this stage, so the last plan is used instead: nothing is added
// twice, and a past floor is released. Before the first plan there is no warm pool, because a planner that restarts
// repeatedly must not add replicas each time. The stage therefore stores the plan of each pool.
class ScheduleFloor {
 public:
  explicit ScheduleFloor(ScheduleOptions options);

  // Takes one proposal per pool of the observation, in its order. Raises targets and records this in reason, limited_by
  // and evidence.
  void apply(const signals::Observation& observation, std::vector<PoolDecision>& proposals);

  void archive(core::StateArchive& state) { state("schedule", options_.unix_start, plans_); }

 private:
  struct Plan {
    std::uint32_t replicas = 0;
    bool known = false;  // True if a policy provided it; otherwise it is the initial number of replicas.
    void archive(core::StateArchive& state) { state.values_of(replicas, known); }
  };
  [[nodiscard]] std::uint32_t floor_of(core::Instant now, const signals::PoolObservation& pool) const;
  [[nodiscard]] Plan planned(const signals::PoolObservation& pool, const PoolDecision& proposal,
                             std::optional<Plan>& last) const;

  ScheduleOptions options_;
  std::vector<std::optional<Plan>> plans_;  // Indexed by pool.
};

}  // namespace penstock::planner
