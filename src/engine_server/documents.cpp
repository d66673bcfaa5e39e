// Status documents of the engine (models, health, metrics, info) and error responses.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "api/json_text.h"
#include "api/message_answer.h"
#include "engine/engine.h"
#include "engine_server/engine_server.h"
#include "engine_server/pull.h"
#include "telemetry/engine_exposition.h"

namespace penstock::engine_server {
namespace {

void respond_text(net::Exchange& exchange, std::string_view type, std::string_view body) {
  const std::array fields{net::Field{"Content-Type", type}};
  exchange.respond(200, fields, body);
}

// Constant-time comparison.
bool equal_secret(std::string_view given, std::string_view secret) {
  unsigned difference = given.size() == secret.size() ? 0U : 1U;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char byte = i < given.size() ? given[i] : '\0';
    difference |= static_cast<unsigned char>(byte) ^ static_cast<unsigned char>(secret[i]);
  }
  return difference == 0;
}

// An engine holds no longer sequence than its KV cache, whatever its limit is.
std::uint32_t longest_context(const SessionOptions& options) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(options.context_tokens, engine::context_tokens(options.engine)));
}

std::string error_of(const net::Exchange& exchange, const api::ApiError& error) {
  return api::error_body_at(exchange.head().path(), error);
}

api::ApiError unknown_path(std::string_view path) {
  return {
      404, "invalid_request_error", "not_found", fmt::format("the path {} does not exist", path.substr(0, 200)), {}};
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out;
  api::append_json_string(out, text);
  return out;
}

std::string_view to_string(ServerState state) {
  switch (state) {
    case ServerState::kStarting: return "starting";
    case ServerState::kReady: return "ready";
    case ServerState::kDraining: return "draining";
  }
  return "";
}

std::string info_body(const ServerOptions& options, const ServerInfo& info) {
  const engine::EngineConfig& engine = options.session.engine;
  return fmt::format(
      R"({{"id":{},"model":{},"role":"{}","state":"{}","block_tokens":{},"kv_blocks":{},"max_sequences":{},)"
      R"("max_batched_tokens":{},"context_tokens":{},"speed":{},"fpm_endpoint":{},"kv_events_endpoint":{},)"
      R"("requests_open":{},"transfers_open":{},"is_sleeping":{},"pid":{}}})",
      quoted(options.id), quoted(options.model_name), signals::to_string(options.role), to_string(info.state),
      engine.block_tokens, engine.kv_blocks, engine.max_sequences, engine.max_batched_tokens,
      options.session.context_tokens, options.speed, info.fpm_endpoint.empty() ? "null" : quoted(info.fpm_endpoint),
      info.kv_events_endpoint.empty() ? "null" : quoted(info.kv_events_endpoint), info.requests_open,
      info.transfers_open, info.is_sleeping, getpid());
}

ServerInfo EngineServer::info() const {
  return {state_,
          sleep_mode_.is_sleeping(),
          requests_open(),
          pulls_.size() + source_.sending(),
          engine_.telemetry().fpm_endpoint(),
          engine_.telemetry().kv_events_endpoint()};
}

void EngineServer::answer_document(net::Exchange& exchange) {
  const std::string_view path = exchange.head().path(), method = exchange.head().method;
  const bool is_sleep_mode = SleepMode::has_path(path), is_switch = path == kRoleSwitchPath;
  const bool is_control = is_switch || (is_sleep_mode && path != "/is_sleeping");
  const bool is_private = path == "/v1/models" || path.starts_with(kKvPath) || is_control;
  if (!is_private && !is_sleep_mode && path != "/health" && path != "/metrics" && path != "/version" &&
      path != "/penstock/v1/info")
    return refuse(exchange, unknown_path(path));
  if (is_control ? method != "POST" : method != "GET" && method != "HEAD")
    return refuse(exchange,
                  {405, "invalid_request_error", "method_not_allowed", is_control ? "use POST" : "use GET", {}});
  if (is_private && !is_allowed(exchange))
    return refuse(exchange, {401, "authentication_error", "invalid_api_key", "the API key is missing or wrong", {}});
  // An engine that starts or drains answers as to a health check.
  if (path == "/health" || (is_control && state_ != ServerState::kReady)) return answer_health(exchange);
  if (is_sleep_mode) return sleep_mode_.answer(exchange);
  if (is_switch) return role_switch_.answer(exchange);
  if (path == "/metrics") return answer_metrics(exchange);
  if (path == "/version")
    return respond_text(exchange, "application/json", fmt::format(R"({{"version":{}}})", quoted(options_.version)));
  if (path == "/v1/models")
    return respond_text(exchange, "application/json",
                        api::models_body(options_.model_name, created_, longest_context(options_.session)));
  if (path.starts_with(kKvPath)) return answer_kv(exchange);
  respond_text(exchange, "application/json", info_body(options_, info()));
}

void EngineServer::answer_health(net::Exchange& exchange) {
  if (state_ == ServerState::kReady) return respond_text(exchange, "application/json", R"({"status":"ready"})");
  const core::Duration wait = state_ == ServerState::kStarting ? ready_at_ - loop_.now() : std::chrono::seconds{1};
  refuse_for_now(
      exchange,
      {503, "service_unavailable_error", to_string(state_), fmt::format("the engine is {}", to_string(state_)), {}},
      wait);
}

void EngineServer::answer_metrics(net::Exchange& exchange) {
  telemetry::EngineFigures figures = engine_.figures();
  figures.model = options_.model_name;
  figures.block_tokens = options_.session.engine.block_tokens;
  figures.kv_bytes_per_token = static_cast<std::uint64_t>(options_.kv_bytes_per_token);
  figures.sleep_level = sleep_mode_.level();
  figures.transfers = transfers_;
  figures.transfers->open = info().transfers_open;
  figures.transfers->sent = source_.sent();
  figures.transfers->expired = source_.expired();
  respond_text(exchange, "text/plain; version=0.0.4; charset=utf-8", telemetry::engine_exposition(figures));
}

void EngineServer::answer_kv(net::Exchange& exchange) {
  const std::string_view text = exchange.head().path().substr(kKvPath.size());
  std::uint32_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || !source_.has(number))
    return refuse(exchange, {404, "invalid_request_error", "kv_not_found", "no KV is held under this number", {}});
  source_.serve(exchange, number);
}

bool EngineServer::is_allowed(const net::Exchange& exchange) const {
  if (options_.api_key.empty()) return true;
  std::string_view given = exchange.head().field("authorization");
  constexpr std::string_view kScheme = "Bearer ";
  if (!net::equal_fold(given.substr(0, kScheme.size()), kScheme)) return false;
  return equal_secret(given.substr(kScheme.size()), options_.api_key);
}

void EngineServer::refuse(net::Exchange& exchange, const api::ApiError& error) {
  respond_json(exchange, error.status, exchange.head().field("x-request-id"), error_of(exchange, error));
}

void EngineServer::refuse_for_now(net::Exchange& exchange, const api::ApiError& error, core::Duration retry_after) {
  const auto seconds = std::to_string(std::max(1LL, std::llround(std::ceil(core::to_seconds(retry_after)))));
  const std::string body = error_of(exchange, error);
  if (state_ != ServerState::kDraining) {
    const std::array fields{net::Field{"Content-Type", "application/json"}, net::Field{"Retry-After", seconds}};
    return exchange.respond(error.status, fields, body);
  }
  // A client of a stopping engine must not send its next request on the same connection.
  exchange.start_raw(fmt::format("HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nRetry-After: {}\r\n"
                                 "Content-Length: {}\r\n\r\n",
                                 error.status, net::reason_phrase(error.status), seconds, body.size()),
                     true);
  exchange.write_raw(body);
  exchange.finish();
}

std::string EngineServer::error_body(int status, std::string_view fault) {
  return api::error_body(
      {status, status >= 500 ? "service_unavailable_error" : "invalid_request_error", {}, std::string{fault}, {}});
}

}  // namespace penstock::engine_server
