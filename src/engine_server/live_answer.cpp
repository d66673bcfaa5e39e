#include "engine_server/live_answer.h"

#include <array>
#include <utility>

namespace penstock::engine_server {

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
    shape_.format->append_start(waiting_, request);
  }
  append_tokens(request);
  if (blocked_ && waiting_.size() > kWaitingBytesMax) {
    exchange_.abort();
    return Outcome::kTooSlow;
  }
  if (request.completed) {
    shape_.format->append_end(waiting_, request);
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

void LiveAnswer::append_tokens(const SessionRequest& request) {
  std::string text;
  for (; sent_ < request.generated; ++sent_) {
    text.clear();
    append_answer(text, request.plan, sent_, sent_ + 1);
    if (!text.empty()) shape_.format->append_text(waiting_, text);
  }
}

void LiveAnswer::respond_whole(const SessionRequest& request, std::string_view kv_transfer_params) {
  std::string text;
  append_answer(text, request.plan, 0, request.generated);
  respond_json(exchange_, 200, shape_.request_id, shape_.format->whole(text, request, kv_transfer_params));
}

void LiveAnswer::refuse(const api::ApiError& error) {
  respond_json(exchange_, error.status, shape_.request_id, shape_.format->error_body(error));
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
