#include "engine_server/live_answer.h"

#include <array>
#include <utility>

namespace penstock::engine_server {
namespace {

api::Usage usage_of(const SessionRequest& request) {
  return {request.prompt_tokens, request.generated, request.cached_tokens};
}

}  // namespace

void respond_json(net::Exchange& exchange, int status, std::string_view request_id, std::string_view body) {
  const std::array fields{net::Field{"Content-Type", "application/json"}, net::Field{"X-Request-Id", request_id}};
  exchange.respond(status, std::span{fields}.first(request_id.empty() ? 1 : 2), body);
}

LiveAnswer::LiveAnswer(net::Exchange& exchange, AnswerShape shape, std::function<void()> on_gone)
    : exchange_(exchange), shape_(std::move(shape)), on_gone_(std::move(on_gone)) {
  exchange_.listen(this);
}

LiveAnswer::Outcome LiveAnswer::deliver(const SessionRequest& request, std::string_view kv_transfer_params) {
  if (!shape_.stream) {
    if (!request.completed) return Outcome::kMore;
    respond_whole(request, kv_transfer_params);
    return Outcome::kDone;
  }
  if (!started_) {
    started_ = true;
    const std::array fields{net::Field{"Content-Type", "text/event-stream; charset=utf-8"},
                            net::Field{"Cache-Control", "no-cache"}, net::Field{"X-Request-Id", shape_.request_id}};
    exchange_.start(200, fields);
    append_start(request);
  }
  append_tokens(request);
  if (blocked_ && waiting_.size() > kWaitingBytesMax) {
    exchange_.abort();
    return Outcome::kTooSlow;
  }
  if (request.completed) {
    append_end(request);
    exchange_.write(waiting_);
    exchange_.finish();
    return Outcome::kDone;
  }
  if (blocked_) return Outcome::kMore;
  if (!waiting_.empty()) blocked_ = !exchange_.write(waiting_);
  waiting_.clear();
  return Outcome::kMore;
}

void LiveAnswer::abort(const SessionRequest& request) {
  SessionRequest ended = request;
  ended.completed = true;
  ended.plan.finish = api::FinishReason::kAbort;
  static_cast<void>(deliver(ended, {}));
}

api::MessageEnd LiveAnswer::message_end(const SessionRequest& request) const {
  const auto& stop = request.plan.stop;
  const bool is_stopped = stop && request.plan.finish == api::FinishReason::kStop;
  return {request.plan.finish, is_stopped ? std::string_view{shape_.stop[*stop]} : std::string_view{}};
}

void LiveAnswer::append_start(const SessionRequest& request) {
  if (shape_.message)
    api::append_message_start(waiting_, shape_.frame, {request.prompt_tokens, 0, request.cached_tokens});
  else
    api::append_first_event(waiting_, shape_.frame);
}

void LiveAnswer::append_tokens(const SessionRequest& request) {
  std::string text;
  for (; sent_ < request.generated; ++sent_) {
    text.clear();
    append_answer(text, request.plan, sent_, sent_ + 1);
    if (text.empty()) continue;
    if (shape_.message)
      api::append_message_text(waiting_, text);
    else
      api::append_text_event(waiting_, shape_.frame, text);
  }
}

void LiveAnswer::append_end(const SessionRequest& request) {
  if (shape_.message) {
    api::append_block_stop(waiting_, 0);
    api::append_message_delta(waiting_, message_end(request), request.generated, usage_of(request));
    waiting_ += api::kMessageStopEvent;
    return;
  }
  api::append_finish_event(waiting_, shape_.frame, request.plan.finish);
  if (shape_.include_usage) api::append_usage_event(waiting_, shape_.frame, usage_of(request));
  waiting_ += api::kDoneEvent;
}

void LiveAnswer::respond_whole(const SessionRequest& request, std::string_view kv_transfer_params) {
  std::string text;
  append_answer(text, request.plan, 0, request.generated);
  if (shape_.message)
    return respond_json(
        exchange_, 200, shape_.request_id,
        api::whole_message(shape_.frame, text, message_end(request), usage_of(request), kv_transfer_params));
  respond_json(exchange_, 200, shape_.request_id,
               api::whole_answer(shape_.frame, text, request.plan.finish, usage_of(request), kv_transfer_params));
}

void LiveAnswer::refuse(const api::ApiError& error) {
  respond_json(exchange_, error.status, shape_.request_id,
               shape_.message ? api::message_error_body(error) : api::error_body(error));
}

void LiveAnswer::on_writable() {
  blocked_ = false;
  if (!waiting_.empty()) blocked_ = !exchange_.write(waiting_);
  waiting_.clear();
}

void LiveAnswer::on_client_gone() {
  const auto on_gone = std::move(on_gone_);  // A copy that outlives this object.
  on_gone();
}

}  // namespace penstock::engine_server
