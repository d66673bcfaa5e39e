#include "signals/observation.h"

namespace penstock::signals {

const char* to_string(Role role) {
  switch (role) {
    case Role::kAggregated: return "aggregated";
    case Role::kPrefill: return "prefill";
    case Role::kDecode: return "decode";
  }
  return "unknown";
}

const char* to_string(ReplicaState state) {
  switch (state) {
    case ReplicaState::kStarting: return "starting";
    case ReplicaState::kReady: return "ready";
    case ReplicaState::kDraining: return "draining";
    case ReplicaState::kStopped: return "stopped";
    case ReplicaState::kCrashed: return "crashed";
  }
  return "unknown";
}

}  // namespace penstock::signals
