#include "signals/observation.h"

#include "core/enum_names.h"

namespace penstock::signals {

const char* to_string(Role role) { return core::name_of<Role::kDecode>(role, {"aggregated", "prefill", "decode"}); }

const char* to_string(ReplicaState state) {
  return core::name_of<ReplicaState::kCrashed>(state,
                                               {"starting", "ready", "draining", "asleep", "stopped", "crashed"});
}

}  // namespace penstock::signals
