#include "engine/roofline_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock::engine {
namespace {

constexpr std::array<std::string_view, 3> kBackends = {"vllm", "sglang", "trtllm"};

constexpr CalibrationRow kCalibration[] = {
#include "engine/roofline_calibration.inc"
};

}  // namespace

std::string_view name_of(Backend backend) { return kBackends[static_cast<std::size_t>(backend)]; }

bool parse_backend(std::string_view text, Backend& backend) {
  const auto found = std::find(kBackends.begin(), kBackends.end(), text);
  if (found == kBackends.end()) return false;
  backend = static_cast<Backend>(found - kBackends.begin());
  return true;
}

RooflineEfficiency efficiency_of(const FigureShift& sum) {
  FigureShift figure;
  for (std::size_t i = 0; i < kFigures; ++i) {
    const auto& [low, high, start] = kFigureRanges[i];
    figure[i] = low * std::pow(high / low, 1.0 / (1.0 + std::exp(-sum[i])));
  }
  return {figure[0], figure[1], figure[2], figure[3], figure[4]};
}

FigureShift start_shift() {
  FigureShift shift;
  for (std::size_t i = 0; i < kFigures; ++i) {
    const auto& [low, high, start] = kFigureRanges[i];
    shift[i] = std::log(std::log(start / low) / std::log(high / start));
  }
  return shift;
}

std::array<std::string, kEffects> calibration_effects(Backend backend, std::string_view gpu, Precision precision,
                                                      const ModelCard& model) {
  const std::string_view family = model.is_mixture() ? "mixture" : "dense";
  return {std::string{family},
          fmt::format("{}/{}", family, name_of(backend)),
          fmt::format("{}/{}", family, gpu),
          fmt::format("{}/{}", family, name_of(precision)),
          fmt::format("{}/{}/{}/{}", family, name_of(backend), gpu, name_of(precision)),
          fmt::format("{}/{}", family, model.name)};
}

std::span<const CalibrationRow> roofline_calibration() { return kCalibration; }

RooflineEfficiency calibrated_efficiency(Backend backend, std::string_view gpu, Precision precision,
                                         const ModelCard& model) {
  FigureShift sum = start_shift();
  for (const std::string& effect : calibration_effects(backend, gpu, precision, model)) {
    const auto rows = roofline_calibration();
    const auto row = std::lower_bound(rows.begin(), rows.end(), effect,
                                      [](const CalibrationRow& r, const std::string& e) { return r.effect < e; });
    if (row == rows.end() || row->effect != effect) continue;
    for (std::size_t i = 0; i < kFigures; ++i) sum[i] += row->shift[i];
  }
  return efficiency_of(sum);
}

}  // namespace penstock::engine
