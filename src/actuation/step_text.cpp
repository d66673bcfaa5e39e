#include "actuation/step_text.h"

#include <fmt/format.h>

#include "core/enum_names.h"

namespace penstock::actuation {

std::string sentence(StepKind kind, std::string_view replica, StepReason why) {
  const char* happens = core::name_of<StepKind::kKill>(
      kind, {"starts", "is warmed up", "receives requests", "receives no new requests", "is put to sleep",
             "is woken up", "changes its role", "is stopped", "is killed"});
  const char* because = core::name_of<StepReason::kResumed>(why, {"the pool has fewer replicas than its target",
                                                                  "it replaces a replica that failed",
                                                                  "it replaces a replica that is outdated or unhealthy",
                                                                  "it is healthy",
                                                                  "its warm-up is complete",
                                                                  "its warm-up took too long",
                                                                  "it is needed again",
                                                                  "the pool has more replicas than its target",
                                                                  "its configuration is outdated",
                                                                  "it is unhealthy",
                                                                  "its last request has ended",
                                                                  "its requests did not end before the drain deadline",
                                                                  "it was not healthy before the start deadline",
                                                                  "it did not end before the stop deadline",
                                                                  "it is awake",
                                                                  "it has its new role",
                                                                  "another pool needs it",
                                                                  "fewer replicas are asleep than wanted",
                                                                  "more replicas are asleep than wanted",
                                                                  "the planner was restarted during this step"});
  return fmt::format("{} {}: {}", replica, happens, because);
}

std::string sentence(PodStepKind kind, std::string_view pod) {
  if (kind == PodStepKind::kScale) return {};
  return fmt::format(
      "{} {}", pod,
      core::name_of<PodStepKind::kMove>(
          kind, {"receives no new requests: it is to be removed", "receives requests: it is needed again",
                 "can be removed: its last request has ended", "", "changes its role: another pool needs it",
                 "changes its role to that of its pool", "goes to the other pool: it has its new role"}));
}

}  // namespace penstock::actuation
