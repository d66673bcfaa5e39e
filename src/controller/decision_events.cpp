#include "controller/decision_events.h"

#include <fmt/format.h>

#include <string>

#include "core/format.h"
#include "decision/decision_text.h"

namespace penstock::controller {

using decision::Limit;
using decision::Reason;

std::optional<connect::ClusterEvent> decision_event(const decision::DecisionRecord& record,
                                                    const connect::ObjectReference& object) {
  const bool lacks_data = record.reason == Reason::kNoData || record.reason == Reason::kInsufficientData;
  if (record.reason == Reason::kFollower) return std::nullopt;
  if (!record.changes() && record.limited_by == Limit::kNone && !lacks_data) return std::nullopt;
  const std::string because =
      record.limited_by == Limit::kNone ? decision::because(record) : decision::because(record.reason);
  connect::ClusterEvent event;
  event.regarding = object;
  event.is_warning = lacks_data;
  event.action = record.changes() ? "Scale" : "Hold";
  event.reason = record.target > record.current   ? "ScaleUpDecided"
                 : record.target < record.current ? "ScaleDownDecided"
                                                  : "ScalingHeld";
  event.note = record.changes() ? fmt::format("pool {}: from {} to {}: {}", record.pool, record.current,
                                              core::format_replicas(record.target), because)
                                : fmt::format("pool {}: stays at {}: {}", record.pool,
                                              core::format_replicas(record.current), because);
  if (record.limited_by != Limit::kNone)
    event.note += fmt::format("; limited by {}", decision::limited_by(record.limited_by));
  if (!record.diagnosis.empty()) event.note += "; " + record.diagnosis;
  return event;
}

}  // namespace penstock::controller
