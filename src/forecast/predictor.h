// Predictors of traffic, for a planner that must order replicas a start-up time before they serve. A predictor takes
// samples of one series and gives, for a horizon, the level and the peak that are to come, with quantiles. Values in,
// values out: equal samples give equal forecasts.
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

inline constexpr std::int64_t kStepsMax = 4096;  // intervals in a horizon or a window; a longer horizon is cut

// A horizon in intervals: rounded up, at least 1 and at most kStepsMax.
[[nodiscard]] std::int64_t steps_of(core::Duration horizon, core::Duration interval);

// What comes in (from, from + horizon].
struct Forecast {
  core::Instant from;        // the last sample
  core::Duration horizon{};  // whole intervals
  Distribution level;        // of the mean over the horizon
  Distribution peak;         // of the greatest mean over a peak window within it
  std::size_t outcomes =
      0;  // passed forecasts that the quantiles rest on; below kFewOutcomes a prior has a part in them
};
inline constexpr std::size_t kFewOutcomes = 20;

// Defaults suit an interval of 5 s to 60 s.
struct PredictorOptions {
  core::Duration interval = std::chrono::seconds{10};  // between samples
  // Horizons at which errors are collected, ascending; forecasts between them interpolate. Name the start-up time.
  std::vector<core::Duration> horizons = {std::chrono::seconds{60}, std::chrono::seconds{120},
                                          std::chrono::seconds{240}, std::chrono::seconds{360}};
  core::Duration peak_window{};                    // rounded to intervals; 0: one interval
  core::Duration gap_max = std::chrono::hours{6};  // longer silence counts as a jump of the clock

  core::Duration level_window = std::chrono::seconds{60};   // constant: the mean of this long
  core::Duration trend_window = std::chrono::minutes{10};   // linear: the line through this long
  core::Duration season = std::chrono::hours{24};           // seasonal, decomposition
  core::Duration long_season = std::chrono::hours{24 * 7};  // a multiple of the season; 0: none
  // kalman: variances on a time step of one minute, rescaled to the interval.
  double q_level = 1.0;
  double q_trend = 0.1;
  double r = 10.0;
  core::Duration memory = std::chrono::minutes{30};  // auto: errors count half after this long
};

class Predictor {
 public:
  virtual ~Predictor() = default;

  // History is observed in the same way, oldest first. False: refused, see rejections().
  virtual bool observe(const Sample& sample) = 0;

  // None until ready: no forecast is not a forecast of 0. A horizon is rounded up to whole intervals, at least one.
  [[nodiscard]] virtual std::optional<Forecast> forecast(core::Duration horizon) const = 0;

  [[nodiscard]] virtual bool ready() const = 0;
  [[nodiscard]] virtual const std::optional<Point>& last() const = 0;  // the last sample that was accepted
  [[nodiscard]] virtual const Rejections& rejections() const = 0;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Whose forecast is given at this horizon: for "auto" the one it chose, for the others their own name.
  [[nodiscard]] virtual std::string_view chosen(core::Duration horizon) const = 0;
  // Saves or restores what was learned. It is restored into a predictor that was made with the same options.
  virtual void archive(core::StateArchive& state) = 0;
};

// "constant", "linear", "seasonal", "arima", "kalman", "decomposition", "auto".
[[nodiscard]] std::vector<std::string_view> predictor_names();
[[nodiscard]] core::Result<std::unique_ptr<Predictor>> make_predictor(std::string_view name,
                                                                      const PredictorOptions& options = {});

}  // namespace penstock::forecast
