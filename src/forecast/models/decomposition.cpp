#include "forecast/models/decomposition.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "forecast/least_squares.h"

namespace penstock::forecast {
namespace {

constexpr std::size_t kChangepoints = 10;
constexpr double kChangepointRange = 0.8;
constexpr std::size_t kSeasonOrder = 6;
constexpr std::size_t kLongSeasonOrder = 3;
// Ridge per row. A change of slope costs more than a season, so that periodic changes are explained by the season.
constexpr double kRidgeTrend = 1e-6;
constexpr double kRidgeChange = 0.02;
constexpr double kRidgeSeason = 1e-4;
constexpr core::Duration kRowWidthMin = std::chrono::minutes{1};
constexpr core::Duration kOffsetTime = std::chrono::minutes{5};
constexpr core::Duration kFadeTime = std::chrono::minutes{60};
constexpr int kLongSeasonsMax = 4;

// Sine and cosine of the first `order` harmonics by the addition theorem, with one sine per period instead of one per
// term.
void fill_harmonics(double angle, std::size_t order, double* out) {
  const double sine = std::sin(angle);
  const double cosine = std::cos(angle);
  double s = sine, c = cosine;
  for (std::size_t n = 0; n < order; ++n) {
    out[2 * n] = s;
    out[2 * n + 1] = c;
    const double next = s * cosine + c * sine;
    c = c * cosine - s * sine;
    s = next;
  }
}

}  // namespace

DecompositionModel::DecompositionModel(const PredictorOptions& options)
    : interval_(options.interval),
      season_(options.season),
      long_season_(options.long_season),
      row_width_(std::max(options.interval, kRowWidthMin)),
      decay_per_step_(std::exp(-core::ratio(options.interval, kOffsetTime))),
      fade_per_step_(std::exp(-core::ratio(options.interval, kFadeTime))) {}

std::size_t DecompositionModel::columns() const {
  return 2 + kChangepoints + (with_season_ ? 2 * kSeasonOrder : 0) + (with_long_season_ ? 2 * kLongSeasonOrder : 0);
}

core::Instant DecompositionModel::middle_of(const Row& row) const {
  return core::Instant{} + row.number * row_width_ + row_width_ / 2;
}

void DecompositionModel::fill(core::Instant middle, std::vector<double>& row) const {
  const double time = core::ratio(middle - fit_start_, fit_span_);
  row.resize(columns());
  row[0] = 1.0;
  row[1] = time;
  for (std::size_t j = 0; j < kChangepoints; ++j) {
    const double change = kChangepointRange * static_cast<double>(j + 1) / static_cast<double>(kChangepoints);
    row[2 + j] = std::max(0.0, time - change);
  }
  const auto angle = [&](core::Duration period) {
    return 2.0 * std::numbers::pi * core::ratio(middle.time_since_epoch() % period, period);
  };
  double* out = row.data() + 2 + kChangepoints;
  if (with_season_) {
    fill_harmonics(angle(season_), kSeasonOrder, out);
    out += 2 * kSeasonOrder;
  }
  if (with_long_season_) fill_harmonics(angle(long_season_), kLongSeasonOrder, out);
}

double DecompositionModel::curve(core::Instant middle, std::vector<double>& row) const {
  fill(middle, row);
  double value = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i) value += row[i] * coefficients_[i];
  return value;
}

void DecompositionModel::keep(core::Instant middle, double value) {
  const core::Duration since = middle.time_since_epoch();
  const auto number = static_cast<std::int64_t>(std::floor(core::ratio(since, row_width_)));
  if (!rows_.empty() && number < rows_.back().number) rows_.clear();  // The clock moved back.
  if (!rows_.empty() && rows_.back().number == number) {
    rows_.back().sum += value;
    rows_.back().count += 1.0;
    return;
  }
  rows_.push_back({number, value, 1.0});
  if (rows_.size() <= kRowsMax) return;
  const core::Duration span = (rows_.back().number - rows_.front().number) * row_width_;
  if (span < kLongSeasonsMax * std::max(season_, long_season_)) return merge_rows();
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(kRowsMax / 16));
}

void DecompositionModel::merge_rows() {
  row_width_ *= 2;
  std::vector<Row> merged;
  for (const Row& row : rows_) {
    const std::int64_t number = row.number >> 1;  // Rounds down for negative numbers, too.
    if (merged.empty() || merged.back().number != number) {
      merged.push_back({number, row.sum, row.count});
      continue;
    }
    merged.back().sum += row.sum;
    merged.back().count += row.count;
  }
  rows_ = std::move(merged);
}

void DecompositionModel::update(const Point& point) {
  const core::Instant middle = point.at - interval_ / 2;
  keep(middle, point.value);
  std::vector<double> row;
  if (ready()) {
    const double steps = static_cast<double>(point.step - last_.step);
    const double keep = std::pow(decay_per_step_, steps);
    offset_ = keep * std::pow(fade_per_step_, steps) * offset_ + (1.0 - keep) * (point.value - curve(middle, row));
  }
  last_ = point;
  if (until_fit_ > 0) --until_fit_;
  if (until_fit_ > 0 || rows_.size() < kRowsMin) return;
  until_fit_ = kPointsPerFit;
  if (!ready()) return refit();
  const double before = curve(middle, row);
  refit();
  offset_ += before - curve(middle, row);  // A new curve does not change the current value.
}

void DecompositionModel::refit() {
  fit_start_ = middle_of(rows_.front());
  fit_span_ = middle_of(rows_.back()) - fit_start_;
  with_season_ = fit_span_ + row_width_ >= season_;
  with_long_season_ = long_season_.count() > 0 && fit_span_ + row_width_ >= long_season_;

  LeastSquares squares(columns());
  std::vector<double> row;
  double weight = 0.0;
  for (const Row& each : rows_) {
    fill(middle_of(each), row);
    squares.add(row, each.sum / each.count, each.count);
    weight += each.count;
  }
  std::vector<double> ridge(columns(), kRidgeSeason * weight);
  std::fill_n(ridge.begin(), 2, kRidgeTrend * weight);
  std::fill_n(ridge.begin() + 2, kChangepoints, kRidgeChange * weight);
  if (auto solution = squares.solve(ridge)) {
    coefficients_ = std::move(*solution);
  } else {
    coefficients_.assign(columns(), 0.0);
  }
}

void DecompositionModel::expect(std::span<double> path) const {
  std::vector<double> row;
  core::Instant middle = last_.at - interval_ / 2;
  double offset = offset_;
  for (double& value : path) {
    middle += interval_;
    offset *= fade_per_step_;
    value = curve(middle, row) + offset;
  }
}

}  // namespace penstock::forecast
