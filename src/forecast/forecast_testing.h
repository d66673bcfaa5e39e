// Test support: series from formulae and predictors that observe them.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "core/random.h"
#include "forecast/accuracy.h"
#include "forecast/predictor.h"

namespace penstock::forecast {

[[nodiscard]] inline core::Instant at_s(double seconds) { return core::kStart + core::from_seconds(seconds); }

// Predictor options with few horizons, for short tests.
[[nodiscard]] inline PredictorOptions options_of(double interval_s, std::vector<core::Duration> horizons) {
  PredictorOptions options;
  options.interval = core::from_seconds(interval_s);
  options.horizons = std::move(horizons);
  return options;
}

[[nodiscard]] inline std::unique_ptr<Predictor> predictor_of(std::string_view name, const PredictorOptions& options) {
  auto predictor = make_predictor(name, options);
  PENSTOCK_ASSERT(predictor.has_value(), "tests ask for predictors that exist");
  return std::move(*predictor);
}

// Sample i, counted from 1, ends at i intervals.
inline void feed(Predictor& predictor, core::Duration interval, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    predictor.observe({core::kStart + interval * static_cast<std::int64_t>(i + 1), values[i]});
}

// Scores a predictor over a series from value `skip` on.
[[nodiscard]] inline AccuracyReport score(std::string_view name, const PredictorOptions& options,
                                          core::Duration horizon, const std::vector<double>& values, std::size_t skip) {
  const auto predictor = predictor_of(name, options);
  Accuracy accuracy(options.interval, horizon, options.peak_window, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    predictor->observe({core::kStart + options.interval * static_cast<std::int64_t>(i + 1), values[i]});
    accuracy.settle(*predictor->last());
    if (i < skip) continue;
    if (const auto forecast = predictor->forecast(horizon)) accuracy.add(*predictor->last(), *forecast);
  }
  return accuracy.report();
}

// Requests per second in each interval with gamma-distributed gaps, which model bursty services. A gap CV of 1 is
// Poisson.
[[nodiscard]] inline std::vector<double> bursty_rates(const std::function<double(double)>& rate_at_s, double gap_cv,
                                                      double interval_s, std::size_t count, std::uint64_t seed) {
  core::RandomStream random(seed);
  std::vector<double> rates(count, 0.0);
  const double shape = 1.0 / (gap_cv * gap_cv);
  double now_s = 0.0;
  while (now_s < interval_s * static_cast<double>(count)) {
    now_s += random.gamma(shape, 1.0 / (shape * rate_at_s(now_s)));
    const auto slot = static_cast<std::size_t>(now_s / interval_s);
    if (slot < count) rates[slot] += 1.0 / interval_s;
  }
  return rates;
}

}  // namespace penstock::forecast
