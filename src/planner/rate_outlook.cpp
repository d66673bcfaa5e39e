#include "planner/rate_outlook.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::planner {
namespace {

constexpr std::uint64_t kScoresMin = 20;  // fewer forecasts prove nothing
constexpr std::size_t kScoresKept = 120;  // an hour: what was good yesterday may not be today

}  // namespace

RateOutlook::Lane RateOutlook::make_lane(const std::string& name, const RateOutlookOptions& options,
                                         core::Duration memory, core::Duration horizon) {
  forecast::PredictorOptions predictor;
  predictor.interval = options.interval;
  predictor.horizons = {horizon};
  predictor.level_window = memory;
  auto made = forecast::make_predictor(name, predictor);
  PENSTOCK_ASSERT(made.has_value(), "the name of a predictor is checked where it is read");
  return {*std::move(made), forecast::Accuracy{options.interval, horizon, {}, kScoresKept}};
}

RateOutlook::RateOutlook(const RateOutlookOptions& options, core::Duration memory, core::Duration horizon)
    : options_(options),
      horizon_(horizon),
      trend_(make_lane(options.predictor, options, memory, horizon)),
      still_(make_lane("constant", options, memory, horizon)) {}

void RateOutlook::observe(Lane& lane, const forecast::Sample& sample) const {
  if (!lane.predictor->observe(sample) || !lane.predictor->last()) return;
  const forecast::Point& point = *lane.predictor->last();
  lane.accuracy.settle(point);
  if (const auto forecast = lane.predictor->forecast(horizon_)) lane.accuracy.add(point, *forecast);
}

void RateOutlook::observe(core::Instant now, std::uint64_t arrivals_total) {
  const core::Duration passed = now - sampled_at_;
  if (passed < options_.interval) return;
  const forecast::Sample sample{now,
                                static_cast<double>(arrivals_total - sampled_arrivals_) / core::to_seconds(passed)};
  sampled_at_ = now;
  sampled_arrivals_ = arrivals_total;
  observe(trend_, sample);
  observe(still_, sample);
}

double RateOutlook::growth(double rate_per_s) const {
  const forecast::AccuracyReport trend = trend_.accuracy.report(), still = still_.accuracy.report();
  if (rate_per_s <= 0.0 || trend.scored < kScoresMin || trend.error > options_.error_share * still.error) return 1.0;
  const auto forecast = trend_.predictor->forecast(horizon_);
  if (!forecast) return 1.0;
  return std::clamp(forecast->level.quantile(options_.quantile) / rate_per_s, options_.growth_min, options_.growth_max);
}

}  // namespace penstock::planner
