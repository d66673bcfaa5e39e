// Steps of replicas and pods as sentences for people. Logs have the names of advance.h and pod_scaling.h instead.
#pragma once

#include <string>
#include <string_view>

#include "actuation/advance.h"
#include "actuation/pod_scaling.h"

namespace penstock::actuation {

// "chat-2 starts: the pool has fewer replicas than its target"
[[nodiscard]] std::string sentence(StepKind kind, std::string_view replica, StepReason why);
// "chat-7d9f-x2 receives no new requests: it is to be removed"; empty for kScale, which is of no single pod.
[[nodiscard]] std::string sentence(PodStepKind kind, std::string_view pod);

}  // namespace penstock::actuation
