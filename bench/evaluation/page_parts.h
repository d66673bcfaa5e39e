// Parts of the page on the evaluation.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/time.h"
#include "evaluation/equal_attainment.h"
#include "evaluation/evaluation.h"

namespace penstock::evaluation {

[[nodiscard]] std::string percent_or_dash(std::optional<double> share);
[[nodiscard]] std::string in_hours(double gpu_hours);                 // "12.6"
[[nodiscard]] std::string in_hours(const std::optional<Cost>& cost);  // "≤ 12.6", "–"
[[nodiscard]] std::string in_seconds(core::Duration time);
[[nodiscard]] std::string code(std::string_view name);                                      // "`keda-tokens`"
[[nodiscard]] std::string ratio(std::optional<double> ours, std::optional<double> theirs);  // "0.87", "–"

// Sections; empty without their runs.
[[nodiscard]] std::string seeds_section(const Evaluation& evaluation);
[[nodiscard]] std::string ablation_section(const Evaluation& evaluation);
[[nodiscard]] std::string robustness_section(const Evaluation& evaluation);
// The tables of the page on Dynamo's replay, which has the heading "## …" for each trace.
[[nodiscard]] std::string both_simulators_section(const Evaluation& evaluation);

}  // namespace penstock::evaluation
