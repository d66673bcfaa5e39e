#include "forecast/models/seasonal.h"

#include <algorithm>
#include <cmath>

namespace penstock::forecast {
namespace {

constexpr core::Duration kLevelTime = std::chrono::minutes{5};
constexpr core::Duration kTrendTime = std::chrono::minutes{30};
constexpr core::Duration kTrendDamping = std::chrono::minutes{5};
constexpr double kIndexGain = 0.3;
constexpr std::int64_t kDayBins = 96;
constexpr std::int64_t kWeekBins = 168;
constexpr double kLevelsPerPeriod = 8.0;
// Limits the effect of a single flash crowd on the season.
constexpr double kChangeMax = 1.5;
// Share of the first period that must be observed before its profile is used.
constexpr double kObservedShareMin = 0.8;

std::size_t bins_of(core::Duration period, core::Duration interval, std::int64_t bins_max) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(period / interval, 2, bins_max));
}

}  // namespace

SeasonProfile::SeasonProfile(core::Duration period, std::size_t bins) : period_(period), bins_(bins), means_(bins) {}

double SeasonProfile::bins_since_start(core::Instant middle) const {
  return core::ratio(middle.time_since_epoch(), period_) * static_cast<double>(bins_);
}

void SeasonProfile::observe(core::Instant middle, double value) {
  const auto number = static_cast<std::int64_t>(std::floor(bins_since_start(middle)));
  if (open_ && open_->number != number) {
    close(*open_);
    open_.reset();
  }
  if (!open_) open_ = OpenBin{number};
  open_->sum += value;
  open_->count += 1.0;
}

void SeasonProfile::close(const OpenBin& bin) {
  const auto bins = static_cast<std::int64_t>(bins_);
  const auto index = static_cast<std::size_t>(((bin.number % bins) + bins) % bins);
  const double mean = bin.sum / bin.count;
  if (!first_) first_ = bin.number;
  if (!ready()) {
    means_[index] = mean;
    if (bin.number - *first_ + 1 >= bins) begin();
    return;
  }
  const double keep = level_decay();
  level_values_ = keep * level_values_ + mean;
  level_factors_ = keep * level_factors_ + index_[index];
  const double level = level_values_ / level_factors_;
  if (level <= 0.0) return;
  const double before = std::max(index_[index], kFactorMin);
  index_[index] += kIndexGain * (std::clamp(mean / level, before / kChangeMax, before * kChangeMax) - index_[index]);
  // The season has a mean of 1; the rest is the level.
  double sum = 0.0;
  for (const double factor : index_) sum += factor;
  for (double& factor : index_) factor *= static_cast<double>(bins_) / sum;
}

double SeasonProfile::level_decay() const { return std::exp(-kLevelsPerPeriod / static_cast<double>(bins_)); }

void SeasonProfile::begin() {
  double sum = 0.0;
  std::size_t observed = 0;
  for (const std::optional<double>& mean : means_) {
    sum += mean.value_or(0.0);
    observed += mean ? 1 : 0;
  }
  const double average = observed > 0 ? sum / static_cast<double>(observed) : 0.0;
  if (average <= 0.0 || static_cast<double>(observed) < kObservedShareMin * static_cast<double>(bins_)) return;
  // A bin without observations copies the previous one; the loop starts after the first observed bin.
  std::size_t start = 0;
  while (!means_[start]) ++start;
  index_.assign(bins_, 1.0);
  double before = 0.0;
  for (std::size_t i = 0; i < bins_; ++i) {
    const std::size_t index = (start + i) % bins_;
    before = means_[index].value_or(before * average) / average;
    index_[index] = before;
  }
  level_factors_ = 1.0 / (1.0 - level_decay());
  level_values_ = average * level_factors_;
}

double SeasonProfile::factor(core::Instant middle) const {
  if (!ready()) return 1.0;
  const double position = bins_since_start(middle) - 0.5;
  const double below = std::floor(position);
  const auto bins = static_cast<std::int64_t>(bins_);
  const auto index = [&](std::int64_t number) { return static_cast<std::size_t>(((number % bins) + bins) % bins); };
  const double low = index_[index(static_cast<std::int64_t>(below))];
  const double high = index_[index(static_cast<std::int64_t>(below) + 1)];
  return std::max(kFactorMin, low + (position - below) * (high - low));
}

SeasonalModel::SeasonalModel(const PredictorOptions& options)
    : interval_(options.interval),
      day_(options.season, bins_of(options.season, options.interval, kDayBins)),
      level_decay_(std::exp(-core::ratio(options.interval, kLevelTime))),
      trend_decay_(std::exp(-core::ratio(options.interval, kTrendTime))),
      trend_damping_(std::exp(-core::ratio(options.interval, kTrendDamping))) {
  if (options.long_season.count() > 0)
    week_.emplace(options.long_season, bins_of(options.long_season, options.interval, kWeekBins));
}

double SeasonalModel::factor(core::Instant middle) const {
  return day_.factor(middle) * (week_ ? week_->factor(middle) : 1.0);
}

void SeasonalModel::update(const Point& point) {
  const core::Instant middle = point.at - interval_ / 2;
  const double known = factor(middle);
  if (week_ && day_.ready()) week_->observe(middle, point.value / day_.factor(middle));
  day_.observe(middle, point.value);
  const double now = factor(middle);
  // The level is the series divided by its factor; if the factor changed, the level changes inversely.
  weighted_factors_ *= now / known;
  level_ *= known / now;
  trend_ *= known / now;

  const double steps = weight_ > 0.0 ? static_cast<double>(point.step - last_.step) : 1.0;
  const double keep = std::pow(level_decay_, steps);
  weighted_values_ = keep * weighted_values_ + (1.0 - keep) * point.value;
  weighted_factors_ = keep * weighted_factors_ + (1.0 - keep) * now;
  const double level = weighted_values_ / weighted_factors_;
  if (weight_ > 0.0) {
    const double trend_keep = std::pow(trend_decay_, steps);
    trend_ = trend_keep * trend_ + (1.0 - trend_keep) * (level - level_) / steps;
  }
  weight_ = keep * weight_ + (1.0 - keep);
  level_ = level;
  last_ = point;
}

void SeasonalModel::expect(std::span<double> path) const {
  double level = level_;
  double trend = trend_;
  core::Instant middle = last_.at - interval_ / 2;
  for (double& value : path) {
    trend *= trend_damping_;
    level += trend;
    middle += interval_;
    value = level * factor(middle);
  }
}

}  // namespace penstock::forecast
