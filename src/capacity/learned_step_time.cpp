#include "capacity/learned_step_time.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/result.h"

namespace penstock::capacity {
namespace {

constexpr std::uint64_t kIntervalsLeast = 10;
constexpr double kRidge = 1e-9;          // Share of each regressor's own weight; keeps collinear regressors solvable.
constexpr double kStepMsLeast = 1e-3;    // Lower bound of the step time.
constexpr double kCoefficientMax = 1e6;  // Milliseconds; engine::Linear accepts up to an hour.

class Learned final : public engine::StepTimeModel {
 public:
  explicit Learned(const engine::Linear& law) : law_{law} {}
  [[nodiscard]] core::Duration step(const engine::StepShape& shape) const override { return law_.step(shape); }
  [[nodiscard]] engine::DecodeRun decode_run(const engine::StepShape& shape, std::uint32_t steps,
                                             core::Duration limit) const override {
    return law_.decode_run(shape, steps, limit);
  }
  [[nodiscard]] std::string description() const override {
    const std::string law = law_.description();
    return "learned" + law.substr(law.find(':'));
  }

 private:
  engine::Linear law_;
};

// Least squares with the coefficients outside of `chosen` (bits) fixed at zero. Empty if any coefficient is negative.
std::optional<Eigen::Vector4d> solve(const Eigen::Matrix4d& normal, const Eigen::Vector4d& moment, unsigned chosen) {
  Eigen::Matrix4d matrix = Eigen::Matrix4d::Identity();
  Eigen::Vector4d right = Eigen::Vector4d::Zero();
  for (int i = 0; i < 4; ++i) {
    if ((chosen >> i & 1U) == 0) continue;
    right(i) = moment(i);
    for (int j = 0; j < 4; ++j)
      if ((chosen >> j & 1U) != 0) matrix(i, j) = normal(i, j) * (i == j ? 1.0 + kRidge : 1.0);
  }
  const Eigen::Vector4d solution = matrix.ldlt().solve(right);
  if (!solution.allFinite() || solution.minCoeff() < 0.0) return std::nullopt;
  return solution;
}

}  // namespace

LearnedStepTime::Row LearnedStepTime::row_of(const core::IterationSums& sums, std::uint64_t new_tokens,
                                             std::uint64_t context_tokens) {
  return {static_cast<double>(sums.steps), static_cast<double>(new_tokens), static_cast<double>(sums.decode_sequences),
          static_cast<double>(sums.decode_context_tokens + context_tokens)};
}

void LearnedStepTime::add_row(const Row& row, double busy_ms) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (std::size_t j = 0; j < row.size(); ++j) normal_[i][j] += row[i] * row[j] / busy_ms;
    moment_[i] += row[i];
  }
}

void LearnedStepTime::add(const IterationInterval& interval, double kept) {
  const core::IterationTotals& done = interval.done;
  PENSTOCK_ASSERT(done.steps() > 0 && kept >= 0.0 && kept <= 1.0, "the caller looks at the interval first");
  for (std::size_t i = 0; i < moment_.size(); ++i) {
    for (double& sum : normal_[i]) sum *= kept;
    moment_[i] *= kept;
  }
  if (done.prefill.steps > 0)
    add_row(row_of(done.prefill, done.prefill_new_tokens, done.prefill_context_tokens),
            core::to_milliseconds(done.prefill.busy));
  if (done.decode.steps > 0) add_row(row_of(done.decode, 0, 0), core::to_milliseconds(done.decode.busy));
  ++intervals_;
}

// Solves fifteen small systems, one per set of positive coefficients: exact and without an iteration limit.
std::optional<engine::LinearCoefficients> LearnedStepTime::coefficients() const {
  if (intervals_ < kIntervalsLeast) return std::nullopt;
  // Symmetric, so the storage order does not matter.
  const Eigen::Map<const Eigen::Matrix4d> sums{normal_.front().data()};
  Eigen::Vector4d scale = Eigen::Vector4d::Ones();  // Regressors of equal size are numerically stable.
  unsigned seen = 0;
  for (int i = 0; i < 4; ++i) {
    if (!(sums(i, i) > 0.0)) continue;
    scale(i) = 1.0 / std::sqrt(sums(i, i));
    seen |= 1U << i;
  }
  const Eigen::Matrix4d normal = scale.asDiagonal() * sums * scale.asDiagonal();
  const Eigen::Vector4d moment = scale.asDiagonal() * Eigen::Vector4d{moment_.data()};
  std::optional<Eigen::Vector4d> best;
  double least = 0.0;
  for (unsigned chosen = 1; chosen < 16; ++chosen) {
    if ((chosen & ~seen) != 0) continue;
    const auto solution = solve(normal, moment, chosen);
    if (!solution) continue;
    const double loss = solution->dot(normal * *solution) - 2.0 * moment.dot(*solution);
    if (best && loss >= least) continue;
    best = solution;
    least = loss;
  }
  if (!best) return std::nullopt;
  const Eigen::Vector4d found = scale.asDiagonal() * *best;
  if (!found.allFinite() || found.maxCoeff() > kCoefficientMax) return std::nullopt;
  return engine::LinearCoefficients{std::max(found(0), kStepMsLeast), found(2), found(1), found(3)};
}

std::shared_ptr<const engine::StepTimeModel> LearnedStepTime::model() const {
  const auto found = coefficients();
  if (!found) return nullptr;
  const auto law = engine::Linear::make(*found);
  if (!law) return nullptr;
  return std::make_shared<const Learned>(*law);
}

}  // namespace penstock::capacity
