#include "forecast/models/arima.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "forecast/least_squares.h"

namespace penstock::forecast {
namespace {

constexpr std::array<std::pair<std::size_t, std::size_t>, 6> kOrders = {
    {{0, 0}, {1, 0}, {3, 0}, {0, 1}, {1, 1}, {2, 1}}};
constexpr std::size_t kOrderMax = 3;
constexpr double kDeviationsMax = 6.0;

std::vector<double> difference(const std::vector<double>& values) {
  std::vector<double> differences;
  for (std::size_t i = 1; i < values.size(); ++i) differences.push_back(values[i] - values[i - 1]);
  return differences;
}

// Tests whether the mean change is significant.
bool drifts(const std::vector<double>& changes) {
  constexpr double kStandardErrors = 3.0;
  const auto count = static_cast<double>(changes.size());
  double mean = 0.0, variance = 0.0;
  for (const double change : changes) mean += change / count;
  for (const double change : changes) variance += (change - mean) * (change - mean) / count;
  return mean * mean > kStandardErrors * kStandardErrors * variance / count;
}

void clip_bursts(std::vector<double>& values) {
  double mean = 0.0, variance = 0.0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) variance += (value - mean) * (value - mean) / static_cast<double>(values.size());
  const double limit = mean + kDeviationsMax * std::sqrt(variance);
  for (double& value : values) value = std::min(value, limit);
}

}  // namespace

bool is_stable(const std::vector<double>& coefficients) {
  // Inverse Durbin-Levinson recursion: the model is stable exactly if all partial autocorrelations are within (-1, 1).
  constexpr double kPartialMax = 0.9999;
  std::vector<double> current = coefficients;
  while (!current.empty()) {
    const double partial = current.back();
    if (!(std::abs(partial) < kPartialMax)) return false;
    std::vector<double> shorter(current.size() - 1);
    for (std::size_t i = 0; i < shorter.size(); ++i)
      shorter[i] = (current[i] + partial * current[shorter.size() - 1 - i]) / (1.0 - partial * partial);
    current = std::move(shorter);
  }
  return true;
}

std::vector<double> estimate_innovations(const std::vector<double>& values) {
  const std::size_t order = std::min<std::size_t>(12, values.size() / 8);
  if (order == 0) return {};
  LeastSquares squares(order + 1);
  std::vector<double> row(order + 1, 1.0);
  const auto fill = [&](std::size_t t) {
    for (std::size_t i = 1; i <= order; ++i) row[i] = values[t - i];
  };
  double size = 0.0;
  for (std::size_t t = order; t < values.size(); ++t) {
    fill(t);
    squares.add(row, values[t]);
    size += values[t] * values[t];
  }
  // A small ridge keeps the system solvable if the series is fully explained by its past.
  const std::vector<double> ridge(order + 1, 1e-9 * size + 1e-12);
  const auto solution = squares.solve(ridge);
  if (!solution) return {};
  std::vector<double> innovations(values.size(), 0.0);
  for (std::size_t t = order; t < values.size(); ++t) {
    fill(t);
    double expected = 0.0;
    for (std::size_t i = 0; i <= order; ++i) expected += row[i] * (*solution)[i];
    innovations[t] = values[t] - expected;
  }
  return innovations;
}

std::optional<ArmaFit> fit_arma(const std::vector<double>& values, const std::vector<double>& innovations,
                                std::size_t p, std::size_t q, bool with_constant) {
  // All orders are compared on the same rows, for which innovations are estimated, too.
  const std::size_t first = kOrderMax + std::min<std::size_t>(12, values.size() / 8);
  const std::size_t columns = 1 + p + q;
  if (values.size() < first + 4 * columns) return std::nullopt;
  LeastSquares squares(columns);
  std::vector<double> row(columns, 1.0);
  const auto fill = [&](std::size_t t) {
    row[0] = with_constant ? 1.0 : 0.0;
    for (std::size_t i = 1; i <= p; ++i) row[i] = values[t - i];
    for (std::size_t j = 1; j <= q; ++j) row[p + j] = innovations[t - j];
  };
  for (std::size_t t = first; t < values.size(); ++t) {
    fill(t);
    squares.add(row, values[t]);
  }
  // The column of a constant that is fixed to 0 gets a diagonal, so that its coefficient is 0.
  std::vector<double> ridge(columns, 0.0);
  ridge[0] = with_constant ? 0.0 : 1.0;
  const auto solution = squares.solve(ridge);
  if (!solution) return std::nullopt;

  ArmaFit fit;
  fit.constant = solution->front();
  fit.phi.assign(solution->begin() + 1, solution->begin() + 1 + static_cast<std::ptrdiff_t>(p));
  fit.theta.assign(solution->begin() + 1 + static_cast<std::ptrdiff_t>(p), solution->end());
  std::vector<double> inverse = fit.theta;
  for (double& value : inverse) value = -value;
  if (!is_stable(fit.phi) || !is_stable(inverse)) return std::nullopt;

  const auto rows = static_cast<double>(values.size() - first);
  for (std::size_t t = first; t < values.size(); ++t) {
    fill(t);
    double rest = values[t];
    for (std::size_t i = 0; i < columns; ++i) rest -= row[i] * (*solution)[i];
    fit.variance += rest * rest / rows;
  }
  fit.aic = rows * std::log(std::max(fit.variance, 1e-300)) + 2.0 * static_cast<double>(columns);
  return fit;
}

ArimaModel::ArimaModel(const PredictorOptions& options)
    : steps_per_row_(std::max<std::int64_t>(1, kRowWidth / options.interval)) {}

void ArimaModel::update(const Point& point) {
  const std::int64_t row = point.step / steps_per_row_;
  if (row != row_) close_row();
  row_ = row;
  row_sum_ += point.value;
  row_count_ += 1.0;
  last_step_ = point.step;
  if ((point.step + 1) % steps_per_row_ == 0) close_row();
}

void ArimaModel::close_row() {
  if (row_count_ == 0.0) return;
  const double value = row_sum_ / row_count_;
  row_sum_ = row_count_ = 0.0;
  const std::int64_t missing = values_.empty() ? 0 : row_ - last_row_ - 1;
  if (missing > kGapRowsMax) {
    // The fit is kept and continues from the new level.
    values_.assign(1 + kOrderMax, value);
    run_innovations();
  } else if (missing > 0) {
    const double from = values_.back();
    for (std::int64_t i = 1; i <= missing; ++i)
      append(from + (value - from) * static_cast<double>(i) / static_cast<double>(missing + 1));
  }
  append(value);
  last_row_ = row_;
  if (until_fit_ > 0) --until_fit_;
  if (until_fit_ == 0 && values_.size() >= kRowsMin) refit();
}

void ArimaModel::append(double value) {
  const double z = differences_ == 0 || values_.empty() ? value : value - values_.back();
  if (fitted_) {
    const double innovation = z - one_step(recent_z_, recent_e_);
    recent_z_.erase(recent_z_.begin());
    recent_e_.erase(recent_e_.begin());
    recent_z_.push_back(z);
    recent_e_.push_back(innovation);
  }
  values_.push_back(value);
  if (values_.size() > kWindow) values_.pop_front();
}

void ArimaModel::refit() {
  until_fit_ = kRowsPerFit;
  std::vector<double> values(values_.begin(), values_.end());
  clip_bursts(values);
  bool found = false;
  for (const int differences : {0, 1}) {
    const std::vector<double> z = differences == 0 ? values : difference(values);
    const std::vector<double> innovations = estimate_innovations(z);
    if (innovations.empty()) continue;
    const bool with_constant = differences == 0 || drifts(z);
    for (const auto& [p, q] : kOrders) {
      const auto fit = fit_arma(z, innovations, p, q, with_constant);
      if (!fit || (found && fit->aic >= fit_.aic)) continue;
      fit_ = *fit;
      differences_ = differences;
      found = true;
    }
  }
  if (!found) return;
  fitted_ = true;
  run_innovations();
}

void ArimaModel::run_innovations() {
  recent_z_.assign(kOrderMax, 0.0);
  recent_e_.assign(kOrderMax, 0.0);
  if (!fitted_) return;
  // Innovations of the fitted model over the window; the assumptions at its start have decayed at its end.
  std::vector<double> values(values_.begin(), values_.end());
  const std::vector<double> z = differences_ == 0 ? values : difference(values);
  for (std::size_t t = 0; t < z.size(); ++t) {
    const double innovation = t < kOrderMax ? 0.0 : z[t] - one_step(recent_z_, recent_e_);
    recent_z_.erase(recent_z_.begin());
    recent_e_.erase(recent_e_.begin());
    recent_z_.push_back(z[t]);
    recent_e_.push_back(innovation);
  }
}

double ArimaModel::one_step(std::span<const double> z, std::span<const double> e) const {
  double expected = fit_.constant;
  for (std::size_t i = 0; i < fit_.phi.size(); ++i) expected += fit_.phi[i] * z[z.size() - 1 - i];
  for (std::size_t j = 0; j < fit_.theta.size(); ++j) expected += fit_.theta[j] * e[e.size() - 1 - j];
  return expected;
}

void ArimaModel::expect(std::span<double> path) const {
  std::array<double, kOrderMax> z{}, e{};
  std::copy(recent_z_.begin(), recent_z_.end(), z.begin());
  std::copy(recent_e_.begin(), recent_e_.end(), e.begin());
  double value = values_.back();
  std::int64_t row = last_row_;
  for (std::size_t k = 0; k < path.size(); ++k) {
    const std::int64_t wanted = (last_step_ + 1 + static_cast<std::int64_t>(k)) / steps_per_row_;
    for (; row < wanted; ++row) {
      const double next = one_step(z, e);
      std::rotate(z.begin(), z.begin() + 1, z.end());
      std::rotate(e.begin(), e.begin() + 1, e.end());
      z.back() = next;
      e.back() = 0.0;
      value = differences_ == 0 ? next : value + next;
    }
    path[k] = value;
  }
}

}  // namespace penstock::forecast
