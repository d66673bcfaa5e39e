// Runs the session in real time: steps the engine when its time is due, and publishes tokens and telemetry.
#pragma once

#include <cstdint>
#include <functional>

#include "core/result.h"
#include "engine_server/model_clock.h"
#include "engine_server/options.h"
#include "engine_server/session.h"
#include "engine_server/telemetry.h"
#include "net/loop.h"

namespace penstock::engine_server {

// All calls belong to the loop's thread.
class EngineLoop {
 public:
  // `on_progress(number)` is called for each request that received tokens, never during another call of this class, and
  // followed by `on_settled()`.
  EngineLoop(net::Loop& loop, const ServerOptions& options, Telemetry telemetry,
             std::function<void(std::uint32_t)> on_progress, std::function<void()> on_settled);
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // See Session. Times in a request are the engine's.
  [[nodiscard]] core::Result<std::uint32_t> submit(const Ask& ask);
  void cancel(std::uint32_t number);
  void release(std::uint32_t number);
  void discard_kv();               // Nothing is open.
  void set_prefill(bool prefill);  // See Session.
  void forget(std::uint32_t number) { session_.forget(number); }
  [[nodiscard]] const SessionRequest* find(std::uint32_t number) const { return session_.find(number); }
  [[nodiscard]] std::size_t open() const { return session_.open(); }
  [[nodiscard]] engine::EngineState state() const { return session_.state(); }
  [[nodiscard]] telemetry::EngineFigures figures() const { return session_.meter().figures(state(), session_.now()); }
  [[nodiscard]] const Telemetry& telemetry() const { return telemetry_; }
  void count_failed() { session_.meter().failed(); }

  [[nodiscard]] core::Instant time_at(core::Instant wall) const { return clock_.at(wall); }
  [[nodiscard]] core::Duration wall_time(core::Duration time) const { return clock_.wall_time(time); }

  void slow_down(double factor);  // Multiplies the time of everything from now on.
  [[nodiscard]] bool is_hung() const { return hung_; }
  void hang();  // Stops all progress.

 private:
  void catch_up();
  void turn();
  void publish();
  void beat();
  void arm();

  net::Loop& loop_;
  Session session_;
  std::shared_ptr<const engine::StepTimeModel> step_time_;
  ModelClock clock_;
  Telemetry telemetry_;
  std::function<void(std::uint32_t)> on_progress_;
  std::function<void()> on_settled_;
  std::vector<std::uint32_t> progressed_;
  net::Loop::Timer timer_ = 0, beat_timer_ = 0;
  bool busy_ = false, hung_ = false;
};

}  // namespace penstock::engine_server
