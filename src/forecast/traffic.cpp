#include "forecast/traffic.h"

#include <algorithm>

namespace penstock::forecast {

const char* to_string(Series series) {
  switch (series) {
    case Series::kRequestRate: return "requests_per_s";
    case Series::kInputTokens: return "input_tokens";
    case Series::kOutputTokens: return "output_tokens";
  }
  return "unknown";
}

core::Result<TrafficForecaster> TrafficForecaster::make(const TrafficOptions& options) {
  PredictorOptions each = options.predictor;
  const auto place = std::lower_bound(each.horizons.begin(), each.horizons.end(), options.horizon);
  if (place == each.horizons.end() || *place != options.horizon) each.horizons.insert(place, options.horizon);

  std::vector<Lane> lanes;
  for (std::size_t i = 0; i < kSeriesCount; ++i) {
    const auto series = static_cast<Series>(i);
    const bool rate = series == Series::kRequestRate;
    auto predictor = make_predictor(rate ? options.rate_predictor : options.length_predictor, each);
    if (!predictor) {
      core::Error error = std::move(predictor.error());
      error.where = std::string("forecast of ") + to_string(series) + ": " + error.where;
      return tl::make_unexpected(std::move(error));
    }
    lanes.push_back({std::move(*predictor), Accuracy(each.interval, options.horizon, each.peak_window)});
  }
  return TrafficForecaster(std::move(lanes), options.horizon);
}

void TrafficForecaster::observe(const TrafficSample& sample) {
  observe(Series::kRequestRate, sample.at, sample.requests_per_s);
  observe(Series::kInputTokens, sample.at, sample.input_tokens);
  observe(Series::kOutputTokens, sample.at, sample.output_tokens);
}

void TrafficForecaster::observe(Series series, core::Instant at, std::optional<double> value) {
  if (!value) return;
  Lane& lane = lanes_[static_cast<std::size_t>(series)];
  if (!lane.predictor->observe({at, *value})) return;
  const Point& point = *lane.predictor->last();
  lane.accuracy.settle(point);
  if (const auto forecast = lane.predictor->forecast(horizon_)) lane.accuracy.add(point, *forecast);
}

TrafficForecast TrafficForecaster::forecast(core::Duration horizon) const {
  const auto of = [&](Series series) { return lane(series).predictor->forecast(horizon); };
  return {of(Series::kRequestRate), of(Series::kInputTokens), of(Series::kOutputTokens)};
}

}  // namespace penstock::forecast
