// "seasonal": Holt-Winters with a day and a week, for intervals of seconds. A season of 17,280 indices, one per 5 s,
// would mostly hold noise; so a day has at most 96 indices and a week 168, interpolated between bin centres.
//   value ≈ level · day(t) · week(t)
//   level = Σ w y / Σ w day week, weights w decaying by the factor e in 5 minutes   (α of Holt-Winters, as a time)
//   trend = change of the level per step, smoothed over 30 minutes, damped by the factor e in 5 minutes    (β, φ)
//   day[i] += 0.3 · (mean of y in bin i / level of the last hours - day[i]) at the end of bin i    (γ)
// The level of the last hours has weights that decay by the factor e in an eighth of the period, because the fast level
// would absorb the season. Unlike in Holt's method, the level does not follow the trend between two values, which for
// traffic costs more in noise than a few minutes of lag. The indices of the week are those of y / day. An index is 1
// until one period was observed. Indices are factors, so a quiet day is a scaled copy of a busy one.
#pragma once

#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "forecast/model.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

// The profile of a series over a period, as multiples of its mean.
class SeasonProfile {
 public:
  SeasonProfile(core::Duration period, std::size_t bins);

  void observe(core::Instant middle, double value);  // `value` is the mean over an interval with this centre.
  [[nodiscard]] bool ready() const { return !index_.empty(); }
  [[nodiscard]] double factor(core::Instant middle) const;  // Returns 1 until ready; never below kFactorMin.

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
  [[nodiscard]] double level_decay() const;  // Decay per bin.

  core::Duration period_;
  std::size_t bins_;
  std::optional<OpenBin> open_;
  std::vector<std::optional<double>> means_;  // Means of the bins of the first period.
  std::optional<std::int64_t> first_;         // First bin with an observation.
  std::vector<double> index_;                 // Empty until the first period was observed.
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
  double level_decay_, trend_decay_, trend_damping_;  // Per step.
  double weighted_values_ = 0.0, weighted_factors_ = 0.0, weight_ = 0.0;
  double level_ = 0.0, trend_ = 0.0;
  Point last_;
};

}  // namespace penstock::forecast
