// The decision log: every decision with what it was based on, one JSON object a line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "report/run_info.h"
#include "signals/decision_entry.h"

namespace penstock::report {

// Limits of a log that is read back; an answer beyond them is an error that names the line.
inline constexpr std::size_t kDecisionLineBytesMax = 1 << 20;
inline constexpr std::size_t kDecisionEntriesMax = 5'000'000;

// The entries of all runs, one run after the other, each in the order of time. A policy that never decides has none.
[[nodiscard]] std::vector<signals::DecisionEntry> decision_entries(const std::vector<signals::RunResult>& results,
                                                                   const std::vector<PoolInfo>& pools);

// What would change the decision, from its limit, its candidates and its evidence: "scales up when request_rate passes
// about 12.4 1/s (now 11.2), down below 9.9 1/s". `pool` is the place of its pool in CandidateNote::replicas.
[[nodiscard]] std::string what_would_change(const signals::DecisionNote& note, std::size_t pool);

// Equal entries give equal bytes. A figure that is not finite is null, and reads back as not a number.
[[nodiscard]] std::string to_decision_jsonl(std::span<const signals::DecisionEntry> entries);

// Keys that are not known are passed over, so that a log of a later version still reads. Errors are of the input and
// say `name:line: what`.
[[nodiscard]] core::Result<std::vector<signals::DecisionEntry>> parse_decision_jsonl(std::string_view text,
                                                                                     std::string_view name);

}  // namespace penstock::report
