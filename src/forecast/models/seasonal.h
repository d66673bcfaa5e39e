// "seasonal": Holt-Winters with a day and a week, for intervals of seconds. A season of 17,280 indices, one per 5 s,
// would hold noise; so a day has at most 96 indices and a week 168, read off between the middles of two.
//   value ≈ level · day(t) · week(t)
//   level = Σ w y / Σ w day week, weights w falling by e in 5 minutes         (α of Holt-Winters, as a time)
//   trend = change of the level per step, smoothed over 30 minutes, damped by e in 5 minutes    (β, φ)
//   day[i] += 0.3 · (mean of y in bin i / level of the last hours - day[i]) when bin i ends    (γ)
// The level of the last hours is as that above, with weights falling by e in an eighth of the period: the fast one would
// take in what is season. The level does not move along the trend between two values, as Holt's does: on traffic that
// costs more in noise than a few minutes of lag. The indices of the week are those of y / day. Each becomes known when
// one period was seen; until then they are 1. Indices are multiples, so a quiet day is a smaller copy of a busy one.
#pragma once

#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "forecast/model.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

// How a series runs through a period, as multiples of its mean.
class SeasonProfile {
 public:
  SeasonProfile(core::Duration period, std::size_t bins);

  void observe(core::Instant middle, double value);  // the mean over an interval with this middle
  [[nodiscard]] bool ready() const { return !index_.empty(); }
  [[nodiscard]] double factor(core::Instant middle) const;  // 1 until ready; never below kFactorMin

  static constexpr double kFactorMin = 0.05;

  void archive(core::StateArchive& state) {
    state("season", open_, means_, first_, index_, level_values_, level_factors_);
    if ((!index_.empty() && index_.size() != bins_) || (!means_.empty() && means_.size() != bins_))
      state.fail("has another number of bins");
  }

 private:
  struct OpenBin {
    std::int64_t number = 0;  // periods count on
    double sum = 0.0;
    double count = 0.0;
    void archive(core::StateArchive& state) { state.values_of(number, sum, count); }
  };
  [[nodiscard]] double bins_since_start(core::Instant middle) const;
  void close(const OpenBin& bin);
  void begin();
  [[nodiscard]] double level_keep() const;  // per bin

  core::Duration period_;
  std::size_t bins_;
  std::optional<OpenBin> open_;
  std::vector<std::optional<double>> means_;  // of each bin of the first period
  std::optional<std::int64_t> first_;         // the first bin ever seen
  std::vector<double> index_;                 // empty until the first period was seen
  double level_values_ = 0.0, level_factors_ = 0.0;
};

class SeasonalModel final : public Model {
 public:
  explicit SeasonalModel(const PredictorOptions& options);

  void update(const Point& point) override;
  [[nodiscard]] bool ready() const override { return weight_ > 0.0; }
  void expect(std::span<double> path) const override;

  void archive(core::StateArchive& state) override {
    day_.archive(state);
    if (week_) week_->archive(state);
    state("level", weighted_values_, weighted_factors_, weight_, level_, trend_, last_);
  }

 private:
  [[nodiscard]] double factor(core::Instant middle) const;

  core::Duration interval_;
  SeasonProfile day_;
  std::optional<SeasonProfile> week_;
  double level_keep_, trend_keep_, trend_damping_;  // per step
  double weighted_values_ = 0.0, weighted_factors_ = 0.0, weight_ = 0.0;
  double level_ = 0.0, trend_ = 0.0;
  Point last_;
};

}  // namespace penstock::forecast
