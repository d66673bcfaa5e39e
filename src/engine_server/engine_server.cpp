#include "engine_server/engine_server.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "engine_server/pull.h"
#include "net/unix_time.h"

namespace penstock::engine_server {
namespace {

// Time for clients to read the end of their responses.
constexpr core::Duration kLeaveTime = std::chrono::seconds{2};
constexpr std::array kServed{api::Endpoint::kChatCompletions, api::Endpoint::kCompletions, api::Endpoint::kMessages,
                             api::Endpoint::kCountTokens};

KvSourceOptions source_options(const ServerOptions& options) {
  return {options.kv_wire_bytes_per_token, options.kv_bytes_per_token / options.kv_bytes_per_s / options.speed,
          options.kv_hold_time};
}

ServerOptions at_first_speed(ServerOptions options) {
  if (options.fault != Fault::kSlow) options.speed /= options.slow_factor;
  return options;
}

}  // namespace

core::Result<std::unique_ptr<EngineServer>> EngineServer::start(net::Loop& loop, const ServerOptions& options,
                                                                ServerEvents events) {
  auto address = net::Address::parse(options.host, options.port);
  if (!address) {
    address.error().where = options.host;
    return tl::make_unexpected(address.error());
  }
  auto telemetry = Telemetry::open(options);
  if (!telemetry) return tl::make_unexpected(telemetry.error());
  const auto listening = net::listen_on(*address, false);
  if (!listening) return tl::make_unexpected(listening.error());
  return std::make_unique<EngineServer>(loop, options, std::move(events), *listening, *std::move(telemetry));
}

EngineServer::EngineServer(net::Loop& loop, const ServerOptions& options, ServerEvents events, int listening,
                           Telemetry telemetry)
    : loop_(loop),
      options_(options),
      events_(std::move(events)),
      address_(net::local_address(listening)),
      created_(std::chrono::duration_cast<std::chrono::seconds>(net::unix_time()).count()),
      engine_(
          loop, at_first_speed(options), std::move(telemetry), [this](std::uint32_t number) { on_progress(number); },
          [this] { check_drained(); }),
      client_(loop),
      source_(loop, source_options(at_first_speed(options)),
              [this](std::uint32_t number) {
                engine_.release(number);
                check_drained();
              }),
      sleep_mode_(loop, {[this] { return open_work(); }, [this] { abort_open(); }, [this] { engine_.discard_kv(); },
                         [this] { return engine_.wall_time(options_.wake_time); },
                         [this](std::uint64_t key, HeldRequest held) {
                           request_ = std::move(held.request);
                           serve(std::move(held.answer), std::move(held.transfer), key, held.arrived);
                         }}),
      role_switch_(loop, {[this] { return sleep_mode_.is_awake() && requests_open() + open_work() == 0; },
                          [this] { return options_.role; },
                          [this](signals::Role role) {
                            options_.role = role;
                            engine_.set_prefill(role == signals::Role::kPrefill);
                          },
                          [this] { return engine_.wall_time(options_.switch_time); }}),
      server_(std::make_unique<net::Server>(loop, listening, *this)) {
  const core::Duration start_up = engine_.wall_time(options.start_up);
  ready_at_ = loop.now() + start_up;
  if (start_up <= core::Duration{}) state_ = ServerState::kReady;
  start_up_timer_ = loop.after(start_up, [this] { end_start_up(); });
}

EngineServer::~EngineServer() {
  loop_.cancel(start_up_timer_);
  loop_.cancel(drain_timer_);
}

void EngineServer::end_start_up() {
  start_up_timer_ = 0;
  state_ = ServerState::kReady;
  if (events_.on_ready) events_.on_ready();
}

void EngineServer::on_request(net::Exchange& exchange) {
  if (engine_.is_hung()) return;
  const net::RequestHead& head = exchange.head();
  const std::string_view path = head.path();
  for (const api::Endpoint endpoint : kServed) {
    if (path != api::path_of(endpoint)) continue;
    if (head.method != "POST")
      return refuse(exchange, {405, "invalid_request_error", "method_not_allowed", "use POST", {}});
    if (!is_allowed(exchange))
      return refuse(exchange, {401, "authentication_error", "invalid_api_key", "the API key is missing or wrong", {}});
    return answer_completion(exchange, endpoint);
  }
  answer_document(exchange);
}

// ---- the end --------------------------------------------------------------------------------------------------------

void EngineServer::drain() {
  if (drained_) return;
  if (state_ == ServerState::kDraining) return end_drain(open_work());
  state_ = ServerState::kDraining;
  if (!sleep_mode_.is_awake()) sleep_mode_.end_wake_up();  // Requests that wait are served.
  loop_.cancel(std::exchange(start_up_timer_, 0));
  drain_timer_ = loop_.after(options_.drain_timeout, [this] {
    drain_timer_ = 0;
    end_drain(open_work());
  });
  check_drained();
}

void EngineServer::check_drained() {
  sleep_mode_.settle();
  if (state_ != ServerState::kDraining || drained_ || open_work() > 0) return;
  drained_ = true;
  loop_.cancel(drain_timer_);
  server_->drain();
  const core::Instant deadline = loop_.now() + kLeaveTime;
  drain_timer_ = loop_.every(std::chrono::milliseconds{5}, [this, deadline] {
    if (server_->counters().open > 0 && loop_.now() < deadline) return;
    loop_.cancel(std::exchange(drain_timer_, 0));
    if (events_.on_drained) events_.on_drained(0);
  });
}

void EngineServer::end_drain(std::size_t cut) {
  drained_ = true;
  loop_.cancel(std::exchange(drain_timer_, 0));
  if (events_.on_drained) events_.on_drained(cut);
}

}  // namespace penstock::engine_server
