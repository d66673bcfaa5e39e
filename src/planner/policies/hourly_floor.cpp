#include <algorithm>
#include <cmath>

#include "core/state_archive.h"
#include "forecast/predictor.h"
#include "planner/bounds.h"
#include "planner/policies/policies.h"
#include "planner/poolwise_policy.h"
#include "planner/samples.h"

namespace penstock::planner {

namespace {

constexpr core::Duration kFloorTick = std::chrono::seconds{15};
constexpr core::Duration kLoadInterval = std::chrono::minutes{1};
constexpr core::Duration kFloorPeriod = std::chrono::hours{1};
constexpr core::Duration kFloorPeak = std::chrono::minutes{15};
constexpr double kFloorHeadroom = 0.1, kFloorUp = 0.7, kFloorDown = 0.3;

std::unique_ptr<forecast::Predictor> make_arima() {
  forecast::PredictorOptions options;
  options.interval = kLoadInterval;
  options.horizons = {kFloorPeriod};
  options.peak_window = kFloorPeak;
  return std::move(*forecast::make_predictor("arima", options));
}

struct FloorState {
  std::unique_ptr<forecast::Predictor> load = make_arima();  // In replicas at their load-tested capacity.
  std::optional<core::Instant> sampled_at;
  std::optional<core::Instant> planned_at;  // When the floor was last computed from a forecast.
  double forecast = 0.0;
  double floor = 0.0;
  void archive(core::StateArchive& state) {
    state("hourly-floor", sampled_at, planned_at, forecast, floor);
    load->archive(state);
  }
};

class HourlyFloor final : public PoolwisePolicy<FloorState> {
 public:
  explicit HourlyFloor(const PolicyContext& context)
      : PoolwisePolicy("hourly-floor", kFloorTick),
        capacity_(context.capacity),
        factor_(1.0 + context.settings.get("headroom", kFloorHeadroom)),
        up_(context.settings.get("up", kFloorUp)),
        down_(std::min(context.settings.get("down", kFloorDown), up_)) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, FloorState& state) override {
    if (pool.last_minute.length <= core::Duration{}) return hold(pool, Reason::kNoData);
    const double load = load_of(pool);
    if (!state.sampled_at || now - *state.sampled_at >= kLoadInterval) {
      state.load->observe({now, load});
      state.sampled_at = now;
    }
    plan(now, state);

    const double provisioned = std::max(1.0, static_cast<double>(pool.starting + pool.ready));
    const double utilisation = std::max(load, kv_replicas(now, pool)) / provisioned;
    const double target = pool.target_replicas;
    double proposal = target;
    Reason reason = Reason::kWithinTolerance;
    if (utilisation > up_) {
      proposal = target + 1.0;
      reason = Reason::kLoadAboveTarget;
    } else if (utilisation < down_ && target > state.floor && target > 0.0) {
      proposal = target - 1.0;
      reason = Reason::kLoadBelowTarget;
    }
    if (state.floor > proposal) {
      proposal = state.floor;
      reason = proposal > target ? Reason::kLoadAboveTarget : Reason::kWithinTolerance;
    }
    PoolDecision decision = decide_bounded(pool, proposal, reason);
    decision.evidence = {{"utilisation", utilisation, ""},
                         {"load", load, "replicas"},
                         {"forecast_load", state.forecast, "replicas"},
                         {"floor", state.floor, "replicas"}};
    return decision;
  }

 private:
  // Replicas that the token rates of the last minute would fill.
  [[nodiscard]] double load_of(const signals::PoolObservation& pool) const {
    const signals::TrafficWindow& traffic = pool.last_minute;
    const double length_s = core::to_seconds(traffic.length);
    const double prompts = static_cast<double>(traffic.input_tokens) / length_s / capacity_.input_tokens_per_s;
    const double answers = static_cast<double>(traffic.output_tokens) / length_s / capacity_.output_tokens_per_s;
    if (pool.role == signals::Role::kPrefill) return prompts;
    return pool.role == signals::Role::kDecode ? answers : std::max(prompts, answers);
  }

  // Replicas that the KV cache in use would fill.
  [[nodiscard]] static double kv_replicas(core::Instant now, const signals::PoolObservation& pool) {
    double sum = 0.0;
    for (const signals::ReplicaObservation* replica : ready_samples(pool, now).known)
      sum += std::min(1.0, replica->sample->kv_usage().value_or(0.0));
    return sum;
  }

  // At the start of each hour, and once the first forecast is possible.
  void plan(core::Instant now, FloorState& state) const {
    const auto hour = [](core::Instant at) { return at.time_since_epoch() / kFloorPeriod; };
    if (!state.load->ready() || (state.planned_at && hour(*state.planned_at) == hour(now))) return;
    const auto expected = state.load->forecast(kFloorPeriod);
    if (!expected) return;
    state.planned_at = now;
    state.forecast = expected->peak.mean;
    state.floor = std::ceil(factor_ * state.forecast - 1e-9);
  }

  ReplicaCapacity capacity_;
  double factor_;
  double up_, down_;
};

}  // namespace

std::unique_ptr<Policy> make_hourly_floor(const PolicyContext& context) {
  return std::make_unique<HourlyFloor>(context);
}

}  // namespace penstock::planner
