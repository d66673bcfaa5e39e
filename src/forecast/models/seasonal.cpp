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
// Share of the first period that must have been seen before its shape is believed.
constexpr double kSeenMin = 0.8;

double ratio(core::Duration a, core::Duration b) {
  return static_cast<double>(a.count()) / static_cast<double>(b.count());
}

std::size_t bins_of(core::Duration period, core::Duration interval, std::int64_t bins_max) {
  return static_cast<std::size_t>(std::clamp<std::int64_t>(period / interval, 2, bins_max));
}

}  // namespace

SeasonProfile::SeasonProfile(core::Duration period, std::size_t bins) : period_(period), bins_(bins), means_(bins) {}

double SeasonProfile::bins_since_start(core::Instant middle) const {
  return ratio(middle.time_since_epoch(), period_) * static_cast<double>(bins_);
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
  const auto place = static_cast<std::size_t>(((bin.number % bins) + bins) % bins);
  const double mean = bin.sum / bin.count;
  if (!ready()) {
    if (!means_[place]) ++closed_;
    means_[place] = mean;
    // The period is complete with its last bin, or when it began anew.
    return begin();
  }
  means_[place] = mean;
  double sum = 0.0, count = 0.0;
  for (const std::optional<double>& seen : means_) {
    if (seen) sum += *seen;
    count += seen ? 1.0 : 0.0;
  }
  if (sum > 0.0) index_[place] += kIndexGain * (mean * count / sum - index_[place]);
}

void SeasonProfile::begin() {}

double SeasonProfile::factor(core::Instant middle) const {
  if (!ready()) return 1.0;
  const double position = bins_since_start(middle) - 0.5;
  const double below = std::floor(position);
  const auto bins = static_cast<std::int64_t>(bins_);
  const auto place = [&](std::int64_t number) { return static_cast<std::size_t>(((number % bins) + bins) % bins); };
  const double low = index_[place(static_cast<std::int64_t>(below))];
  const double high = index_[place(static_cast<std::int64_t>(below) + 1)];
  return std::max(kFactorMin, low + (position - below) * (high - low));
}

}  // namespace penstock::forecast
