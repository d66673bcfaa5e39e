#include "fidelity/calibration.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <map>

#include "core/random.h"

namespace penstock::fidelity {
namespace {

using engine::FigureShift;
using engine::kEffects;
using engine::kFigures;

constexpr double kDerivativeStep = 1e-4;
constexpr double kGainMin = 1e-6;  // Relative gain below which the iteration stops.
constexpr int kDampingTries = 10;

double tpot_ms(const CalibrationPoint& point, const FigureShift& sum) {
  return estimated_tpot_ms(engine::Roofline{point.spec, engine::efficiency_of(sum)}, point);
}

std::array<std::string, kEffects> effects_of(const engine::RooflineSpec& spec) {
  return engine::calibration_effects(spec.backend, spec.gpu->name, spec.precision, *spec.model, spec.release);
}

bool is_root(const std::string& effect) { return effect.find('/') == std::string::npos; }

using Effects = std::vector<std::string>;

// The parameters are ordered by effect, kFigures each. `effects` and `base`, the sum of what is fixed, have one entry
// per point.
class Fit {
 public:
  Fit(std::span<const CalibrationPoint> points, const CalibrationOptions& options, std::span<const Effects> effects,
      std::vector<FigureShift> base)
      : points_{points}, options_{options}, base_{std::move(base)} {
    std::map<std::string, std::size_t> uses;
    for (const Effects& own : effects)
      for (const std::string& effect : own) ++uses[effect];
    std::map<std::string, Eigen::Index> index;
    for (const auto& [effect, points_of_effect] : uses) {
      if (!is_root(effect) && points_of_effect < options.effect_points_min) continue;
      index.emplace(effect, static_cast<Eigen::Index>(names_.size()));
      names_.push_back(effect);
    }
    for (const Effects& own : effects) {
      std::vector<Eigen::Index> indices;
      for (const std::string& effect : own)
        if (const auto found = index.find(effect); found != index.end()) indices.push_back(found->second);
      effects_.push_back(std::move(indices));
    }
    const auto count = static_cast<Eigen::Index>(names_.size() * kFigures);
    ridge_ = Eigen::VectorXd(count);
    for (Eigen::Index i = 0; i < count; ++i) {
      const bool root = is_root(names_[static_cast<std::size_t>(i) / kFigures]);
      const double weight = root ? options.root_weight : options.effect_weight;
      ridge_[i] = weight * weight;
    }
    shifts_ = Eigen::VectorXd::Zero(count);
  }

  void run() {
    double cost = cost_of(shifts_), damping = 1e-2;
    for (int iteration = 0; iteration < options_.iterations_max; ++iteration) {
      linearise();
      bool better = false;
      double gain = 0.0;
      for (int attempt = 0; attempt < kDampingTries && !better; ++attempt) {
        Eigen::MatrixXd damped = curvature_;
        damped.diagonal() += damping * (curvature_.diagonal().array() + 1.0).matrix();
        const Eigen::VectorXd next = shifts_ - Eigen::VectorXd{damped.ldlt().solve(gradient_)};
        const double next_cost = cost_of(next);
        better = next_cost < cost;
        if (!better) {
          damping *= 4.0;
          continue;
        }
        gain = cost - next_cost;
        shifts_ = next;
        cost = next_cost;
        damping = std::max(damping / 3.0, 1e-9);
      }
      if (!better || gain < kGainMin * cost) return;
    }
  }

  [[nodiscard]] Calibration result() const {
    Calibration calibration;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      FittedEffect fitted{names_[i], {}};
      for (std::size_t k = 0; k < kFigures; ++k) fitted.shift[k] = shifts_[static_cast<Eigen::Index>(i * kFigures + k)];
      calibration.push_back(std::move(fitted));
    }
    return calibration;
  }

 private:
  [[nodiscard]] FigureShift sum_of(std::size_t point, const Eigen::VectorXd& shifts) const {
    FigureShift sum = base_[point];
    for (const Eigen::Index effect : effects_[point])
      for (std::size_t k = 0; k < kFigures; ++k)
        sum[k] += shifts[effect * static_cast<Eigen::Index>(kFigures) + static_cast<Eigen::Index>(k)];
    return sum;
  }

  [[nodiscard]] double residual(std::size_t point, const FigureShift& sum) const {
    return std::log(tpot_ms(points_[point], sum) / points_[point].tpot_ms) / options_.error_scale;
  }

  [[nodiscard]] double cost_of(const Eigen::VectorXd& shifts) const {
    double cost = 0.5 * shifts.cwiseAbs2().dot(ridge_);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const double r = residual(i, sum_of(i, shifts));
      cost += std::sqrt(1.0 + r * r) - 1.0;
    }
    return cost;
  }

  // Gradient, and curvature by Gauss-Newton with each point weighted by its robustness weight.
  void linearise() {
    curvature_ = Eigen::MatrixXd{ridge_.asDiagonal()};
    gradient_ = ridge_.cwiseProduct(shifts_);
    constexpr auto kWidth = static_cast<Eigen::Index>(kFigures);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const FigureShift sum = sum_of(i, shifts_);
      const double r = residual(i, sum);
      Eigen::Matrix<double, kFigures, 1> slope;
      for (std::size_t k = 0; k < kFigures; ++k) {
        FigureShift moved = sum;
        moved[k] += kDerivativeStep;
        slope[static_cast<Eigen::Index>(k)] = (residual(i, moved) - r) / kDerivativeStep;
      }
      const double weight = 1.0 / std::sqrt(1.0 + r * r);
      const Eigen::Matrix<double, kFigures, kFigures> block = weight * slope * slope.transpose();
      for (const Eigen::Index a : effects_[i]) {
        gradient_.segment<kFigures>(a * kWidth) += weight * r * slope;
        for (const Eigen::Index b : effects_[i]) curvature_.block<kFigures, kFigures>(a * kWidth, b * kWidth) += block;
      }
    }
  }

  std::span<const CalibrationPoint> points_;
  CalibrationOptions options_;
  std::vector<FigureShift> base_;
  std::vector<std::string> names_;
  std::vector<std::vector<Eigen::Index>> effects_;  // One entry per point.
  Eigen::VectorXd ridge_, shifts_, gradient_;
  Eigen::MatrixXd curvature_;
};

Calibration fitted(std::span<const CalibrationPoint> points, const CalibrationOptions& options,
                   std::span<const Effects> effects, std::vector<FigureShift> base) {
  Fit fit{points, options, effects, std::move(base)};
  fit.run();
  return fit.result();
}

FigureShift sum_by(const Calibration& calibration, const engine::RooflineSpec& spec) {
  FigureShift sum = engine::start_shift();
  for (const std::string& effect : effects_of(spec)) {
    const auto row = std::lower_bound(calibration.begin(), calibration.end(), effect,
                                      [](const FittedEffect& r, const std::string& e) { return r.effect < e; });
    if (row == calibration.end() || row->effect != effect) continue;
    for (std::size_t k = 0; k < kFigures; ++k) sum[k] += row->shift[k];
  }
  return sum;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace

Calibration fit_calibration(std::span<const CalibrationPoint> points, const CalibrationOptions& options) {
  // Dense models and mixtures share no effect, so two small systems give the same result as one large system.
  Calibration calibration;
  for (const bool mixture : {false, true}) {
    std::vector<CalibrationPoint> family;
    for (const CalibrationPoint& point : points)
      if (point.spec.model->is_mixture() == mixture) family.push_back(point);
    if (family.empty()) continue;
    std::vector<Effects> general, release;
    for (const CalibrationPoint& point : family) {
      const auto effects = effects_of(point.spec);
      general.emplace_back(effects.begin(), effects.end() - 1);
      release.push_back(effects.back().empty() ? Effects{} : Effects{effects.back()});
    }
    Calibration fitted_family =
        fitted(family, options, general, std::vector<FigureShift>(family.size(), engine::start_shift()));
    std::vector<FigureShift> base;
    for (const CalibrationPoint& point : family) base.push_back(sum_by(fitted_family, point.spec));
    for (FittedEffect& each : fitted(family, options, release, base)) fitted_family.push_back(std::move(each));
    std::sort(fitted_family.begin(), fitted_family.end(),
              [](const FittedEffect& a, const FittedEffect& b) { return a.effect < b.effect; });
    for (FittedEffect& each : fitted_family) calibration.push_back(std::move(each));
  }
  return calibration;
}

engine::RooflineEfficiency efficiency_by(const Calibration& calibration, const engine::RooflineSpec& spec) {
  return engine::efficiency_of(sum_by(calibration, spec));
}

bool in_calibration_half(const SiliconRow& row) { return core::mix64(fnv1a(row.key())) % 2 == 0; }

bool is_covered(const SiliconRow& row) {
  if (row.spec.model == nullptr || row.concurrency == 0) return false;
  return row.spec.divides_heads() && calibration_kv_tokens(row.spec) >= row.input_tokens + row.output_tokens;
}

CalibrationPoint calibration_point(const SiliconRow& row) {
  return {row.spec,
          {row.input_tokens, row.output_tokens, row.concurrency, row.load_test},
          row.tpot_ms,
          !row.is_aggregated()};
}

double estimated_tpot_ms(const engine::Roofline& roofline, const CalibrationPoint& point) {
  return (point.decode_only ? decode_serving(roofline, point.at) : aggregated_serving(roofline, point.at)).tpot_ms;
}

std::string render_calibration(const Calibration& calibration) {
  std::string text;
  for (const auto& [effect, shift] : calibration)
    text += fmt::format("    {{\"{}\", {{{:.4f}, {:.4f}, {:.4f}, {:.4f}, {:.4f}}}}},\n", effect, shift[0], shift[1],
                        shift[2], shift[3], shift[4]);
  return text;
}

}  // namespace penstock::fidelity
