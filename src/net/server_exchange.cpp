#include "net/server_exchange.h"

#include "core/result.h"
#include "net/server_connection.h"

namespace penstock::net {

void ServerExchange::begin() {
  answer_.begin(request_->head);
  listener_ = nullptr;
  owes_writable_ = false;
}

std::unique_ptr<Request> ServerExchange::reset() {
  listener_ = nullptr;
  answer_.end();
  return std::move(request_);
}

bool ServerExchange::client_verified() const { return connection_.client_verified(); }
std::string ServerExchange::client_name() const { return connection_.client_name(); }

void ServerExchange::on_all_sent() {
  if (std::exchange(owes_writable_, false) && listener_ != nullptr) listener_->on_writable();
}

void ServerExchange::respond(int status, std::span<const Field> fields, std::string_view body) {
  assert_not_started();
  std::string& frame = connection_.core().frame;
  answer_.append_head(frame, status, fields, body.size(), connection_.core().date_line(), connection_.core().draining);
  connection_.send(frame, answer_.is_silent(status) ? std::string_view{} : body);
  connection_.core().empty_frame();
  connection_.end_exchange();
}

void ServerExchange::start(int status, std::span<const Field> fields, std::optional<std::uint64_t> content_length) {
  assert_not_started();
  answer_.start(status, fields, content_length, connection_.core().date_line(), connection_.core().draining);
}

void ServerExchange::start_raw(std::string_view head, bool close_after) {
  assert_not_started();
  if (!request_->head.http_1_0) answer_.head().swap(connection_.core().spare_head);
  answer_.start_raw(head, close_after, connection_.core().draining);
}

void ServerExchange::assert_not_started() const {
  PENSTOCK_ASSERT(connection_.is_busy() && !answer_.started(), "an exchange has one answer");
}

bool ServerExchange::send_body(std::string_view payload) {
  PENSTOCK_ASSERT(connection_.is_busy() && answer_.started(), "an answer starts before its body");
  std::string& head = answer_.head();
  if (head.empty() && payload.empty()) return connection_.all_sent();
  const bool all_sent = connection_.send(head, payload);
  owes_writable_ = owes_writable_ || !all_sent;
  if (!head.empty()) {
    head.clear();
    head.swap(connection_.core().spare_head);
    std::string{}.swap(head);
  }
  return all_sent;
}

bool ServerExchange::write(std::string_view payload) {
  const bool all_sent = send_body(answer_.body(payload, connection_.core().frame));
  connection_.core().empty_frame();
  return all_sent;
}

bool ServerExchange::write_raw(std::string_view bytes) {
  const bool all_sent = send_body(answer_.raw_body(bytes, connection_.core().frame));
  connection_.core().empty_frame();
  return all_sent;
}

bool ServerExchange::flush() { return send_body({}); }

void ServerExchange::finish() {
  PENSTOCK_ASSERT(connection_.is_busy() && answer_.started(), "an answer starts before it ends");
  // An answer that is shorter than announced must not look complete.
  if (answer_.is_short()) {
    send_body({});
    return abort();
  }
  send_body(answer_.body_end());
  connection_.end_exchange();
}

void ServerExchange::abort() {
  PENSTOCK_ASSERT(connection_.is_busy(), "only an exchange that is in progress is aborted");
  connection_.abort_answer(answer_.ends_by_closing());
}

}  // namespace penstock::net
