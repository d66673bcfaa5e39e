// Traffic of a pool over the intervals of Dynamo's throughput loop, and its forecast for the next interval.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "core/state_archive.h"
#include "core/time.h"
#include "forecast/models/kalman.h"
#include "signals/observation.h"

namespace penstock::planner {

// Prompt tokens of the pool's replicas, and those that were in a cache. Replicas that ended keep no share.
class DynamoHitRatio {
 public:
  void observe(const signals::PoolObservation& pool);
  // Since the last call; empty if no prompt was computed.
  [[nodiscard]] std::optional<double> take();
  void archive(core::StateArchive& state) { state.values_of(seen_, prompt_, hit_); }

 private:
  struct Counters {
    std::uint64_t prompt = 0, hit = 0;
    void archive(core::StateArchive& state) { state.values_of(prompt, hit); }
  };
  std::map<std::uint32_t, Counters> seen_;  // By replica.
  std::uint64_t prompt_ = 0, hit_ = 0;
};

// Forecasts of Dynamo's KalmanPredictor, with its defaults: q_level 1, q_trend 0.1, r 10, an initial variance of 1000,
// the last value before the fifth point. Zeros before the first other value are ignored.
class DynamoForecast {
 public:
  void add(double value);
  [[nodiscard]] double next() const;
  void archive(core::StateArchive& state) {
    model_.archive(state);
    state.values_of(points_, last_);
  }

 private:
  forecast::KalmanModel model_{options()};
  std::int64_t points_ = 0;
  double last_ = 0.0;

  [[nodiscard]] static forecast::PredictorOptions options();
};

// Adds up minutes of traffic to intervals, so that the lengths are those of whole intervals.
class DynamoTraffic {
 public:
  // The start of an interval.
  void begin(core::Instant now);
  void observe(core::Instant now, const signals::TrafficWindow& last_minute);
  // Ends the interval and begins the next one.
  void close(core::Instant now);

  [[nodiscard]] double requests_per_s() const;
  [[nodiscard]] double input_tokens() const { return input_.next(); }
  [[nodiscard]] double output_tokens() const { return output_.next(); }
  void archive(core::StateArchive& state) {
    state.values_of(begun_at_, minute_at_, length_s_, arrivals_, input_tokens_, completed_, output_tokens_, last_input_,
                    last_output_, requests_, input_, output_);
  }

 private:
  core::Instant begun_at_, minute_at_;
  double length_s_ = 0.0;  // Of the last interval.
  std::uint64_t arrivals_ = 0, input_tokens_ = 0, completed_ = 0, output_tokens_ = 0;
  std::optional<double> last_input_, last_output_;
  DynamoForecast requests_, input_, output_;  // Requests of an interval; tokens per request.
};

}  // namespace penstock::planner
