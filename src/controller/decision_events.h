// Decisions as events of Kubernetes on the object that has the replicas of the pool.
#pragma once

#include <optional>

#include "connect/kubernetes/event_writer.h"
#include "decision/decision.h"

namespace penstock::controller {

// A change of the target, or a hold by a limit or without data. Nothing for a hold that the traffic justifies, or that
// another planner's lead does.
[[nodiscard]] std::optional<connect::ClusterEvent> decision_event(const decision::DecisionRecord& record,
                                                                  const connect::ObjectReference& object);

}  // namespace penstock::controller
