// The fit that computes src/engine/roofline_calibration.inc from measurements.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/roofline_calibration.h"
#include "fidelity/closed_form.h"
#include "fidelity/silicon.h"

namespace penstock::fidelity {

struct CalibrationPoint {
  engine::RooflineSpec spec;
  ServingPoint at;
  double tpot_ms = 0.0;      // Measured value.
  bool decode_only = false;  // A decode worker of a disaggregated deployment.
};

struct FittedEffect {
  std::string effect;  // One of engine::calibration_effects().
  engine::FigureShift shift{};
};
using Calibration = std::vector<FittedEffect>;  // Sorted by effect.

struct CalibrationOptions {
  double error_scale = 0.03;          // Relative error above which a point has decreasing weight (pseudo-Huber).
  double root_weight = 0.3;           // Ridge of the two roots "dense" and "mixture".
  double effect_weight = 2.0;         // Ridge of every other effect.
  std::size_t effect_points_min = 5;  // An effect with fewer points than this is left out, but for the roots.
  int iterations_max = 60;
};

// Levenberg-Marquardt on Σ ρ(ln(tpot / measured) / scale) + ½ Σ (weight·shift)², ρ(r) = √(1 + r²) − 1. The result is
// deterministic. Effects of releases are fitted last, beside the others, which hold for an engine of unknown release.
// Cost: iterations × (points·30² + (5·effects)³).
[[nodiscard]] Calibration fit_calibration(std::span<const CalibrationPoint> points,
                                          const CalibrationOptions& options = {});

[[nodiscard]] engine::RooflineEfficiency efficiency_by(const Calibration& calibration,
                                                       const engine::RooflineSpec& spec);

// Returns true for rows of the calibration half: those whose key() has an even hash, which is mix64 of its FNV-1a hash
// (64 bit). Repeated measurements of one operating point share a key, so they are never in both halves.
[[nodiscard]] bool in_calibration_half(const SiliconRow& row);

// Returns true for rows whose model is known and fits the GPUs, and whose attention heads can be divided among those
// of a rank. Disaggregated rows must state the batch of a decode worker. Rows of GB200 with 20, 24, 40, 48, 52 and 72
// GPUs as one tensor-parallel replica of 128 heads are probably whole disaggregated deployments.
[[nodiscard]] bool is_covered(const SiliconRow& row);
[[nodiscard]] CalibrationPoint calibration_point(const SiliconRow& row);
// Estimate of point.tpot_ms.
[[nodiscard]] double estimated_tpot_ms(const engine::Roofline& roofline, const CalibrationPoint& point);

// Returns the text of roofline_calibration.inc.
[[nodiscard]] std::string render_calibration(const Calibration& calibration);

}  // namespace penstock::fidelity
