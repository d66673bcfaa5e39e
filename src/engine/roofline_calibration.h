// How much of a data sheet engines reach: five figures per engine, fitted to measurements by penstock_capacity.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/gpu_catalogue.h"
#include "engine/model_catalogue.h"

namespace penstock::engine {

enum class Backend : std::uint8_t { kVllm, kSglang, kTrtllm };
[[nodiscard]] std::string_view name_of(Backend backend);
[[nodiscard]] bool parse_backend(std::string_view text, Backend& backend);

struct RooflineEfficiency {
  double bandwidth = 0.8;            // share of the memory bandwidth that is reached
  double compute = 0.6;              // share of the peak rate of products
  double layer_overhead_us = 45;     // of every step, per layer: launches, scheduling
  double sequence_overhead_us = 20;  // of every step, per decoding sequence: sampling, detokenisation
  double interconnect = 0.5;         // share of the interconnect's rate in all-reduces
};

// The fit is additive in a transformed space, so that what is unseen inherits what is known: a root for dense models
// and one for mixtures of experts, and shifts for backend, GPU, precision, for the three together, and for the model. A
// figure is its range's lower end times (upper/lower)^logistic(sum).
inline constexpr std::size_t kFigures = 5;
using FigureShift = std::array<double, kFigures>;
struct FigureRange {
  double low, high, start;  // start: where a fit without any data stays
};
inline constexpr std::array<FigureRange, kFigures> kFigureRanges = {{
    {0.30, 1.00, 0.80},  // bandwidth
    {0.15, 1.00, 0.60},  // compute
    {1.0, 500.0, 45.0},  // µs a layer
    {0.2, 400.0, 20.0},  // µs a sequence
    {0.03, 1.00, 0.50},  // interconnect
}};
[[nodiscard]] RooflineEfficiency efficiency_of(const FigureShift& sum);  // of the shifts, start included
[[nodiscard]] FigureShift start_shift();

struct CalibrationRow {
  std::string_view effect;  // what calibration_effects() returns
  FigureShift shift;
};

// The effects that apply to one engine, from the general to the special: "dense", "dense/vllm", "dense/h100_sxm", ….
inline constexpr std::size_t kEffects = 6;
[[nodiscard]] std::array<std::string, kEffects> calibration_effects(Backend backend, std::string_view gpu,
                                                                    Precision precision, const ModelCard& model);

[[nodiscard]] std::span<const CalibrationRow> roofline_calibration();  // sorted by effect

// Known shifts summed; an unknown effect adds nothing.
[[nodiscard]] RooflineEfficiency calibrated_efficiency(Backend backend, std::string_view gpu, Precision precision,
                                                       const ModelCard& model);

}  // namespace penstock::engine
