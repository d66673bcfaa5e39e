// The life of a replica: the steps of actuation::advance() as simulated events.
#include "simulation/world.h"

namespace penstock::simulation {

using actuation::StepKind;

void World::advance_fleet() {
  for (auto steps = fleet_.advance(now_); !steps.empty(); steps = fleet_.advance(now_))
    for (const actuation::Step& step : steps) take(step);
}

void World::take(const actuation::Step& step) {
  switch (step.kind) {
    case StepKind::kStart: start_replica(step.replica); break;
    case StepKind::kWarmUp: break;  // its end is an event since the start
    case StepKind::kAdmit: {
      fleet_.admit(step.replica);
      const std::uint32_t pool = fleet_.replica(step.replica).pool;
      std::vector<std::uint32_t> waiting;
      waiting.swap(fleet_.pools()[pool].unrouted);
      for (const std::uint32_t request : waiting) route(request, pool);
      break;
    }
    case StepKind::kDrain: fleet_.drain(step.replica); break;
    case StepKind::kStop:
    case StepKind::kKill: end_replica(step.replica); break;
  }
}

void World::start_replica(std::uint32_t id) {
  const core::Instant ready = now_ + fleet_.start(id, now_);
  const core::Duration warm_up = options_.pools[fleet_.replica(id).pool].warm_up;
  if (warm_up > core::Duration{}) schedule(std::max(now_, ready - warm_up), Control::kReplicaHealthy, id);
  schedule(ready, Control::kReplicaReady, id);
  draw_crash(id);
}

void World::draw_crash(std::uint32_t id) {
  if (options_.faults.crashes_per_replica_hour <= 0.0) return;
  const double hours = faults_.exponential(1.0 / options_.faults.crashes_per_replica_hour);
  schedule(now_ + core::from_seconds(hours * 3600.0), Control::kCrash, id);
}

void World::replica_ready(std::uint32_t id) {
  Replica& replica = fleet_.replica(id);
  if (!replica.alive()) return;  // it was given up while it started
  replica.healthy = replica.warm = true;
  advance_fleet();
}

void World::advance_if_drained(const Replica& replica) {
  if (replica.state == signals::ReplicaState::kDraining && replica.engine->idle()) advance_fleet();
}

// The requests of an engine that ends fail if the user has received a token; otherwise another replica may try.
void World::end_replica(std::uint32_t id) {
  const std::uint32_t pool = fleet_.replica(id).pool;
  const std::vector<std::uint32_t> open = fleet_.replica(id).engine->open_requests();
  engines_.set(id, core::kNever);
  fleet_.end(id, now_);
  for (const std::uint32_t request : open) {
    if (recorder_.has_first_token(request)) {
      fail(request, pool, Outcome::kReplicaCrashed);
    } else {
      flights_[request].transfer = kNone;
      route(request, pool);
    }
  }
}

void World::crash(std::uint32_t id) {
  const Replica& replica = fleet_.replica(id);
  if (!replica.alive()) return;
  const std::uint32_t pool = replica.pool;
  if (replica.state == signals::ReplicaState::kStarting) ++fleet_.pools()[pool].actions_failed;
  end_replica(id);
  advance_fleet();
  if (const auto next = fleet_.next_start(pool); next && *next > now_) schedule(*next, Control::kFleet);
}

}  // namespace penstock::simulation
