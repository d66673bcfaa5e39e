// Traffic as three series that are forecast side by side: how many requests come, how long their prompts are, how long
// their answers.
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
[[nodiscard]] const char* to_string(Series series);  // "requests_per_s", "input_tokens", "output_tokens"

// One interval. What was not measured is none: an interval without requests has a rate of 0 and no mean length.
struct TrafficSample {
  core::Instant at;  // end of the interval
  std::optional<double> requests_per_s;
  std::optional<double> input_tokens;   // mean of the prompts that came
  std::optional<double> output_tokens;  // mean of the answers that ended
};

inline constexpr core::Duration kHistoryMax = std::chrono::hours{24 * 28};

// A past of the traffic, oldest first, moved in time so that its last sample is at `end`, and brought to `interval`:
// shorter samples become one mean (lengths weigh by the requests that had them), longer ones leave intervals without a
// sample. Left out are values that no series can have, samples that are not later than those before or later than the
// last, and what is kHistoryMax or more before the last.
[[nodiscard]] std::vector<TrafficSample> aligned_history(std::span<const TrafficSample> history,
                                                         core::Duration interval, core::Instant end);

struct TrafficForecast {
  std::optional<Forecast> requests_per_s, input_tokens, output_tokens;  // none: not known yet
};

struct TrafficOptions {
  std::string rate_predictor = "auto";
  std::string length_predictor = "auto";
  core::Duration horizon = std::chrono::seconds{120};  // the start-up time: where accuracy is measured
  std::size_t scores_kept = Accuracy::kKept;           // the latest forecasts that accuracy is the mean of
  PredictorOptions predictor;                          // its horizons get `horizon` added
};

class TrafficForecaster {
 public:
  // Errors: a name that no predictor has, options out of range; they name the series.
  [[nodiscard]] static core::Result<TrafficForecaster> make(const TrafficOptions& options);

  // History is observed in the same way, oldest first; it fills states, quantiles and accuracy alike. Values that are
  // refused are counted in rejections() of their series; the others are taken.
  void observe(const TrafficSample& sample);

  [[nodiscard]] TrafficForecast forecast(core::Duration horizon) const;
  [[nodiscard]] std::optional<Forecast> forecast(Series series, core::Duration horizon) const {
    return lane(series).predictor->forecast(horizon);
  }

  [[nodiscard]] AccuracyReport accuracy(Series series) const { return lane(series).accuracy.report(); }
  [[nodiscard]] const Rejections& rejections(Series series) const { return lane(series).predictor->rejections(); }
  [[nodiscard]] std::string_view chosen(Series series, core::Duration horizon) const {
    return lane(series).predictor->chosen(horizon);
  }

  void archive(core::StateArchive& state) {
    for (Lane& lane : lanes_) {
      lane.predictor->archive(state);
      lane.accuracy.archive(state);
    }
  }

 private:
  struct Lane {
    std::unique_ptr<Predictor> predictor;
    Accuracy accuracy;
  };
  TrafficForecaster(std::vector<Lane> lanes, core::Duration horizon) : lanes_(std::move(lanes)), horizon_(horizon) {}

  [[nodiscard]] const Lane& lane(Series series) const { return lanes_[static_cast<std::size_t>(series)]; }
  void observe(Series series, core::Instant at, std::optional<double> value);

  std::vector<Lane> lanes_;  // by Series
  core::Duration horizon_;
};

}  // namespace penstock::forecast
