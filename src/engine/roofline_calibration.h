// Efficiency of engines relative to data sheets: five values per engine, fitted to measurements by penstock_capacity.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gpu_catalogue.h"
#include "engine/model_catalogue.h"

namespace penstock::engine {

enum class Backend : std::uint8_t { kVllm, kSglang, kTrtllm };
[[nodiscard]] std::string_view name_of(Backend backend);
[[nodiscard]] bool parse_backend(std::string_view text, Backend& backend);

struct RooflineEfficiency {
  double bandwidth = 0.8;         // Share of the memory bandwidth that is achieved.
  double compute = 0.6;           // Share of the peak rate of matrix products that is achieved.
  double layer_overhead_us = 45;  // Overhead of every step per layer, for launches and scheduling.
  // Overhead of every step per decoding sequence, for sampling and detokenisation.
  double sequence_overhead_us = 20;
  double interconnect = 0.5;  // Share of the interconnect's rate that all-reduces achieve.
};

// The fit is additive in a transformed space, so that unmeasured engines inherit known effects: one root for dense
// models and one for mixtures of experts, plus shifts for backend, GPU, precision, the three combined, the model, and
// the release of the backend. A value is its range's lower end times (upper/lower)^logistic(sum).
inline constexpr std::size_t kFigures = 5;
using FigureShift = std::array<double, kFigures>;
struct FigureRange {
  double low, high, start;  // `start` is the value of a fit without data.
};
inline constexpr std::array<FigureRange, kFigures> kFigureRanges = {{
    {0.30, 1.00, 0.80},  // Bandwidth.
    {0.15, 1.00, 0.60},  // Compute.
    {1.0, 500.0, 45.0},  // Microseconds per layer.
    {0.2, 400.0, 20.0},  // Microseconds per sequence.
    {0.03, 1.00, 0.50},  // Interconnect.
}};
// `sum` is the sum of the shifts, including start_shift().
[[nodiscard]] RooflineEfficiency efficiency_of(const FigureShift& sum);
[[nodiscard]] FigureShift start_shift();

struct CalibrationRow {
  std::string_view effect;  // A string of calibration_effects().
  FigureShift shift;
};

// Returns the effects that apply to one engine: "dense", "dense/vllm", "dense/h100_sxm", …. The last is empty without a
// release. GB200 and GB300 have the GPUs of B200 and B300, thus their effects.
inline constexpr std::size_t kEffects = 7;
[[nodiscard]] std::array<std::string, kEffects> calibration_effects(Backend backend, std::string_view gpu,
                                                                    Precision precision, const ModelCard& model,
                                                                    std::string_view release = {});

[[nodiscard]] std::span<const CalibrationRow> roofline_calibration();  // Sorted by effect.

// Sums the known shifts; an unknown effect adds nothing.
[[nodiscard]] RooflineEfficiency calibrated_efficiency(Backend backend, std::string_view gpu, Precision precision,
                                                       const ModelCard& model, std::string_view release = {});

// Releases of that backend with measurements of that family of models, sorted.
[[nodiscard]] std::vector<std::string_view> calibrated_releases(Backend backend, const ModelCard& model);

}  // namespace penstock::engine
