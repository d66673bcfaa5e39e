// Decides which pods of one target go to another one and take the role of its pool, instead of being deleted there and
// started here.
#pragma once

#include <cstdint>
#include <optional>

#include "actuation/pod_scaling.h"
#include "actuation/role_switch.h"
#include "core/time.h"

namespace penstock::actuation {

// One of two targets in this tick.
struct ExchangeSide {
  PodScaling& state;
  TargetSeen& seen;
  std::optional<std::uint32_t> wanted;
  HoldCause held = HoldCause::kNone;  // Of the last tick.
};

// Chooses pods of `from` that go to `to`: sets their `leaves` and `may_join`, and returns the number of replicas of
// `to` to ask for now, which the pods that are still expected do not need. Both then advance(). Rules, as for processes
// (advance.h):
// - Only Ready pods that `from` does not need go, and only as many as `to` lacks. A pod without a node does not count
//   there, because it is not sure that it ever starts.
// - A pod is chosen if the mean drain of its target and the switch together take less than a start-up. If its own drain
//   and the switch take as long, it is not expected any more, unless its engine has the new role already.
// - A pod joins once the controller of `to` has seen a place for it: a replica that was asked for and has no Ready pod.
//   Kubernetes then deletes the pod that it has made there meanwhile, because one that is not Ready goes first.
// - Nothing is exchanged while one of the two is held, unknown or rolled out. Pods whose engine was asked for the new
//   role get that of their pool back before they serve there again.
// O(pods · log pods).
[[nodiscard]] std::optional<std::uint32_t> exchange(ExchangeSide from, ExchangeSide to, const RoleSwitch& by,
                                                    core::Instant now);

}  // namespace penstock::actuation
