// Handling of POST requests to the endpoints that take a prompt: validation, transfer of remote KV, submission to the
// engine, delivery of tokens.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "api/prompt_keys.h"
#include "engine_server/engine_server.h"
#include "engine_server/pull.h"
#include "net/unix_time.h"

namespace penstock::engine_server {
namespace {

// Default max_tokens of a completion. A chat has no default limit.
constexpr std::uint32_t kCompletionTokens = 16;
constexpr std::size_t kRequestIdMax = 128;
constexpr core::Duration kRetryAfter = std::chrono::seconds{1};

std::int64_t unix_seconds() { return std::chrono::duration_cast<std::chrono::seconds>(net::unix_time()).count(); }

// vLLM serves lower numbers first, the engine higher ones.
std::int8_t priority_of(const api::InferenceRequest& request) {
  return static_cast<std::int8_t>(-std::clamp(request.priority.value_or(0), -127, 127));
}

std::optional<api::ApiError> fault_of(const api::InferenceRequest& request, std::string_view model) {
  if (!request.model.empty() && request.model != model)
    return api::ApiError{404, "invalid_request_error", "model_not_found",
                         fmt::format("The model `{}` does not exist.", request.model.substr(0, 200)), "model"};
  const auto invalid = [](const char* param, const char* what) {
    return api::ApiError{400, "invalid_request_error", {}, fmt::format("{}: {}", param, what), param};
  };
  if (request.choices != 1) return invalid("n", "must be 1, this engine gives one answer");
  if (request.size.choices != 1) return invalid("best_of", "must be 1, this engine computes one answer");
  if (request.size.prompts != 1) return invalid("prompt", "must be one prompt, this engine gives one answer");
  if (request.max_tokens == 0U) return invalid("max_tokens", "must be at least 1");
  return std::nullopt;
}

// A request does not wait where nothing runs that could delay it, however short the queue may be.
bool is_queue_full(const engine::EngineState& state, const SleepMode& sleep_mode, const ServerOptions& options) {
  const std::size_t waiting = state.waiting + sleep_mode.held();
  const bool would_wait =
      waiting > 0 || !sleep_mode.is_awake() || state.running >= options.session.engine.max_sequences;
  return would_wait && waiting >= options.max_queue;
}

AnswerShape shape_of(const net::Exchange& exchange, const api::InferenceRequest& request, const ServerOptions& options,
                     std::uint64_t key) {
  AnswerShape shape;
  api::AnswerFrame frame;
  frame.chat = request.endpoint == api::Endpoint::kChatCompletions;
  const std::string id = fmt::format("{}-{:x}", options.id, key);
  const std::string_view given = exchange.head().field("x-request-id");
  shape.request_id = given.empty() || given.size() > kRequestIdMax ? id : std::string{given};
  shape.stream = request.stream;
  const bool is_message = request.endpoint == api::Endpoint::kMessages;
  frame.id = (is_message ? "msg_" : frame.chat ? "chatcmpl-" : "cmpl-") + shape.request_id;
  frame.model = options.model_name;
  frame.created = unix_seconds();
  shape.format = is_message ? message_format(std::move(frame), request.stop)
                            : completion_format(std::move(frame), request.include_usage);
  return shape;
}

std::string count_of(const api::InferenceRequest& request) {
  return fmt::format(R"({{"input_tokens":{}}})", std::max(api::simulated_tokens(request.text.size()), 1U));
}

}  // namespace

bool EngineServer::is_faulty() {
  if (options_.fault == Fault::kNone || requests_++ < options_.fault_after) return false;
  switch (options_.fault) {
    case Fault::kHang: engine_.hang(); return true;
    case Fault::kGarbage: return true;
    case Fault::kCrash: std::_Exit(70);
    case Fault::kSlow:
      options_.fault = Fault::kNone;
      engine_.slow_down(options_.slow_factor);
      return false;
    case Fault::kNone: break;
  }
  return false;
}

void EngineServer::answer_completion(net::Exchange& exchange, api::Endpoint endpoint) {
  if (state_ == ServerState::kStarting)
    return refuse_for_now(exchange, {503, "service_unavailable_error", "starting", "the engine is starting", {}},
                          ready_at_ - loop_.now());
  if (state_ == ServerState::kDraining)
    return refuse_for_now(exchange, {503, "service_unavailable_error", "draining", "the engine is shutting down", {}},
                          kRetryAfter);
  if (role_switch_.is_switching())
    return refuse_for_now(exchange, {503, "service_unavailable_error", "switching", "the engine changes its role", {}},
                          kRetryAfter);
  if (is_faulty()) {
    // A hung engine does not react.
    if (options_.fault != Fault::kGarbage) return;
    if (exchange.head().http_1_0) return exchange.abort();
    exchange.start_raw("\x01\x02garbage\r\n\r\n", true);
    exchange.write_raw("\xff\xfe{");
    return exchange.finish();
  }
  if (const auto error = api::encoding_error(exchange.head().field("content-encoding")))
    return refuse(exchange, *error);
  if (const auto read = reader_.read(endpoint, exchange.body(), request_); !read) {
    const std::string& where = read.error().where;
    return refuse(exchange, {400,
                             "invalid_request_error",
                             {},
                             where.empty() ? read.error().what : where + ": " + read.error().what,
                             where});
  }
  if (auto fault = fault_of(request_, options_.model_name)) return refuse(exchange, *fault);
  if (endpoint == api::Endpoint::kCountTokens) return respond_json(exchange, 200, {}, count_of(request_));
  api::KvTransfer transfer;
  if (!request_.kv_transfer_params.empty()) {
    auto read = api::read_kv_transfer(request_.kv_transfer_params);
    if (!read) return refuse(exchange, {400, "invalid_request_error", {}, read.error().message(), read.error().where});
    transfer = *std::move(read);
  }
  if (is_queue_full(engine_.state(), sleep_mode_, options_))
    return refuse_for_now(
        exchange,
        {429, "rate_limit_error", "queue_full", fmt::format("{} requests are waiting already", options_.max_queue), {}},
        kRetryAfter);
  if (endpoint == api::Endpoint::kCompletions && !request_.max_tokens) request_.max_tokens = kCompletionTokens;

  const std::uint64_t key = next_key_++;
  const core::Instant arrived = engine_.time_at(exchange.received_at());
  auto answer = std::make_unique<LiveAnswer>(exchange, shape_of(exchange, request_, options_, key),
                                             [this, key] { on_gone(key); });
  if (sleep_mode_.is_awake()) return serve(std::move(answer), std::move(transfer), key, arrived);
  sleep_mode_.hold(key, {std::exchange(request_, {}), std::move(transfer), arrived, std::move(answer)});
}

// The request is request_.
void EngineServer::serve(std::unique_ptr<LiveAnswer> answer, api::KvTransfer transfer, std::uint64_t key,
                         core::Instant arrived) {
  if (options_.role == signals::Role::kDecode && transfer.do_remote_prefill)
    return begin_pull(std::move(answer), std::move(transfer), key, arrived);
  const bool keep_kv = options_.role == signals::Role::kPrefill && !request_.stream && transfer.do_remote_decode;
  begin(request_, std::move(answer), key, arrived, {false, keep_kv});
}

// Answers end where they are, as in vLLM. Requests that still wait for their KV are refused.
void EngineServer::abort_open() {
  numbers_.clear();
  for (auto& [number, answer] : std::exchange(answers_, {})) {
    if (const SessionRequest* request = engine_.find(number)) answer.live->abort(*request);
    engine_.cancel(number);
  }
  for (auto& [key, pull] : std::exchange(pulls_, {}))
    pull->answer->refuse({503, "service_unavailable_error", "asleep", "the engine goes to sleep", {}});
}

void EngineServer::begin(const api::InferenceRequest& request, std::unique_ptr<LiveAnswer> answer, std::uint64_t key,
                         core::Instant arrived, KvRole kv) {
  Ask ask;
  ask.text = request.text;
  ask.max_tokens = request.max_tokens;
  ask.ignore_eos = request.ignore_eos;
  ask.stop = request.stop;
  ask.priority = priority_of(request);
  ask.arrived = arrived;
  ask.cache_salt = request.cache_salt;
  ask.prefilled = kv.prefilled;
  ask.keep_kv = kv.keep;
  const auto number = engine_.submit(ask);
  if (!number) {
    engine_.count_failed();
    answer->refuse({400, "invalid_request_error", "context_length_exceeded", number.error().what, "messages"});
    return;
  }
  answers_.emplace(*number, Answer{std::move(answer), key});
  numbers_.emplace(key, *number);
}

void EngineServer::begin_pull(std::unique_ptr<LiveAnswer> answer, api::KvTransfer transfer, std::uint64_t key,
                              core::Instant arrived) {
  auto pull = std::make_unique<Pull>();
  pull->answer = std::move(answer);
  pull->arrived = arrived;
  pull->request = std::move(request_);
  request_ = {};
  if (const auto address = kv_address(transfer)) {
    pull->fetch = std::make_unique<KvPull>(client_, *address, transfer.remote_block_ids.front(), options_.api_key,
                                           [this, key](bool good) { end_pull(key, good); });
    pulls_.emplace(key, std::move(pull));
    return;
  }
  pulls_.emplace(key, std::move(pull));
  end_pull(key, false);
}

// Without the remote KV, the prompt is computed locally.
void EngineServer::end_pull(std::uint64_t key, bool good) {
  const auto found = pulls_.find(key);
  const std::unique_ptr<Pull> pull = std::move(found->second);
  pulls_.erase(found);
  ++(good ? transfers_.fetched : transfers_.failed);
  begin(pull->request, std::move(pull->answer), key, pull->arrived, {good, false});
  check_drained();
}

void EngineServer::on_progress(std::uint32_t number) {
  const auto found = answers_.find(number);
  const SessionRequest* request = engine_.find(number);
  if (found == answers_.end() || request == nullptr) return;
  const std::string params = request->holds_kv ? kv_transfer_params(number) : std::string{};
  // The decode engine may request the KV before this response has been sent.
  if (request->holds_kv) source_.offer(number, request->prompt_tokens);
  const LiveAnswer::Outcome outcome = found->second.live->deliver(*request, params);
  if (outcome == LiveAnswer::Outcome::kMore) return;
  numbers_.erase(found->second.key);
  answers_.erase(found);
  if (outcome == LiveAnswer::Outcome::kTooSlow)
    engine_.cancel(number);
  else
    engine_.forget(number);
}

void EngineServer::on_gone(std::uint64_t key) {
  if (const auto found = numbers_.find(key); found != numbers_.end()) {
    engine_.cancel(found->second);
    answers_.erase(found->second);
    numbers_.erase(found);
  } else {
    if (pulls_.erase(key) == 0) sleep_mode_.forget(key);
  }
  check_drained();
}

std::string EngineServer::kv_transfer_params(std::uint32_t number) const {
  std::string host = options_.advertised_host;
  if (host.empty()) host = options_.host == "0.0.0.0" || options_.host == "::" ? "127.0.0.1" : options_.host;
  return fmt::format(
      R"({{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":{},"remote_block_ids":[{}],)"
      R"("remote_host":{},"remote_port":{}}})",
      quoted(options_.id), number, quoted(host), address_.port());
}

}  // namespace penstock::engine_server
