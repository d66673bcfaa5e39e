// What the request rate is expected to become, as far as forecasts have proved better than expecting no change.
#pragma once

#include <memory>
#include <string>

#include "core/time.h"
#include "forecast/accuracy.h"
#include "forecast/predictor.h"
#include "signals/observation.h"

namespace penstock::planner {

struct RateOutlookOptions {
  std::string predictor = "auto";                      // see docs/forecast.md
  core::Duration interval = std::chrono::seconds{30};  // between samples of the rate
  double quantile = 0.5;                               // of the rate over the horizon
  double error_share = 0.95;                           // of the error of "no change" that earns a predictor trust
  double growth_min = 0.5, growth_max = 3.0;           // what is believed
};

// Two forecasts run side by side: the predictor's, and the mean of the time that plans look back on. Both are scored at
// the horizon; the predictor has a say only while its mean error is clearly the smaller one, so that on traffic of bursts
// without a trend plans rest on what was, and with a rising morning on what will be.
class RateOutlook {
 public:
  RateOutlook(const RateOutlookOptions& options, core::Duration memory, core::Duration horizon);

  // Every tick; samples are taken at the interval.
  void observe(core::Instant now, std::uint64_t arrivals_total);
  // How many times `rate_per_s`, the mean of the memory, is expected over the horizon; 1 when nobody knows better.
  [[nodiscard]] double growth(double rate_per_s) const;

 private:
  struct Lane {
    std::unique_ptr<forecast::Predictor> predictor;
    forecast::Accuracy accuracy;
  };
  [[nodiscard]] static Lane make_lane(const std::string& name, const RateOutlookOptions& options, core::Duration memory,
                                      core::Duration horizon);
  void observe(Lane& lane, const forecast::Sample& sample) const;

  RateOutlookOptions options_;
  core::Duration horizon_;
  Lane trend_, still_;
  core::Instant sampled_at_{};
  std::uint64_t sampled_arrivals_ = 0;
};

}  // namespace penstock::planner
