// Errors of the roofline and the closed form relative to measured engines, and of the calibration.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "fidelity/calibration.h"
#include "fidelity/silicon.h"

namespace penstock::fidelity {

// Relative errors |estimate/measured − 1| of a set of rows; 0 without rows.
struct ErrorSummary {
  std::size_t rows = 0;
  double median = 0.0, p90 = 0.0;
  double bias = 0.0;  // Median of estimate/measured − 1.
};

struct FidelityFigures {
  ErrorSummary tpot, ttft, throughput;
};

// Aggregated rows with is_covered(), estimated with the compiled-in calibration.
[[nodiscard]] FidelityFigures aggregated_fidelity(std::span<const SiliconRow> rows);
// TPOT of disaggregated rows with is_covered().
[[nodiscard]] ErrorSummary decode_fidelity(std::span<const SiliconRow> rows);

// For every combination of model × GPU × GPUs per replica: the calibration half is fitted without its rows, then its
// rows of both halves are estimated. Cost: one fit per combination.
struct UnseenCombination {
  std::string name;
  ErrorSummary tpot;  // Of aggregated rows.
};
struct UnseenFidelity {
  std::vector<UnseenCombination> combinations;  // Those with aggregated rows.
  ErrorSummary total, decode;                   // Over all aggregated rows, and all disaggregated ones.
};
[[nodiscard]] UnseenFidelity unseen_fidelity(std::span<const SiliconRow> rows, const CalibrationOptions& options = {});

// Returns the report: the half that was not fitted, by engine; mixtures of experts; held-out combinations; the decode
// side of disaggregated deployments; rows that are not covered. Reads the file; errors like read_silicon() or
// kEnvironment.
[[nodiscard]] core::Result<std::string> silicon_fidelity_markdown(std::string_view csv_path);

// Returns the text of src/engine/roofline_calibration.inc: the fit of the calibration half.
[[nodiscard]] core::Result<std::string> calibration_table(std::string_view csv_path);

// Reads the rows of the file.
[[nodiscard]] core::Result<std::vector<SiliconRow>> load_silicon(std::string_view csv_path);

// Fits the calibration half of these rows.
[[nodiscard]] Calibration calibrate(std::span<const SiliconRow> rows);

}  // namespace penstock::fidelity
