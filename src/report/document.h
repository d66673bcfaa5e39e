// The report as a JSON tree: complete for `json.h`, shortened for the HTML page.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "decision/decision.h"
#include "decision/fields.h"
#include "report/deployments.h"
#include "report/run_info.h"

namespace penstock::report {

struct DocumentOptions {
  std::optional<std::size_t> series_points_max;  // Empty for all points.
  std::optional<std::size_t> decisions_max;      // The first ones per policy, also of holds; empty for all.
  bool wall_speed = true;                        // With simulated_requests_per_s, which differs between equal runs.
  std::optional<std::size_t>
      diagnosis_bytes_max{};  // Maximum length of a diagnosis, cut between two words; empty for no limit.
};
// Null if the value is not finite; a zero has no sign.
[[nodiscard]] nlohmann::ordered_json json_number(double value);
// The fields of this rendering. A log and the live page have evidence and candidates as lists.
[[nodiscard]] nlohmann::ordered_json decision_json(const decision::DecisionRecord& record,
                                                   decision::Rendering rendering);
// The setting of a rule of decision/engine_settings.h, and in a list those that may help against the cause of bad
// latency.
[[nodiscard]] nlohmann::ordered_json engine_setting_json(std::string_view rule);
[[nodiscard]] nlohmann::ordered_json engine_settings_json(decision::Cause cause);
// Figures without data (percentiles of no request) are null, never zero.
[[nodiscard]] nlohmann::ordered_json make_document(const Report& report, const DocumentOptions& options);
// The sums of the policies, best first, and `deployments` with the document of each.
[[nodiscard]] nlohmann::ordered_json make_document(const DeploymentsReport& report, const DocumentOptions& options);

struct JsonStyle {
  bool pretty = true;  // Two blanks per level; a short flat object or array of numbers is on one line.
  std::optional<int>
      significant_digits;  // Of a number with a fraction; empty for the shortest text that reads back equal.
};
[[nodiscard]] std::string write_json(const nlohmann::ordered_json& document, const JsonStyle& style);

}  // namespace penstock::report
