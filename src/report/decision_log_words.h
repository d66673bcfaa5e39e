// A decision log in plain words, for people at a terminal.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/time.h"
#include "decision/decision.h"

namespace penstock::report {

// One policy's decisions on one pool, in the order of time.
struct DecisionTrack {
  std::string policy, pool;
  std::vector<const decision::DecisionRecord*> entries;  // Never empty; point into the log.
};
// By policy and pool in the order in which the log names them first.
[[nodiscard]] std::vector<DecisionTrack> decision_tracks(std::span<const decision::DecisionRecord> entries);

// A line for each decision: time, change, reason, limit.
[[nodiscard]] std::string list_decisions(const DecisionTrack& track);

// The decision in force at a moment: the change or hold before it, why, what it is based on, the fleets that were
// tried, what would change it, and the next change.
[[nodiscard]] std::string explain_decision(const DecisionTrack& track, core::Instant at);

// "12m30s", to the second where that is enough: what --at takes.
[[nodiscard]] std::string format_moment(core::Instant at);

}  // namespace penstock::report
