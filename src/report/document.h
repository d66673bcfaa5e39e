// The report as a JSON tree: what `json.h` writes out in full and the HTML page carries in short.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "decision/decision.h"
#include "decision/fields.h"
#include "report/run_info.h"

namespace penstock::report {

struct DocumentOptions {
  std::optional<std::size_t> series_points_max;  // none: every point
  std::optional<std::size_t> decisions_max;      // per policy, the first ones; none: every one; the same for holds
  bool wall_speed = true;                        // with simulated_requests_per_s, which differs from run to run
  std::optional<std::size_t>
      diagnosis_bytes_max{};  // of a diagnosis in words, cut between two of them; none: all of it
};
// Null where it is not finite; a zero has no sign.
[[nodiscard]] nlohmann::ordered_json json_number(double value);
// The fields that this rendering has. A log and the live page have evidence and candidates as lists.
[[nodiscard]] nlohmann::ordered_json decision_json(const decision::DecisionRecord& record,
                                                   decision::Rendering rendering);
// Figures that mean nothing (percentiles of no request) are null, never zero.
[[nodiscard]] nlohmann::ordered_json make_document(const Report& report, const DocumentOptions& options);

struct JsonStyle {
  bool pretty = true;                     // two blanks a level; a short flat object or array of numbers on one line
  std::optional<int> significant_digits;  // of a number with a fraction; none: the shortest text that reads back equal
};
[[nodiscard]] std::string write_json(const nlohmann::ordered_json& document, const JsonStyle& style);

}  // namespace penstock::report
