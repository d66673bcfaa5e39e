// Expected traffic over the start-up time of a replica, as far as forecasts have proved better than assuming no change.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/state_archive.h"
#include "core/time.h"
#include "forecast/accuracy.h"
#include "forecast/predictor.h"
#include "forecast/traffic.h"
#include "planner/policy.h"
#include "signals/observation.h"

namespace penstock::planner {

struct TrafficOutlookOptions {
  std::string predictor = "auto";                      // Predictor of the rate; see docs/forecast.md.
  std::string length_predictor = "auto";               // Predictor of mean prompt and response lengths.
  core::Duration interval = std::chrono::seconds{30};  // Time between samples.
  double quantile = 0.5;                               // Quantile of the rate over the horizon that growth() uses.
  double error_share = 0.95;                  // A predictor is trusted below this share of the error of "no change".
  double growth_min = 0.5, growth_max = 3.0;  // Bounds of growth().
};

// Three series are sampled and forecast together: the request rate and the mean prompt length where requests enter (the
// first pool that is not a decode pool), and the mean response length where they end (the last pool that is not a
// prefill pool).
//
// The baseline "no change" is the mean over the planning memory. Predictor and baseline are scored at the horizon on
// the same timestamps; the predictor is used only while its mean error is clearly smaller, so that for bursty traffic
// without a trend plans use the past, and for a rising load the forecast.
//
// Intervals with counter resets or clock jumps give no sample.
class TrafficOutlook {
 public:
  // Predictor names and the interval (above 0, at most a day) are validated when they are read. `memory` and `horizon`
  // are limited to 1 to 4096 intervals.
  TrafficOutlook(const TrafficOutlookOptions& options, core::Duration memory, core::Duration horizon);

  // Feeds a traffic history, oldest first, before the first observe(), so that predictors know its seasons and their
  // accuracy at once. The history is shifted so that its last sample ends at core::kStart; see
  // forecast::aligned_history for resampling and the limit of four weeks. About 10 to 100 microseconds per sample.
  void warm_up(std::span<const forecast::TrafficSample> history);

  // Called every tick. The first call initialises the counters; samples are taken at the interval.
  void observe(const signals::Observation& observation);

  // Expected multiple of `rate_per_s`, the mean of the memory, over the horizon; 1 if no predictor is trusted.
  [[nodiscard]] double growth(double rate_per_s) const;
  [[nodiscard]] bool trusted() const;  // Returns true if growth() uses the predictor.

  // Expectations of the predictors and errors of the rate, whether trusted or not.
  [[nodiscard]] Forecast expected() const;
  [[nodiscard]] forecast::TrafficForecast forecast() const;  // The same with all quantiles and peaks.

  void archive(core::StateArchive& state) {
    trend_.archive(state);
    still_->archive(state);
    state("outlook", still_accuracy_, last_);
  }

 private:
  struct Counters {
    core::Instant at;
    std::uint64_t arrivals = 0, input_tokens = 0;    // Counted where requests enter.
    std::uint64_t completed = 0, output_tokens = 0;  // Counted where requests end.
    void archive(core::StateArchive& state) { state.values_of(at, arrivals, input_tokens, completed, output_tokens); }
  };
  [[nodiscard]] static Counters counters_of(const signals::Observation& observation);
  [[nodiscard]] forecast::TrafficSample sample_of(const Counters& before, const Counters& now,
                                                  const signals::TrafficWindow& answers) const;
  void take(const forecast::TrafficSample& sample);

  TrafficOutlookOptions options_;
  core::Duration horizon_;
  forecast::TrafficForecaster trend_;
  std::unique_ptr<forecast::Predictor> still_;  // Baseline "no change" of the rate.
  forecast::Accuracy still_accuracy_;
  std::optional<Counters> last_;  // Values at the last sample.
};

}  // namespace penstock::planner
