// The replicas of one pool in this tick, by what can be done with them.
#pragma once

#include <cstddef>
#include <vector>

#include "actuation/steps.h"

namespace penstock::actuation {

using Replicas = std::vector<Replica*>;

struct Census {
  Replicas fresh;             // Serving the current revision, or about to.
  Replicas asleep;            // Asleep, or starting up in order to sleep.
  std::size_t may_sleep = 0;  // Draining replicas that may sleep afterwards.
  Replicas old_serving;       // To be replaced, still serving.
  Replicas old_idle;          // To be replaced, not serving yet.
  Replicas taken_back;        // Draining replicas that may be taken back, latest first.
  std::size_t expected = 0;   // Draining replicas of another pool that are going to take the role of this one.
  std::size_t leaving = 0;    // Replicas of an old revision that are ending; each still holds its GPUs.
};

[[nodiscard]] Census take_census(Tick& tick, const PoolWant& want);
// The first `count` in drain order; newest first among equals.
[[nodiscard]] Replicas victims(const Tick& tick, Replicas candidates, std::size_t count);

}  // namespace penstock::actuation
