// Least squares by normal equations, for the small fits of `arima` and `decomposition`.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace penstock::forecast {

// Minimises Σ weight (y - x·b)² + Σ ridge_i b_i². Adding a row costs O(n²/2), the solution O(n³/6).
class LeastSquares {
 public:
  explicit LeastSquares(std::size_t columns);

  void add(std::span<const double> row, double value, double weight = 1.0);

  // Empty if the columns are linearly dependent. `ridge` is empty or has one value per column.
  [[nodiscard]] std::optional<std::vector<double>> solve(std::span<const double> ridge = {}) const;

 private:
  std::size_t columns_;
  std::vector<double> products_;  // Lower triangle of Σ w x xᵀ, by rows.
  std::vector<double> right_;     // Σ w x y.
};

}  // namespace penstock::forecast
