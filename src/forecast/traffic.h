// Forecasts of three traffic series: request rate, prompt length and response length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/state_archive.h"
#include "forecast/accuracy.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

enum class Series : std::uint8_t { kRequestRate, kInputTokens, kOutputTokens };
inline constexpr std::size_t kSeriesCount = 3;
// Returns "requests_per_s", "input_tokens" or "output_tokens".
[[nodiscard]] const char* to_string(Series series);

// One interval. Fields that were not measured are empty: an interval without requests has a rate of 0 and no mean
// lengths.
struct TrafficSample {
  core::Instant at;  // End of the interval.
  std::optional<double> requests_per_s;
  std::optional<double> input_tokens;   // Mean of the prompts that arrived.
  std::optional<double> output_tokens;  // Mean of the responses that ended.
};

inline constexpr core::Duration kHistoryMax = std::chrono::hours{24 * 28};

// Returns a traffic history, oldest first, shifted so that its last sample is at `end`, and resampled to `interval`:
// shorter samples are averaged (lengths weighted by their requests), longer ones leave intervals without a sample.
// Invalid values, samples that are out of order, and samples kHistoryMax or more before the last are dropped.
[[nodiscard]] std::vector<TrafficSample> aligned_history(std::span<const TrafficSample> history,
                                                         core::Duration interval, core::Instant end);

struct TrafficForecast {
  std::optional<Forecast> requests_per_s, input_tokens, output_tokens;  // Empty if unknown.
};

struct TrafficOptions {
  std::string rate_predictor = "auto";
  std::string length_predictor = "auto";
  core::Duration horizon = std::chrono::seconds{120};  // The start-up time, at which accuracy is measured.
  std::size_t scores_max = Accuracy::kKept;            // Number of recent forecasts that accuracy is averaged over.
  PredictorOptions predictor;                          // Its horizons are extended by `horizon`.
};

class TrafficForecaster {
 public:
  // Errors name the series: unknown predictors and options out of range.
  [[nodiscard]] static core::Result<TrafficForecaster> make(const TrafficOptions& options);

  // History is observed in the same way, oldest first, and updates states, quantiles and accuracy. Invalid values are
  // counted in rejections() of their series; the others are used.
  void observe(const TrafficSample& sample);

  [[nodiscard]] TrafficForecast forecast(core::Duration horizon) const;
  [[nodiscard]] std::optional<Forecast> forecast(Series series, core::Duration horizon) const {
    return state_of(series).predictor->forecast(horizon);
  }

  [[nodiscard]] AccuracyReport accuracy(Series series) const { return state_of(series).accuracy.report(); }
  [[nodiscard]] const Rejections& rejections(Series series) const { return state_of(series).predictor->rejections(); }
  [[nodiscard]] std::string_view chosen(Series series, core::Duration horizon) const {
    return state_of(series).predictor->chosen(horizon);
  }

  void archive(core::StateArchive& state) {
    for (SeriesState& each : series_) {
      each.predictor->archive(state);
      each.accuracy.archive(state);
    }
  }

 private:
  struct SeriesState {
    std::unique_ptr<Predictor> predictor;
    Accuracy accuracy;
  };
  TrafficForecaster(std::vector<SeriesState> states, core::Duration horizon)
      : series_(std::move(states)), horizon_(horizon) {}

  [[nodiscard]] const SeriesState& state_of(Series series) const { return series_[static_cast<std::size_t>(series)]; }
  void observe(Series series, core::Instant at, std::optional<double> value);

  std::vector<SeriesState> series_;  // Indexed by Series.
  core::Duration horizon_;
};

}  // namespace penstock::forecast
