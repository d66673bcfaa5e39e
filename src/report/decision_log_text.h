// A decision log as text for a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/time.h"
#include "decision/decision.h"

namespace penstock::report {

// The decisions of one policy on one pool, in the order of time.
struct DecisionTrack {
  std::string policy, pool;
  std::vector<const decision::DecisionRecord*> entries;  // Never empty; point into the log.
};
// By policy and pool, in the order of their first entries.
[[nodiscard]] std::vector<DecisionTrack> decision_tracks(std::span<const decision::DecisionRecord> entries);

// Which holds a list has; kFirst: the first of those that follow each other, and the number of the others.
enum class Holds : std::uint8_t { kFirst, kAll };
// One line for each decision: time, change, reason, limit.
[[nodiscard]] std::string list_decisions(const DecisionTrack& track, Holds shown = Holds::kFirst);

// The decision in force at a time: the last change or hold, its reason and evidence, the simulated fleets, what would
// change it, and the next change.
[[nodiscard]] std::string explain_decision(const DecisionTrack& track, core::Instant at);

// "12m30s", to the second where that is enough: what --at takes.
[[nodiscard]] std::string format_moment(core::Instant at);

}  // namespace penstock::report
