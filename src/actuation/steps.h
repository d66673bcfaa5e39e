// What the two halves of advance() share: the tick under way, and how a replica enters a stage.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "actuation/advance.h"

namespace penstock::actuation {

struct Tick {
  FleetState& fleet;
  const Limits& limits;
  core::Instant now;
  std::vector<const Seen*> seen;  // by replica id, ascending
  Advance result{};

  [[nodiscard]] const Seen* seen_of(std::uint32_t replica) const;
  void step(StepKind kind, const Replica& replica, StepReason why) { result.steps.push_back({kind, replica.id, why}); }
  void note(bool warning, const Replica& replica, std::string text) {
    result.notes.push_back({warning, replica.id, replica.pool, std::move(text)});
  }

  void enter(Replica& replica, Stage stage) const;
  void admit(Replica& replica, StepReason why);
  void drain(Replica& replica, StepReason why);
  void stop(Replica& replica, StepReason why);
};

// The pool's part of the state, made on first sight. The reference holds until the next call.
[[nodiscard]] PoolState& pool_state(FleetState& fleet, const std::string& name);
// Counts a crash, and returns when the pool starts its next replica.
core::Instant count_crash(PoolState& pool, const Limits& limits, core::Instant now);

// Each replica by what is seen of it and by its deadlines.
void follow_replicas(Tick& tick);
// One pool to its target.
void level_pool(Tick& tick, const PoolWant& want);

}  // namespace penstock::actuation
