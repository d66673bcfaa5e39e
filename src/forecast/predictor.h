// Traffic predictors for a planner that must order replicas one start-up time ahead. A predictor observes samples of
// one series and returns the level and the peak over a horizon, with quantiles. Equal samples give equal forecasts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/state_archive.h"
#include "core/time.h"
#include "forecast/distribution.h"
#include "forecast/intake.h"

namespace penstock::forecast {

// Maximum number of intervals in a horizon or window; longer horizons are truncated.
inline constexpr std::int64_t kStepsMax = 4096;

// Horizon in intervals: rounded up, at least 1 and at most kStepsMax.
[[nodiscard]] std::int64_t steps_of(core::Duration horizon, core::Duration interval);

// Forecast for (from, from + horizon].
struct Forecast {
  core::Instant from;        // Time of the last sample.
  core::Duration horizon{};  // Whole intervals.
  Distribution level;        // Distribution of the mean over the horizon.
  Distribution peak;         // Distribution of the highest mean over a peak window within the horizon.
  // Number of past forecasts that the quantiles are based on. Below kFewOutcomes a prior contributes.
  std::size_t outcomes = 0;
};
inline constexpr std::size_t kFewOutcomes = 20;

// The defaults suit intervals of 5 s to 60 s.
struct PredictorOptions {
  core::Duration interval = std::chrono::seconds{10};  // Time between samples.
  // Horizons at which errors are collected, ascending; forecasts between them are interpolated. The start-up time
  // should be one of them.
  std::vector<core::Duration> horizons = {std::chrono::seconds{60}, std::chrono::seconds{120},
                                          std::chrono::seconds{240}, std::chrono::seconds{360}};
  core::Duration peak_window{};                    // Rounded to intervals; 0 means one interval.
  core::Duration gap_max = std::chrono::hours{6};  // Longer gaps count as a clock jump.

  core::Duration level_window = std::chrono::seconds{60};   // Averaging window of the "constant" model.
  core::Duration trend_window = std::chrono::minutes{10};   // Regression window of the "linear" model.
  core::Duration season = std::chrono::hours{24};           // Period of the "seasonal" and "decomposition" models.
  core::Duration long_season = std::chrono::hours{24 * 7};  // A multiple of the season; 0 means none.
  // Variances of the "kalman" model for a time step of one minute, rescaled to the interval.
  double q_level = 1.0;
  double q_trend = 0.1;
  double r = 10.0;
  double initial_variance = 0.0;  // Of the level and of the trend before the first sample; 0: from the three above.
  core::Duration memory = std::chrono::minutes{30};  // Half-life of errors in "auto".
};

class Predictor {
 public:
  virtual ~Predictor() = default;

  // History is observed in the same way, oldest first. Returns false if the sample was dropped; see rejections().
  virtual bool observe(const Sample& sample) = 0;

  // Empty until ready(): a missing forecast is not a forecast of 0. The horizon is rounded up to whole intervals, at
  // least one.
  [[nodiscard]] virtual std::optional<Forecast> forecast(core::Duration horizon) const = 0;

  [[nodiscard]] virtual bool ready() const = 0;
  [[nodiscard]] virtual const std::optional<Point>& last() const = 0;  // The last accepted sample.
  [[nodiscard]] virtual const Rejections& rejections() const = 0;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Name of the predictor whose forecast is used at this horizon: the choice of "auto", or the predictor's own name.
  [[nodiscard]] virtual std::string_view chosen(core::Duration horizon) const = 0;
  // Saves or restores what was learned. It is restored into a predictor that was made with the same options.
  virtual void archive(core::StateArchive& state) = 0;
};

// Returns "constant", "linear", "seasonal", "arima", "kalman", "decomposition" and "auto".
[[nodiscard]] std::vector<std::string_view> predictor_names();
[[nodiscard]] core::Result<std::unique_ptr<Predictor>> make_predictor(std::string_view name,
                                                                      const PredictorOptions& options = {});

}  // namespace penstock::forecast
