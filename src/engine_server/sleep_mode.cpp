#include "engine_server/sleep_mode.h"

#include <fmt/format.h>

#include <utility>

namespace penstock::engine_server {
namespace {

void refuse(net::Exchange& exchange, std::string what, std::string where) {
  const api::ApiError error{400, "invalid_request_error", {}, std::move(what), std::move(where)};
  respond_json(exchange, error.status, exchange.head().field("x-request-id"), api::error_body(error));
}

}  // namespace

// The response to a request to sleep or to wake up, which is sent once the engine has done it.
class SleepMode::PendingAnswer final : public net::ExchangeListener {
 public:
  explicit PendingAnswer(net::Exchange& exchange) : exchange_(&exchange) { exchange.listen(this); }
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;

  void send() {
    if (auto* exchange = std::exchange(exchange_, nullptr)) exchange->respond(200, {}, {});
  }
  void on_writable() override {}
  void on_client_gone() override { exchange_ = nullptr; }

 private:
  net::Exchange* exchange_;  // Null: the client has left, or has its response.
};

SleepMode::SleepMode(net::Loop& loop, SleepHooks hooks) : loop_(loop), hooks_(std::move(hooks)) {}

SleepMode::~SleepMode() { loop_.cancel(timer_); }

bool SleepMode::has_path(std::string_view path) {
  return path == "/sleep" || path == "/wake_up" || path == "/is_sleeping";
}

void SleepMode::answer(net::Exchange& exchange) {
  const std::string_view path = exchange.head().path();
  if (path == "/is_sleeping")
    return respond_json(exchange, 200, {}, fmt::format(R"({{"is_sleeping":{}}})", is_sleeping()));
  if (path == "/wake_up") return wake_up(exchange);
  const std::string_view level = exchange.head().parameter("level"), mode = exchange.head().parameter("mode");
  if (!level.empty() && level != "1" && level != "2") return refuse(exchange, "level: must be 1 or 2", "level");
  if (!mode.empty() && mode != "abort" && mode != "wait")
    return refuse(exchange, "mode: must be abort or wait", "mode");
  sleep(exchange, level == "2" ? 2 : 1, mode == "wait");
}

void SleepMode::sleep(net::Exchange& exchange, std::uint32_t level, bool waits) {
  level_ = level;
  if (state_ == SleepState::kAsleep) return exchange.respond(200, {}, {});
  pending_.push_back(std::make_unique<PendingAnswer>(exchange));
  loop_.cancel(std::exchange(timer_, 0));
  state_ = SleepState::kFallingAsleep;
  if (!waits) hooks_.abort_open();
  settle();
}

void SleepMode::settle() {
  if (state_ != SleepState::kFallingAsleep || hooks_.open_work() > 0) return;
  state_ = SleepState::kAsleep;
  hooks_.discard_kv();
  respond_pending();
}

void SleepMode::wake_up(net::Exchange& exchange) {
  if (is_awake()) return exchange.respond(200, {}, {});
  pending_.push_back(std::make_unique<PendingAnswer>(exchange));
  if (state_ == SleepState::kWaking) return;
  // An engine that has not fallen asleep yet has lost nothing.
  const core::Duration time = state_ == SleepState::kAsleep ? hooks_.wake_time() : core::Duration{};
  state_ = SleepState::kWaking;
  timer_ = loop_.after(time, [this] {
    timer_ = 0;
    end_wake_up();
  });
}

void SleepMode::end_wake_up() {
  loop_.cancel(std::exchange(timer_, 0));
  state_ = SleepState::kAwake;
  respond_pending();
  for (auto& [key, request] : std::exchange(held_, {})) hooks_.resume(key, std::move(request));
}

void SleepMode::respond_pending() {
  for (const auto& answer : std::exchange(pending_, {})) answer->send();
}

}  // namespace penstock::engine_server
