#include "planner/penstock/traffic_outlook.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/result.h"

namespace penstock::planner {
namespace {

constexpr std::uint64_t kScoresMin = 20;  // Minimum number of scored forecasts.
constexpr std::size_t kScoresKept = 120;  // One hour, because the accuracy of a predictor changes.
// Ticks are much closer than samples, so this number of intervals without a sample means a clock jump or a pause.
constexpr std::int64_t kLateMax = 4;
// Differences of times within this range do not overflow.
constexpr core::Duration kFarthest = core::Duration::max() / 4;

core::Duration within_steps(core::Duration time, core::Duration interval) {
  return std::clamp(time, interval, interval * forecast::kStepsMax);
}

forecast::PredictorOptions predictor_options(const TrafficOutlookOptions& options, core::Duration memory,
                                             core::Duration horizon) {
  forecast::PredictorOptions predictor;
  predictor.interval = options.interval;
  predictor.horizons = {horizon};
  predictor.level_window = within_steps(memory, options.interval);
  predictor.trend_window = within_steps(predictor.trend_window, options.interval);
  predictor.gap_max = std::max(predictor.gap_max, options.interval);
  return predictor;
}

forecast::TrafficForecaster make_trend(const TrafficOutlookOptions& options, core::Duration memory,
                                       core::Duration horizon) {
  forecast::TrafficOptions traffic;
  traffic.rate_predictor = options.predictor;
  traffic.length_predictor = options.length_predictor;
  traffic.horizon = horizon;
  traffic.scores_max = kScoresKept;
  traffic.predictor = predictor_options(options, memory, horizon);
  auto made = forecast::TrafficForecaster::make(traffic);
  PENSTOCK_ASSERT(made.has_value(), "the name of a predictor is checked where it is read");
  return *std::move(made);
}

std::unique_ptr<forecast::Predictor> make_still(const TrafficOutlookOptions& options, core::Duration memory,
                                                core::Duration horizon) {
  auto made = forecast::make_predictor("constant", predictor_options(options, memory, horizon));
  PENSTOCK_ASSERT(made.has_value(), "there is a predictor of this name");
  return *std::move(made);
}

// Empty after a counter reset and without counts: a request has at least one token.
std::optional<double> mean_length(std::uint64_t tokens_before, std::uint64_t tokens, std::uint64_t requests_before,
                                  std::uint64_t requests) {
  if (tokens <= tokens_before || requests <= requests_before) return std::nullopt;
  return static_cast<double>(tokens - tokens_before) / static_cast<double>(requests - requests_before);
}

}  // namespace

TrafficOutlook::TrafficOutlook(const TrafficOutlookOptions& options, core::Duration memory, core::Duration horizon)
    : options_(options),
      horizon_(within_steps(horizon, options.interval)),
      trend_(make_trend(options, memory, horizon_)),
      still_(make_still(options, memory, horizon_)),
      still_accuracy_(options.interval, horizon_, {}, kScoresKept) {}

void TrafficOutlook::warm_up(std::span<const forecast::TrafficSample> history) {
  PENSTOCK_ASSERT(!last_, "a past comes before the present");
  for (const forecast::TrafficSample& sample : forecast::aligned_history(history, options_.interval, core::kStart))
    take(sample);
}

TrafficOutlook::Counters TrafficOutlook::counters_of(const signals::Observation& observation) {
  const signals::FleetTraffic entry = signals::entry_traffic(observation);
  const signals::FleetTraffic exit = signals::exit_traffic(observation);
  return {observation.now, entry.arrivals_total, entry.input_tokens_total, exit.completed_total,
          exit.output_tokens_total};
}

void TrafficOutlook::observe(const signals::Observation& observation) {
  const core::Duration since_start = observation.now.time_since_epoch();
  if (observation.pools.empty() || since_start > kFarthest || since_start < -kFarthest) return;
  const Counters now = counters_of(observation);
  if (!last_) {
    last_ = now;
    return;
  }
  const core::Duration passed = now.at - last_->at;
  if (passed >= core::Duration{} && passed < options_.interval) return;
  const Counters before = std::exchange(*last_, now);
  if (passed < core::Duration{} || passed > kLateMax * options_.interval) return;
  take(sample_of(before, now, signals::exit_traffic(observation).last_minute));
}

forecast::TrafficSample TrafficOutlook::sample_of(const Counters& before, const Counters& now,
                                                  const signals::TrafficWindow& answers) const {
  forecast::TrafficSample sample;
  sample.at = now.at;
  if (now.arrivals >= before.arrivals)
    sample.requests_per_s = static_cast<double>(now.arrivals - before.arrivals) / core::to_seconds(now.at - before.at);
  sample.input_tokens = mean_length(before.input_tokens, now.input_tokens, before.arrivals, now.arrivals);
  // Tokens are counted when generated, requests when they end, so the ratio of the counters is far too high while
  // traffic grows. The window contains the lengths of completed requests; the ratio is used only if the window is
  // empty.
  if (answers.completed > 0 && answers.completed_output_tokens > 0)
    sample.output_tokens =
        static_cast<double>(answers.completed_output_tokens) / static_cast<double>(answers.completed);
  else
    sample.output_tokens = mean_length(before.output_tokens, now.output_tokens, before.completed, now.completed);
  return sample;
}

void TrafficOutlook::take(const forecast::TrafficSample& sample) {
  trend_.observe(sample);
  if (!sample.requests_per_s || !still_->observe({sample.at, *sample.requests_per_s})) return;
  still_accuracy_.settle(*still_->last());
  // A predictor that needs more history than "no change" is not compared with it at earlier times.
  if (!trend_.forecast(forecast::Series::kRequestRate, horizon_)) return;
  if (const auto forecast = still_->forecast(horizon_)) still_accuracy_.add(*still_->last(), *forecast);
}

bool TrafficOutlook::trusted() const {
  const forecast::AccuracyReport trend = trend_.accuracy(forecast::Series::kRequestRate);
  return trend.scored >= kScoresMin && trend.error <= options_.error_share * still_accuracy_.report().error;
}

double TrafficOutlook::growth(double rate_per_s) const {
  if (!(rate_per_s > 0.0) || !std::isfinite(rate_per_s) || !trusted()) return 1.0;
  const auto forecast = trend_.forecast(forecast::Series::kRequestRate, horizon_);
  if (!forecast) return 1.0;
  return std::clamp(forecast->level.quantile(options_.quantile) / rate_per_s, options_.growth_min, options_.growth_max);
}

Forecast TrafficOutlook::expected() const {
  const forecast::TrafficForecast expected = forecast();
  const auto mean = [](const std::optional<forecast::Forecast>& each) {
    return each ? std::optional{each->level.mean} : std::nullopt;
  };
  Forecast made{mean(expected.requests_per_s), mean(expected.input_tokens), mean(expected.output_tokens), {}, {}};
  const forecast::AccuracyReport trend = trend_.accuracy(forecast::Series::kRequestRate);
  if (trend.scored == 0) return made;
  made.error = trend.error;
  made.naive_error = still_accuracy_.report().error;
  return made;
}

forecast::TrafficForecast TrafficOutlook::forecast() const { return trend_.forecast(horizon_); }

}  // namespace penstock::planner
