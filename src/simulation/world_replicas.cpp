// The life of a replica: the steps of actuation::advance() as simulated events.
#include "core/result.h"
#include "simulation/world.h"

namespace penstock::simulation {

using actuation::StepKind;

void World::advance_fleet() {
  for (auto steps = fleet_.advance(timeline_.now); !steps.empty(); steps = fleet_.advance(timeline_.now))
    for (const actuation::Step& step : steps) take(step);
}

bool World::is_idle(const Replica& replica) const {
  return replica.engine->idle() && (!replica.listed || dispatcher_->open_requests(replica.slot) == 0);
}

void World::take(const actuation::Step& step) {
  switch (step.kind) {
    case StepKind::kStart: start_replica(step.replica); break;
    case StepKind::kWarmUp: break;  // its end is an event since the start
    case StepKind::kAdmit:
      fleet_.publish(timeline_.now);
      requests_.replica_admitted();
      break;
    case StepKind::kDrain: fleet_.drain(step.replica, timeline_.now); break;
    case StepKind::kSleep:
      PENSTOCK_ASSERT(is_idle(fleet_.replica(step.replica)), "a replica with open work is not put to sleep");
      fleet_.sleep(step.replica, timeline_.now);
      break;
    case StepKind::kWake: wake_replica(step.replica); break;
    case StepKind::kSwitch: switch_role(step.replica); break;
    case StepKind::kStop:
      PENSTOCK_ASSERT(step.why == actuation::StepReason::kDrainDeadline || is_idle(fleet_.replica(step.replica)),
                      "a replica with open work is not stopped before its drain deadline");
      end_replica(step.replica);
      break;
    case StepKind::kKill: end_replica(step.replica); break;
  }
}

void World::start_replica(std::uint32_t id) {
  const core::Instant ready = timeline_.now + fleet_.start(id, timeline_.now);
  const core::Duration warm_up = options_.pools[fleet_.replica(id).pool].warm_up;
  if (warm_up > core::Duration{})
    timeline_.schedule(std::max(timeline_.now, ready - warm_up), EventKind::kReplicaHealthy, id);
  timeline_.schedule(ready, EventKind::kReplicaReady, id);
  draw_crash(id);
}

void World::wake_replica(std::uint32_t id) {
  const core::Duration wake_time = fleet_.wake(id, timeline_.now);
  timeline_.schedule(timeline_.now + wake_time, EventKind::kReplicaReady, id);
}

void World::switch_role(std::uint32_t id) {
  PENSTOCK_ASSERT(is_idle(fleet_.replica(id)), "a replica with open work does not change its role");
  timeline_.engines.set(id, core::kNever);
  const core::Duration switch_time = fleet_.switch_role(id, timeline_.now);
  timeline_.schedule(timeline_.now + switch_time, EventKind::kReplicaReady, id);
}

void World::draw_crash(std::uint32_t id) {
  if (options_.faults.crashes_per_replica_hour <= 0.0) return;
  const double hours = faults_.exponential(1.0 / options_.faults.crashes_per_replica_hour);
  timeline_.schedule(timeline_.now + core::from_seconds(hours * 3600.0), EventKind::kCrash, id);
}

void World::replica_ready(std::uint32_t id) {
  Replica& replica = fleet_.replica(id);
  if (!replica.alive()) return;  // it was given up while it started
  replica.healthy = replica.warm = true;
  replica.engine_asleep = replica.switching = false;
  advance_fleet();
}

void World::advance_if_drained(const Replica& replica) {
  if (replica.state == signals::ReplicaState::kDraining && replica.engine->idle()) advance_fleet();
}

void World::end_replica(std::uint32_t id) {
  const std::uint32_t pool = fleet_.replica(id).pool;
  const std::vector<engine::OpenRequest> open = fleet_.replica(id).engine->open_requests(timeline_.now);
  timeline_.engines.set(id, core::kNever);
  fleet_.end(id, timeline_.now);
  requests_.lose(open, pool);
}

void World::crash(std::uint32_t id) {
  const Replica& replica = fleet_.replica(id);
  if (!replica.alive()) return;
  const std::uint32_t pool = replica.pool;
  const bool starts_to_sleep = replica.state == signals::ReplicaState::kAsleep && !replica.asleep_since;
  if (replica.state == signals::ReplicaState::kStarting || starts_to_sleep) ++fleet_.pools()[pool].actions_failed;
  end_replica(id);
  advance_fleet();
  if (const auto next = fleet_.next_start(pool); next && *next > timeline_.now)
    timeline_.schedule(*next, EventKind::kFleet);
}

}  // namespace penstock::simulation
