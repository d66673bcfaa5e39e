// Faults at given times: engines that crash, hang or slow down, and restarts of the gateway.
#include <algorithm>

#include "simulation/world.h"

namespace penstock::simulation {

namespace {

// The gateway checks every 2 s, waits 2 s for an answer, and takes a replica out after two failures unless no
// other is left.
constexpr core::Duration kHangNoticedAfter = std::chrono::seconds{6};
// After the third failure in a row the gateway looks at the requests of the replica again and again.
constexpr core::Duration kUnresponsiveAfter = std::chrono::seconds{10}, kVisitInterval = std::chrono::seconds{1};
constexpr auto kHealthy = dispatch::ReplicaHealth::kHealthy, kSlow = dispatch::ReplicaHealth::kSlow;

// From the hang until the gateway first looks at the requests of the replica; 0: never.
core::Duration first_visit(const dispatch::DispatchOptions& options) {
  if (options.unresponsive_idle_timeout == core::Duration{}) return options.stream_idle_timeout;
  if (options.stream_idle_timeout == core::Duration{}) return kUnresponsiveAfter;
  return std::min(options.stream_idle_timeout, kUnresponsiveAfter);
}

SilentVisit visit_after(core::Duration silent, const dispatch::DispatchOptions& options) {
  const auto is_over = [silent](core::Duration limit) { return limit > core::Duration{} && silent >= limit; };
  SilentVisit visit;
  visit.tries_again = options.unresponsive_idle_timeout > core::Duration{} && is_over(kUnresponsiveAfter);
  visit.cuts =
      is_over(options.stream_idle_timeout) || (visit.tries_again && is_over(options.unresponsive_idle_timeout));
  return visit;
}

}  // namespace

void World::schedule_faults() {
  const auto& events = options_.faults.events;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    timeline_.schedule(events[i].begin(), EventKind::kFault, i);
    if (events[i].end() != core::kNever) timeline_.schedule(events[i].end(), EventKind::kFaultEnd, i);
  }
}

void World::begin_fault(const FaultEvent& event) {
  switch (event.kind) {
    case FaultKind::kCrash:
      for (const std::uint32_t id : fleet_.concerned_by(event)) crash(id);
      break;
    case FaultKind::kHang:
      for (const std::uint32_t id : fleet_.concerned_by(event)) hang(id, event.end());
      break;
    case FaultKind::kSlow: set_speed(event); break;
    case FaultKind::kGatewayRestart: restart_gateway(event); break;
    case FaultKind::kTruncate:         // Each first token looks for it …
    case FaultKind::kMiscount: break;  // … and each report of tokens for this one.
  }
}

void World::end_fault(const FaultEvent& event) {
  if (event.kind == FaultKind::kSlow) set_speed(event);
  if (event.kind == FaultKind::kGatewayRestart) requests_.gateway_started();
}

void World::set_speed(const FaultEvent& event) {
  for (const std::uint32_t id : fleet_.concerned_by(event)) {
    const Replica& replica = fleet_.replica(id);
    const std::string& pool = fleet_.pools()[replica.pool].spec.name;
    replica.engine->slow_down(slow_factor(options_.faults, id, pool, timeline_.now), timeline_.now);
    timeline_.engines.set(id, replica.engine->next_event());
  }
}

void World::hang(std::uint32_t id, core::Instant until) {
  Replica& replica = fleet_.replica(id);
  if (!replica.is_in_use() || until <= replica.hung_until) return;
  if (!replica.is_hung(timeline_.now)) replica.hung_since = timeline_.now;
  replica.hung_until = until;
  replica.engine->hang(until, timeline_.now);
  timeline_.engines.set(id, replica.engine->next_event());
  timeline_.schedule(timeline_.now + kHangNoticedAfter, EventKind::kHealthCheck, id);
  if (until != core::kNever) timeline_.schedule(until, EventKind::kHealthCheck, id);
  const core::Duration visit = first_visit(gateway_.options);
  if (visit > core::Duration{}) timeline_.schedule(timeline_.now + visit, EventKind::kReplicaSilent, id);
}

void World::check_health(std::uint32_t id) {
  Replica& replica = fleet_.replica(id);
  if (!replica.alive()) return;
  const core::Instant now = timeline_.now;
  const bool healthy = !replica.is_hung(now) || now - replica.hung_since < kHangNoticedAfter;
  if (healthy == replica.healthy) return;
  replica.healthy = healthy;
  if (replica.listed) dispatcher_->set_health(replica.slot, healthy ? kHealthy : kSlow, now);
  if (healthy)
    requests_.replica_admitted();
  else  // The fleet is looked at again when the replica may be replaced.
    timeline_.schedule(now + options_.life_cycle.unhealthy_time + std::chrono::milliseconds{1}, EventKind::kFleet);
  advance_fleet();
}

void World::check_silence(std::uint32_t id) {
  Replica& replica = fleet_.replica(id);
  const core::Instant now = timeline_.now;
  if (!replica.alive() || !replica.listed || !replica.is_hung(now)) return;
  timeline_.schedule(now + kVisitInterval, EventKind::kReplicaSilent, id);
  requests_.visit_silent(replica, visit_after(now - replica.hung_since, gateway_.options));
  advance_if_drained(replica);
}

void World::restart_gateway(const FaultEvent& event) {
  requests_.gateway_stopped(event.length == core::Duration{} ? timeline_.now : event.end());
  budgets_.ended(*dispatcher_, timeline_.now);
  // What was open is written before the new gateway reads.
  dispatcher_.reset();
  dispatcher_.emplace(gateway_.options, ledger_sink(), timeline_.now, timeline_.now.time_since_epoch());
  fleet_.publish(timeline_.now);
  for (const Pool& pool : fleet_.pools()) {
    for (const std::uint32_t id : pool.replicas) {
      Replica& replica = fleet_.replica(id);
      replica.reported_idle = false;
      if (replica.is_in_use() && !replica.healthy) dispatcher_->set_health(replica.slot, kSlow, timeline_.now);
    }
  }
  if (event.length == core::Duration{}) requests_.gateway_started();
  advance_draining();
}

// Requests that were cancelled may have been the last ones of a replica that drains.
void World::advance_draining() {
  std::vector<std::uint32_t> draining;
  for (const Pool& pool : fleet_.pools())
    for (const std::uint32_t id : pool.replicas)
      if (fleet_.replica(id).state == signals::ReplicaState::kDraining) draining.push_back(id);
  for (const std::uint32_t id : draining)
    if (fleet_.replica(id).alive()) advance_if_drained(fleet_.replica(id));
}

}  // namespace penstock::simulation
