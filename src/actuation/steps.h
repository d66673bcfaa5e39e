// Shared parts of advance(): the current tick, and stage changes of a replica.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "actuation/advance.h"

namespace penstock::actuation {

struct Tick {
  FleetState& fleet;
  std::span<const PoolWant> wants;
  const Limits& limits;
  core::Instant now;
  std::vector<const Seen*> seen;  // Ascending by replica id.
  Advance result{};

  [[nodiscard]] const Seen* seen_of(std::uint32_t replica) const;
  void step(StepKind kind, const Replica& replica, StepReason why) { result.steps.push_back({kind, replica.id, why}); }
  void note(bool warning, const Replica& replica, std::string text) {
    result.notes.push_back({warning, replica.id, replica.pool, std::move(text)});
  }

  [[nodiscard]] const PoolWant* want_of(std::string_view pool) const;
  // Those of the replica's pool.
  [[nodiscard]] core::Duration drain_deadline(const Replica& replica) const;
  [[nodiscard]] core::Duration unhealthy_drain_deadline(const Replica& replica) const;
  void enter(Replica& replica, Stage stage) const;
  void admit(Replica& replica, StepReason why);
  void drain(Replica& replica, StepReason why);
  void sleep(Replica& replica, StepReason why);
  void wake(Replica& replica, StepReason why);
  void switch_role(Replica& replica, const PoolWant& to);
  void stop(Replica& replica, StepReason why);
};

// Returns the pool's state and creates it if necessary. The reference is valid until the next call.
[[nodiscard]] PoolState& pool_state(FleetState& fleet, const std::string& name);
// Counts a crash and returns the time of the pool's next start.
core::Instant count_crash(PoolState& pool, const Limits& limits, core::Instant now);

// Advances each replica by its observation and deadlines.
void follow_replicas(Tick& tick);
// Ends switches that are not needed any more or take too long; the replicas go on draining.
void review_switches(Tick& tick);
// Lets replicas that one pool does not need take the role of another that lacks some.
void switch_roles(Tick& tick);
// Brings one pool to its target.
void level_pool(Tick& tick, const PoolWant& want);

}  // namespace penstock::actuation
