#include "engine_server/engine_loop.h"

#include <chrono>
#include <utility>

#include "net/unix_time.h"

namespace penstock::engine_server {
namespace {

constexpr core::Duration kBeat = std::chrono::seconds{1};  // Interval of heartbeats while the engine is idle.

}  // namespace

EngineLoop::EngineLoop(net::Loop& loop, const ServerOptions& options, Telemetry telemetry,
                       std::function<void(std::uint32_t)> on_progress, std::function<void()> on_settled)
    : loop_(loop),
      session_(options.session, *options.step_time),
      step_time_(options.step_time),
      clock_(loop.now(), options.speed),
      telemetry_(std::move(telemetry)),
      on_progress_(std::move(on_progress)),
      on_settled_(std::move(on_settled)) {
  session_.meter().set_scale(1.0 / options.speed);
  beat_timer_ = loop_.every(kBeat, [this] { beat(); });
}

EngineLoop::~EngineLoop() {
  loop_.cancel(timer_);
  loop_.cancel(beat_timer_);
}

core::Result<std::uint32_t> EngineLoop::submit(const Ask& ask) {
  catch_up();
  auto number = session_.submit(ask);
  session_.advance(session_.now());  // An idle engine starts at once.
  arm();
  return number;
}

void EngineLoop::cancel(std::uint32_t number) {
  catch_up();
  session_.cancel(number);
  arm();
}

void EngineLoop::release(std::uint32_t number) {
  catch_up();
  session_.release(number);
  arm();
}

void EngineLoop::discard_kv() {
  catch_up();
  session_.discard_kv();
  arm();
}

void EngineLoop::set_prefill(bool prefill) {
  catch_up();
  session_.set_prefill(prefill);
  arm();
}

void EngineLoop::slow_down(double factor) {
  const double rate = clock_.rate() / factor;
  clock_.set_rate(rate, loop_.now());
  session_.meter().set_scale(1.0 / rate);
  arm();
}

void EngineLoop::hang() {
  hung_ = true;
  loop_.cancel(std::exchange(timer_, 0));
  loop_.cancel(std::exchange(beat_timer_, 0));
}

void EngineLoop::catch_up() {
  if (!hung_) session_.advance(clock_.at(loop_.now()));
}

void EngineLoop::turn() {
  timer_ = 0;
  catch_up();
  progressed_.swap(session_.progressed);
  for (const std::uint32_t number : progressed_) on_progress_(number);
  progressed_.clear();
  publish();
  arm();
  on_settled_();
}

void EngineLoop::publish() {
  telemetry_.iterations(session_.iterations, 1.0 / clock_.rate());
  session_.iterations.clear();
  telemetry_.cache_events(std::exchange(session_.kv_events, {}), core::to_seconds(net::unix_time()));
  const engine::EngineState state = session_.state();
  const bool was_busy = std::exchange(busy_, state.running + state.waiting > 0);
  if (was_busy && !busy_) telemetry_.heartbeat(state);
}

void EngineLoop::beat() {
  catch_up();
  if (!busy_) telemetry_.heartbeat(session_.state());
}

void EngineLoop::arm() {
  loop_.cancel(std::exchange(timer_, 0));
  if (hung_) return;
  const core::Instant next = session_.next_event();
  const bool has_news = !session_.progressed.empty() || !session_.iterations.empty() || !session_.kv_events.empty();
  if (!has_news && next == core::kNever) return;
  const core::Duration wait = has_news ? core::Duration{} : clock_.wait(next, loop_.now());
  timer_ = loop_.after(wait, [this] { turn(); });
}

}  // namespace penstock::engine_server
