#include "forecast/traffic.h"

#include <algorithm>

#include "core/enum_names.h"

namespace penstock::forecast {
namespace {

// A weighted mean.
class WeightedMean {
 public:
  void add(std::optional<double> value, double weight) {
    if (!value) return;
    sum_ += weight * *value;
    weight_ += weight;
  }
  [[nodiscard]] std::optional<double> mean() const {
    return weight_ > 0.0 ? std::optional{sum_ / weight_} : std::nullopt;
  }

 private:
  double sum_ = 0.0, weight_ = 0.0;
};

struct Bucket {
  std::int64_t number = -1;  // Number of intervals before the last; negative if no interval is open.
  WeightedMean rate, input, output;

  void add(const TrafficSample& sample) {
    const auto usable = [](std::optional<double> value) {
      return value && *value >= 0.0 && *value <= Intake::kLargestValue ? value : std::nullopt;
    };
    const std::optional<double> requests = usable(sample.requests_per_s);
    const double weight = requests && *requests > 0.0 ? *requests : 1.0;
    rate.add(requests, 1.0);
    input.add(usable(sample.input_tokens), weight);
    output.add(usable(sample.output_tokens), weight);
  }
};

}  // namespace

const char* to_string(Series series) {
  return core::name_of<Series::kOutputTokens>(series, {"requests_per_s", "input_tokens", "output_tokens"});
}

std::vector<TrafficSample> aligned_history(std::span<const TrafficSample> history, core::Duration interval,
                                           core::Instant end) {
  PENSTOCK_ASSERT(interval > core::Duration{}, "an interval has a length");
  std::vector<TrafficSample> aligned;
  if (history.empty() || history.back().at.time_since_epoch() < core::Duration::min() + kHistoryMax) return aligned;
  const core::Instant last = history.back().at;
  Bucket open;
  const auto close = [&] {
    if (open.number >= 0)
      aligned.push_back({end - open.number * interval, open.rate.mean(), open.input.mean(), open.output.mean()});
  };
  core::Instant before = last - kHistoryMax;
  for (const TrafficSample& sample : history) {
    if (sample.at <= before || sample.at > last) continue;
    before = sample.at;
    const std::int64_t number = (last - sample.at) / interval;
    if (number != open.number) {
      close();
      open = Bucket{number, {}, {}, {}};
    }
    open.add(sample);
  }
  close();
  return aligned;
}

core::Result<TrafficForecaster> TrafficForecaster::make(const TrafficOptions& options) {
  PredictorOptions each = options.predictor;
  const auto slot = std::lower_bound(each.horizons.begin(), each.horizons.end(), options.horizon);
  if (slot == each.horizons.end() || *slot != options.horizon) each.horizons.insert(slot, options.horizon);

  std::vector<SeriesState> states;
  for (std::size_t i = 0; i < kSeriesCount; ++i) {
    const auto series = static_cast<Series>(i);
    const bool rate = series == Series::kRequestRate;
    auto predictor = make_predictor(rate ? options.rate_predictor : options.length_predictor, each);
    if (!predictor) {
      core::Error error = std::move(predictor.error());
      error.where = std::string("forecast of ") + to_string(series) + ": " + error.where;
      return tl::make_unexpected(std::move(error));
    }
    states.push_back(
        {std::move(*predictor), Accuracy(each.interval, options.horizon, each.peak_window, options.scores_max)});
  }
  return TrafficForecaster(std::move(states), options.horizon);
}

void TrafficForecaster::observe(const TrafficSample& sample) {
  observe(Series::kRequestRate, sample.at, sample.requests_per_s);
  observe(Series::kInputTokens, sample.at, sample.input_tokens);
  observe(Series::kOutputTokens, sample.at, sample.output_tokens);
}

void TrafficForecaster::observe(Series series, core::Instant at, std::optional<double> value) {
  if (!value) return;
  SeriesState& state = series_[static_cast<std::size_t>(series)];
  if (!state.predictor->observe({at, *value})) return;
  const Point& point = *state.predictor->last();
  state.accuracy.settle(point);
  if (const auto forecast = state.predictor->forecast(horizon_)) state.accuracy.add(point, *forecast);
}

TrafficForecast TrafficForecaster::forecast(core::Duration horizon) const {
  return {forecast(Series::kRequestRate, horizon), forecast(Series::kInputTokens, horizon),
          forecast(Series::kOutputTokens, horizon)};
}

}  // namespace penstock::forecast
