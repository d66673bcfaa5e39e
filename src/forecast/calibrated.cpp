#include "forecast/calibrated.h"

#include <algorithm>
#include <cmath>

namespace penstock::forecast {
namespace {

// Prior for unknown errors: √outcome is normal around √expected with this share of it as deviation. Then p90 is 1.7
// times and p10 0.46 times the level, which matches one minute of bursty traffic.
constexpr double kPriorDeviation = 0.25;
constexpr Quantiles kNormal = {-2.3263, -1.6449, -1.2816, -0.6745, 0.0, 0.6745, 0.8416, 1.2816, 1.6449, 1.96, 2.3263};
// Weight of the prior in outcomes.
constexpr double kPriorOutcomes = 8.0;
constexpr std::int64_t kForecastsPerHorizon = 4;

// Bounds a model's expectation to valid sample values; NaN becomes 0.
double bounded(double value) { return value > 0.0 ? std::min(value, Intake::kLargestValue) : 0.0; }

}  // namespace

CalibratedPredictor::CalibratedPredictor(std::string_view name, std::unique_ptr<Model> model,
                                         const PredictorOptions& options)
    : name_(name),
      model_(std::move(model)),
      intake_(options.interval, options.gap_max),
      interval_(options.interval),
      peak_steps_(static_cast<std::size_t>(steps_of(options.peak_window, options.interval))),
      history_(static_cast<std::size_t>(steps_of(options.horizons.back(), options.interval))) {
  for (const core::Duration horizon : options.horizons) {
    Track track;
    track.steps = steps_of(horizon, interval_);
    track.stride = std::max<std::int64_t>(1, track.steps / kForecastsPerHorizon);
    track.level = track.peak = Residuals(static_cast<double>(track.steps) / static_cast<double>(track.stride));
    const auto between = static_cast<double>(interval_.count()) * static_cast<double>(track.stride);
    track.decay = std::exp2(-between / static_cast<double>(options.memory.count()));
    tracks_.push_back(std::move(track));
  }
}

bool CalibratedPredictor::observe(const Sample& sample) {
  const std::optional<Point> point = intake_.accept(sample);
  if (!point) return false;
  if (point->after_jump) {
    history_.clear();
    for (Track& track : tracks_) track.pending.clear();
  }
  history_.add(point->step, point->value);
  for (Track& track : tracks_) settle(track, point->step);
  model_->update(*point);
  if (model_->ready()) record_forecasts(point->step);
  return true;
}

void CalibratedPredictor::settle(Track& track, std::int64_t through) {
  while (!track.pending.empty() && track.pending.front().from + track.steps <= through) {
    const Pending pending = track.pending.front();
    track.pending.pop_front();
    const auto outcome = history_.outcome(pending.from, pending.from + track.steps, peak_steps_);
    if (!outcome) continue;
    track.level.add(to_scale(outcome->level) - to_scale(pending.expected.level));
    track.peak.add(to_scale(outcome->peak) - to_scale(pending.expected.peak));
    track.error_sum = track.decay * track.error_sum + std::abs(outcome->level - pending.expected.level);
    track.error_weight = track.decay * track.error_weight + 1.0;
  }
}

void CalibratedPredictor::record_forecasts(std::int64_t from) {
  const auto due = [&](const Track& track) { return from % track.stride == 0; };
  const auto longest = std::find_if(tracks_.rbegin(), tracks_.rend(), due);
  if (longest == tracks_.rend()) return;
  path_.resize(static_cast<std::size_t>(longest->steps));
  model_->expect(path_);
  for (double& value : path_) value = bounded(value);
  for (Track& track : tracks_)
    if (due(track))
      track.pending.push_back({from, outcome_of(path_.data(), static_cast<std::size_t>(track.steps), peak_steps_)});
}

std::optional<Forecast> CalibratedPredictor::forecast(core::Duration horizon) const {
  if (!model_->ready()) return std::nullopt;
  const std::int64_t steps = steps_of(horizon, interval_);
  std::vector<double> path(static_cast<std::size_t>(steps));
  model_->expect(path);
  for (double& value : path) value = bounded(value);
  const Outcome expected = outcome_of(path.data(), path.size(), peak_steps_);
  const Between tracks = between(steps);
  Forecast forecast;
  forecast.from = intake_.last()->at;
  forecast.horizon = steps * interval_;
  forecast.level = spread(expected.level, tracks, &Track::level);
  forecast.peak = spread(expected.peak, tracks, &Track::peak);
  forecast.outcomes = std::min(tracks.lower->level.count(), tracks.upper->level.count());
  return forecast;
}

CalibratedPredictor::Between CalibratedPredictor::between(std::int64_t steps) const {
  const auto upper =
      std::find_if(tracks_.begin(), tracks_.end(), [&](const Track& track) { return track.steps >= steps; });
  if (upper == tracks_.end()) return {&tracks_.back(), &tracks_.back(), 0.0};
  if (upper == tracks_.begin()) return {&*upper, &*upper, 0.0};
  const Track& lower = *(upper - 1);
  return {&lower, &*upper, static_cast<double>(steps - lower.steps) / static_cast<double>(upper->steps - lower.steps)};
}

Distribution CalibratedPredictor::spread(double expected, const Between& between, Residuals Track::*kind) {
  const double scaled = to_scale(expected);
  const auto residuals = [&](const Track& track) {
    Quantiles quantiles = (track.*kind).quantiles();
    const auto count = static_cast<double>((track.*kind).count());
    const double trust = count / (count + kPriorOutcomes);
    for (std::size_t i = 0; i < quantiles.size(); ++i)
      quantiles[i] = trust * quantiles[i] + (1.0 - trust) * kPriorDeviation * scaled * kNormal[i];
    return quantiles;
  };
  const Quantiles lower = residuals(*between.lower);
  const Quantiles upper = between.share > 0.0 ? residuals(*between.upper) : lower;
  Distribution result;
  result.mean = expected;
  for (std::size_t i = 0; i < result.quantiles.size(); ++i)
    result.quantiles[i] = from_scale(scaled + lower[i] + between.share * (upper[i] - lower[i]));
  return result;
}

std::optional<double> CalibratedPredictor::recent_error(std::size_t index) const {
  const Track& track = tracks_[index];
  if (track.error_weight <= 0.0) return std::nullopt;
  return track.error_sum / track.error_weight;
}

}  // namespace penstock::forecast
