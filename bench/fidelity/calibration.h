// The fit that turns measurements into src/engine/roofline_calibration.inc.
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
  double tpot_ms = 0.0;  // measured
};

struct FittedEffect {
  std::string effect;  // one of engine::calibration_effects()
  engine::FigureShift shift{};
};
using Calibration = std::vector<FittedEffect>;  // sorted by effect

struct CalibrationOptions {
  double error_scale = 0.03;   // relative error above which a point counts less and less (pseudo-Huber)
  double root_weight = 0.3;    // ridge of the two roots "dense" and "mixture"
  double effect_weight = 2.0;  // ridge of every other effect: what points must earn
  int iterations_max = 60;
};

// Levenberg-Marquardt on Σ ρ(ln(tpot / measured) / scale) + ½ Σ (weight·shift)², ρ(r) = √(1 + r²) − 1. The same points
// give the same figures; effects without points are left out. Cost: iterations × (points·30² + (5·effects)³).
[[nodiscard]] Calibration fit_calibration(std::span<const CalibrationPoint> points,
                                          const CalibrationOptions& options = {});

[[nodiscard]] engine::RooflineEfficiency efficiency_by(const Calibration& calibration,
                                                       const engine::RooflineSpec& spec);

// The declared half: rows whose key() has an even hash, which is mix64 of its FNV-1a hash (64 bit). Repeated
// measurements of one operating point share a key, so they never lie in both halves.
[[nodiscard]] bool in_calibration_half(const SiliconRow& row);

// Aggregated rows of known models that fit their GPUs.
[[nodiscard]] bool is_covered(const SiliconRow& row);
[[nodiscard]] CalibrationPoint calibration_point(const SiliconRow& row);

// The text of roofline_calibration.inc.
[[nodiscard]] std::string render_calibration(const Calibration& calibration);

}  // namespace penstock::fidelity
