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

std::string_view family_of(const ModelCard& model) { return model.is_mixture() ? "mixture" : "dense"; }

std::string_view die_of(std::string_view gpu) {
  return gpu == "gb200" ? "b200_sxm" : gpu == "gb300" ? "b300_sxm" : gpu;
}

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
                                                      const ModelCard& model, std::string_view release) {
  const std::string_view family = family_of(model);
  gpu = die_of(gpu);
  return {std::string{family},
          fmt::format("{}/{}", family, name_of(backend)),
          fmt::format("{}/{}", family, gpu),
          fmt::format("{}/{}", family, name_of(precision)),
          fmt::format("{}/{}/{}/{}", family, name_of(backend), gpu, name_of(precision)),
          fmt::format("{}/{}", family, model.name),
          release.empty() ? std::string{} : fmt::format("{}/{}/{}", family, name_of(backend), release)};
}

std::span<const CalibrationRow> roofline_calibration() { return kCalibration; }

RooflineEfficiency calibrated_efficiency(Backend backend, std::string_view gpu, Precision precision,
                                         const ModelCard& model, std::string_view release) {
  FigureShift sum = start_shift();
  for (const std::string& effect : calibration_effects(backend, gpu, precision, model, release)) {
    const auto rows = roofline_calibration();
    const auto row = std::lower_bound(rows.begin(), rows.end(), effect,
                                      [](const CalibrationRow& r, const std::string& e) { return r.effect < e; });
    if (row == rows.end() || row->effect != effect) continue;
    for (std::size_t i = 0; i < kFigures; ++i) sum[i] += row->shift[i];
  }
  return efficiency_of(sum);
}

std::vector<std::string_view> calibrated_releases(Backend backend, const ModelCard& model) {
  const std::string prefix = fmt::format("{}/{}/", family_of(model), name_of(backend));
  std::vector<std::string_view> releases;
  for (const CalibrationRow& row : kCalibration) {
    if (!row.effect.starts_with(prefix)) continue;
    const std::string_view rest = row.effect.substr(prefix.size());
    if (rest.find('/') == std::string_view::npos) releases.push_back(rest);
  }
  return releases;
}

}  // namespace penstock::engine
