// What traffic is expected over the time that a replica needs to start, as far as forecasts have proved better than
// expecting no change.
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
  std::string predictor = "auto";                      // of the rate; see docs/forecast.md
  std::string length_predictor = "auto";               // of mean prompt and answer lengths
  core::Duration interval = std::chrono::seconds{30};  // between samples
  double quantile = 0.5;                               // of the rate over the horizon, for growth()
  double error_share = 0.95;                           // of the error of "no change" that earns a predictor trust
  double growth_min = 0.5, growth_max = 3.0;           // what is believed
};

// Three series are sampled and forecast side by side: the request rate and the mean prompt length where requests enter
// (the first pool that is not one of decode replicas), and the mean answer length where they end (the last that is not
// one of prefill replicas).
//
// Beside the predictor of the rate runs "no change", the mean of the time that plans look back on. Both are scored at the
// horizon, on the same moments; the predictor has a say only while its mean error is clearly the smaller one, so that on
// traffic of bursts without a trend plans rest on what was, and with a rising morning on what will be.
//
// Counters may jump back, the clock may stand or jump: what was measured over such a time is no sample.
class TrafficOutlook {
 public:
  // The predictors' names and the interval (above 0, at most a day) are checked where they are read. `memory` and
  // `horizon` are kept within 1 to 4096 intervals.
  TrafficOutlook(const TrafficOutlookOptions& options, core::Duration memory, core::Duration horizon);

  // Feeds a past, oldest first, before the first observe(): predictors know its seasons, and how good they were on it
  // counts at once. It is taken as if its last sample had ended at core::kStart; see forecast::aligned_history for what
  // becomes of other intervals and of more than four weeks. Some tens of microseconds a sample.
  void warm_up(std::span<const forecast::TrafficSample> history);

  // Every tick; the first tells where the counters begin, samples are taken at the interval.
  void observe(const signals::Observation& observation);

  // How many times `rate_per_s`, the mean of the memory, is expected over the horizon; 1 when nobody knows better.
  [[nodiscard]] double growth(double rate_per_s) const;
  [[nodiscard]] bool trusted() const;  // whether growth() listens to the predictor

  // The predictors' expectations and the errors of the rate, trusted or not: who reads both can tell.
  [[nodiscard]] Forecast expected() const;
  [[nodiscard]] forecast::TrafficForecast forecast() const;  // the same with all quantiles and the peaks

  void archive(core::StateArchive& state) {
    trend_.archive(state);
    still_->archive(state);
    state("outlook", still_accuracy_, last_);
  }

 private:
  struct Counters {
    core::Instant at;
    std::uint64_t arrivals = 0, input_tokens = 0;    // where requests enter
    std::uint64_t completed = 0, output_tokens = 0;  // where they end
    void archive(core::StateArchive& state) { state.values_of(at, arrivals, input_tokens, completed, output_tokens); }
  };
  [[nodiscard]] static Counters counters_of(const signals::Observation& observation);
  [[nodiscard]] forecast::TrafficSample sample_of(const Counters& before, const Counters& now,
                                                  const signals::TrafficWindow& answers) const;
  void take(const forecast::TrafficSample& sample);

  TrafficOutlookOptions options_;
  core::Duration horizon_;
  forecast::TrafficForecaster trend_;
  std::unique_ptr<forecast::Predictor> still_;  // of the rate: "no change"
  forecast::Accuracy still_accuracy_;
  std::optional<Counters> last_;  // as the last sample was taken
};

}  // namespace penstock::planner
