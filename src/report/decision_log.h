// The decision log: every decision with its evidence, one JSON object per line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "decision/run_result.h"
#include "report/run_info.h"

namespace penstock::report {

// Limits of a log that is read. A log beyond them is an error that names the line.
inline constexpr std::size_t kDecisionLineBytesMax = 1 << 20;
inline constexpr std::size_t kDecisionEntriesMax = 5'000'000;

// The records of all runs, one run after the other, each in the order of time. A policy that never decides has none.
[[nodiscard]] std::vector<decision::DecisionRecord> decision_records(const std::vector<decision::RunResult>& results,
                                                                     const std::vector<PoolInfo>& pools);

// Equal records give equal bytes. A figure that is not finite is null, and reads back as not a number.
[[nodiscard]] std::string to_decision_jsonl(std::span<const decision::DecisionRecord> records);

struct DecisionLog {
  std::vector<decision::DecisionRecord> records;
  std::size_t errors = 0;    // Objects with `error`, which `penstock decide` writes for a line that it cannot use.
  std::size_t cut_line = 0;  // Number of the last line if its end is missing, as after a full disk; else 0.
};

// Unknown keys are ignored, so that a log of a later version can be read; an unknown reason, limit, cause or phase is
// an error. Errors are of the input and name the place as `name:line`. An incomplete last line is left out.
[[nodiscard]] core::Result<DecisionLog> parse_decision_jsonl(std::string_view text, std::string_view name);

}  // namespace penstock::report
