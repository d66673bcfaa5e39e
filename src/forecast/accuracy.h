// Accuracy of forecasts relative to the naive forecast, which is that the level over the horizon equals the last value.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>

#include "core/state_archive.h"
#include "forecast/history.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

// Means over the latest forecasts whose horizon has passed. If `scored` is 0, the means are meaningless.
struct AccuracyReport {
  std::uint64_t scored = 0;
  double error = 0.0;                                        // |expected level - level|, in units of the series.
  double naive_error = 0.0;                                  // |last value - level|.
  double median_error = 0.0;                                 // |p50 - level|.
  double bias = 0.0;                                         // expected level - level.
  double pinball_p90 = 0.0;                                  // Pinball loss of the p90 of the level.
  double below_p50 = 0.0, below_p90 = 0.0, below_p95 = 0.0;  // Share of levels that are at most the quantile.
  double peak_below_p90 = 0.0;                               // The same share for the peak.

  // Like MASE (Hyndman and Koehler, International Journal of Forecasting 22, 2006), with the naive error at the same
  // times in the denominator: a value below 1 is better than naive. If the naive error is 0, the ratio is 1 without an
  // error and infinite otherwise.
  [[nodiscard]] double ratio() const;
};

// Scores one predictor at one horizon. At each time the caller settles the sample, lets the predictor observe it and
// adds its forecast. Memory is bounded by the horizon in intervals and by the number of kept scores.
class Accuracy {
 public:
  static constexpr std::size_t kKept = 1000;

  Accuracy(core::Duration interval, core::Duration horizon, core::Duration peak_window = {}, std::size_t kept = kKept);

  // Scores forecasts whose horizon ends at or before the point. Forecasts with less than half of their horizon observed
  // are dropped.
  void settle(const Point& point);
  // forecast.horizon must equal the horizon above, in whole intervals.
  void add(const Point& now, const Forecast& forecast);

  [[nodiscard]] AccuracyReport report() const;  // Linear in the number of kept scores.

  void archive(core::StateArchive& state) { state("accuracy", history_, pending_, scores_); }

 private:
  struct Pending {
    std::int64_t from;
    double last_value;
    double expected, p50, p90, p95, peak_p90;
    void archive(core::StateArchive& state) { state.values_of(from, last_value, expected, p50, p90, p95, peak_p90); }
  };
  struct Score {
    double error, naive_error, median_error, bias, pinball_p90;
    bool below_p50, below_p90, below_p95, peak_below_p90;
    void archive(core::StateArchive& state) {
      state.values_of(error, naive_error, median_error, bias, pinball_p90, below_p50, below_p90, below_p95,
                      peak_below_p90);
    }
  };
  static Score score(const Pending& pending, const Outcome& outcome);

  std::int64_t steps_;
  std::size_t peak_steps_, kept_;
  History history_;
  std::deque<Pending> pending_;
  std::deque<Score> scores_;
};

}  // namespace penstock::forecast
