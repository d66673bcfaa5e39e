// Metrics of the engine for /metrics: counts and latencies in wall-clock seconds.
#pragma once

#include "core/sketch.h"
#include "core/time.h"
#include "engine/engine.h"
#include "telemetry/engine_exposition.h"

namespace penstock::engine_server {

// Times of one request by the engine's clock.
struct RequestTimes {
  core::Instant arrived;    // The last byte was read.
  core::Instant submitted;  // Submission to the scheduler; later than the arrival if KV was fetched first.
  // First scheduled; Instant::min() if another engine computed the prompt.
  core::Instant admitted = core::Instant::min();
  core::Instant first_token;
  core::Instant last_token;
};

// All times are the engine's; `wall_per_time` converts them to wall-clock seconds.
class Meter {
 public:
  void set_scale(double wall_per_time) { scale_ = wall_per_time; }

  void iteration(core::Instant ended_at, const engine::IterationDetail& detail);
  void first_token(const RequestTimes& times);
  void next_token(core::Duration gap);
  void finished(const RequestTimes& times, std::uint32_t prompt_tokens, std::uint32_t generated, bool by_length);
  void aborted() { ++figures_.finished.abort; }
  void failed() { ++figures_.finished.error; }

  // Includes the engine's own counters.
  [[nodiscard]] telemetry::EngineFigures figures(const engine::EngineState& state, core::Instant now) const;

 private:
  // Rates over the last 30 to 60 seconds.
  struct Recent {
    core::QuantileSketch decode_ms, prefill_ms;
  };
  [[nodiscard]] double seconds(core::Duration time) const { return core::to_seconds(time) * scale_; }
  void turn(core::Instant now);

  double scale_ = 1.0;
  telemetry::EngineFigures figures_;
  Recent recent_, before_;
  core::Instant turned_at_;
};

}  // namespace penstock::engine_server
