#include "forecast/least_squares.h"

#include <cmath>

#include "core/result.h"

namespace penstock::forecast {

LeastSquares::LeastSquares(std::size_t columns) : columns_(columns), products_(columns * columns), right_(columns) {}

void LeastSquares::add(std::span<const double> row, double value, double weight) {
  PENSTOCK_ASSERT(row.size() == columns_, "a row has a value for each column");
  for (std::size_t i = 0; i < columns_; ++i) {
    const double weighted = weight * row[i];
    if (weighted == 0.0) continue;  // The hinges of later changepoints are 0 in most rows.
    right_[i] += weighted * value;
    double* products = products_.data() + i * columns_;
    for (std::size_t j = 0; j <= i; ++j) products[j] += weighted * row[j];
  }
}

std::optional<std::vector<double>> LeastSquares::solve(std::span<const double> ridge) const {
  // Cholesky, L Lᵀ = Σ w x xᵀ + ridge.
  constexpr double kDependent = 1e-10;  // Minimum share of a column that other columns do not explain.
  std::vector<double> lower = products_;
  std::vector<double> solution = right_;
  for (std::size_t i = 0; i < columns_; ++i) {
    double* row = lower.data() + i * columns_;
    if (!ridge.empty()) row[i] += ridge[i];
    const double whole = row[i];
    for (std::size_t j = 0; j <= i; ++j) {
      const double* other = lower.data() + j * columns_;
      double rest = row[j];
      for (std::size_t k = 0; k < j; ++k) rest -= row[k] * other[k];
      if (j < i) {
        row[j] = rest / other[j];
        continue;
      }
      if (!(rest > kDependent * whole)) return std::nullopt;
      row[i] = std::sqrt(rest);
    }
    for (std::size_t k = 0; k < i; ++k) solution[i] -= row[k] * solution[k];
    solution[i] /= row[i];
  }
  for (std::size_t i = columns_; i-- > 0;) {
    for (std::size_t k = i + 1; k < columns_; ++k) solution[i] -= lower[k * columns_ + i] * solution[k];
    solution[i] /= lower[i * columns_ + i];
  }
  return solution;
}

}  // namespace penstock::forecast
