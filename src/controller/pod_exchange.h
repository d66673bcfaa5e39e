// Pods that go from one Deployment to another and change their role: what a fleet knows of them, and the requests that
// move them. When they go is decided in actuation/pod_switch.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actuation/pod_scaling.h"
#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/pods.h"
#include "controller/role_requests.h"
#include "controller/scaled_pool.h"
#include "core/time.h"
#include "telemetry/adapters.h"

namespace penstock::controller {

// Lets pools that may exchange pods know each other.
template <class Pools>
void link_partners(const Pools& pools) {
  for (const auto& pool : pools)
    for (const auto& other : pools)
      if (pool->configured.role_switch && other->configured.name == pool->configured.role_switch->partner) {
        pool->partner = other.get();
        other->partner = pool.get();
      }
}

// Forgets pods of which the partner's watch has reported a later version, with its labels.
void forget_moved_pods(ScaledPool& pool);
// "terminating", "switching", "draining", …
[[nodiscard]] const char* stage_of(const ScaledPool& pool, const connect::PodState& pod);
// The pod came from the partner, and the controller of the target does not count it yet, or has to delete another one.
[[nodiscard]] bool is_joining(const ScaledPool& pool, const connect::PodState& pod);

void observe_exchange(const ScaledPool& pool, actuation::TargetSeen& seen);
void observe_role(const ScaledPool& pool, const connect::PodState& pod, telemetry::EngineKind kind,
                  const RoleRequests& roles, actuation::PodSeen& seen);
// The number of replicas to ask for now; none: nothing is to be done. The pool has a partner.
[[nodiscard]] std::optional<std::uint32_t> exchange_pods(ScaledPool& pool, actuation::TargetSeen& seen,
                                                         actuation::TargetSeen& of_partner, core::Instant now);
// Gives a pod the labels of the partner; none: they are not known.
[[nodiscard]] std::optional<connect::ApiCall> move_call(const ScaledPool& pool, const connect::PodIdentity& pod,
                                                        const std::string& in_namespace);
// Gives pods that came from the partner and that no controller adopts the labels of the present template. A rollout may
// have begun just before a pod got those of the former one, whose ReplicaSet may be gone.
[[nodiscard]] std::vector<connect::ApiCall> orphan_calls(const ScaledPool& pool, const std::string& in_namespace);

}  // namespace penstock::controller
