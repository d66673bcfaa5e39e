#include "controller/fleet.h"

#include <algorithm>

namespace penstock::controller {

void add_replicas(const std::vector<ReplicaView>& views, signals::PoolObservation& seen) {
  for (const ReplicaView& view : views) {
    seen.replicas.push_back(view.seen);
    switch (view.seen.state) {
      case signals::ReplicaState::kStarting: ++seen.starting; break;
      case signals::ReplicaState::kReady: ++seen.ready; break;
      case signals::ReplicaState::kDraining: ++seen.draining; break;
      case signals::ReplicaState::kAsleep: ++(view.stage == "asleep" ? seen.asleep : seen.starting_to_sleep); break;
      case signals::ReplicaState::kStopped:
      case signals::ReplicaState::kCrashed: break;
    }
  }
  std::sort(seen.replicas.begin(), seen.replicas.end(),
            [](const auto& left, const auto& right) { return left.replica < right.replica; });
}

}  // namespace penstock::controller
