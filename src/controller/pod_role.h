// The role of the engine of a pod.
#pragma once

#include "connect/kubernetes/pods.h"
#include "signals/observation.h"
#include "telemetry/adapters.h"

namespace penstock::controller {

// Whether the engine has the role, as far as is known. One that was never asked to change it has that of its pool. A
// restart gives it the role of its arguments, which is not known.
[[nodiscard]] inline bool has_role(const connect::PodState& pod, signals::Role role) {
  return !pod.requested_role || *pod.requested_role == connect::RequestedRole{to_string(role), pod.restarts};
}

// How the engine changes its role.
enum class RoleChange : std::uint8_t {
  kNever,
  kByRequest,  // POST /pd_role_switch.
  kByLabels,   // Gateways decide which engine prefills, as with vLLM's NIXL connector.
};
[[nodiscard]] inline RoleChange role_change_of(telemetry::EngineKind kind) {
  switch (kind) {
    case telemetry::EngineKind::kSglang:
    case telemetry::EngineKind::kPenstock: return RoleChange::kByRequest;
    case telemetry::EngineKind::kVllm: return RoleChange::kByLabels;
    default: return RoleChange::kNever;
  }
}

}  // namespace penstock::controller
