// How far the roofline and the closed form are from measured engines, and the calibration they were given.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "fidelity/calibration.h"
#include "fidelity/silicon.h"

namespace penstock::fidelity {

// Relative errors |estimate/measured − 1| of some rows; 0 without rows.
struct ErrorSummary {
  std::size_t rows = 0;
  double median = 0.0, p90 = 0.0;
  double bias = 0.0;  // median of estimate/measured − 1
};

struct FidelityFigures {
  ErrorSummary tpot, ttft, throughput;
};

// Aggregated rows that is_covered(), with the figures that are compiled in.
[[nodiscard]] FidelityFigures aggregated_fidelity(std::span<const SiliconRow> rows);

// The declared half is fitted without the rows of one model × GPU × GPUs of a replica, then those rows, of both halves,
// are estimated; for every such combination. Cost: a fit for each.
struct UnseenCombination {
  std::string name;
  ErrorSummary tpot;
};
struct UnseenFidelity {
  std::vector<UnseenCombination> combinations;
  ErrorSummary total;  // over all rows
};
[[nodiscard]] UnseenFidelity unseen_fidelity(std::span<const SiliconRow> rows, const CalibrationOptions& options = {});

// The report: the half that was not fitted, by engine; mixtures of experts; unseen combinations; the decode side of
// disaggregated deployments; what is not covered. Reads the file; errors as read_silicon() or kEnvironment.
[[nodiscard]] core::Result<std::string> silicon_fidelity_markdown(std::string_view csv_path);

// The text of src/engine/roofline_calibration.inc: the fit of the declared half.
[[nodiscard]] core::Result<std::string> calibration_table(std::string_view csv_path);

// The file as rows.
[[nodiscard]] core::Result<std::vector<SiliconRow>> load_silicon(std::string_view csv_path);

// The fit of the declared half of these rows.
[[nodiscard]] Calibration calibrate(std::span<const SiliconRow> rows);

}  // namespace penstock::fidelity
