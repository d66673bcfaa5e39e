// What an engine measures of itself for /metrics: counts and latencies, in seconds as a client's clock sees them.
#pragma once

#include "core/sketch.h"
#include "core/time.h"
#include "engine/engine.h"
#include "telemetry/engine_exposition.h"

namespace penstock::engine_server {

// The times of one request, by the engine's clock.
struct RequestTimes {
  core::Instant arrived;                          // its last byte was read
  core::Instant submitted;                        // to the scheduler; later where its KV was fetched first
  core::Instant admitted = core::Instant::min();  // first scheduled; never, where its prompt was computed elsewhere
  core::Instant first_token;
  core::Instant last_token;
};

// All times are the engine's; `wall_per_time` makes seconds of the wall of them.
class Meter {
 public:
  void set_scale(double wall_per_time) { scale_ = wall_per_time; }

  void iteration(core::Instant ended_at, const engine::IterationDetail& detail);
  void first_token(const RequestTimes& times);
  void next_token(core::Duration gap);
  void finished(const RequestTimes& times, std::uint32_t tokens, bool by_length);
  void aborted() { ++figures_.finished.abort; }
  void failed() { ++figures_.finished.error; }

  // With the engine's own figures beside them.
  [[nodiscard]] telemetry::EngineFigures figures(const engine::EngineState& state, core::Instant now) const;

 private:
  // Of the last half to whole minute.
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
