// The output of a server's connection: what the socket does not take at once, refusals, and the end.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "net/server_connection.h"

namespace penstock::net {

namespace {

constexpr core::Duration kLingerTime = std::chrono::seconds{2};
constexpr std::string_view kRetryAfterMemoryS = "1";

}  // namespace

void ServerConnection::abort_answer(bool with_reset) {
  // Where the end of the connection is the end of the answer, only a reset shows that the answer is not complete.
  if (with_reset) {
    const linger reset{1, 0};
    setsockopt(transport_->descriptor(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  close();
}

void ServerConnection::send_waiting() {
  const Flushed flushed = flush();
  if (flushed == Flushed::kLost) return on_lost();
  if (flushed == Flushed::kAll) on_all_sent();
}

void ServerConnection::on_all_sent() {
  if (phase_ == Phase::kClosing) {
    end_closing();
  } else if (phase_ == Phase::kBusy) {
    exchange_.on_all_sent();
  } else if (phase_ == Phase::kHead) {
    begin_idle();
    if (!in_.empty()) take_input({});
  }
  end_without_input();
}

void ServerConnection::refuse(int status, std::string_view fault) {
  std::vector<Field> fields;
  if (status == 503) fields.push_back({"Retry-After", kRetryAfterMemoryS});
  refuse(status, core_.handler.error_body(status, fault), std::move(fields));
}

void ServerConnection::refuse_for_memory() {
  ++core_.counters.out_of_memory;
  refuse(503, "the limit of memory for requests is reached; retry later");
}

void ServerConnection::refuse(int status, std::string_view body, std::vector<Field> fields) {
  lingers_ = true;
  exchange_.answer().begin_refusal();
  const std::string id =
      exchange_.request() != nullptr ? core_.handler.request_id(exchange_.request()->head) : std::string{};
  if (!id.empty()) fields.insert(fields.begin(), {"x-request-id", id});
  fields.insert(fields.begin(), {"Content-Type", "application/json"});
  std::string answer;
  exchange_.answer().append_head(answer, status, fields, body.size(), core_.date_line(), core_.draining);
  send(answer, body);
  begin_closing();
}

void ServerConnection::begin_closing() {
  if (exchange_.request() != nullptr) release_request();
  std::string{}.swap(in_);
  phase_ = Phase::kClosing;
  set_phase_deadline(core::kNever);
  if (is_broken_) return;
  if (all_sent()) return end_closing();
  update_watch();
}

void ServerConnection::end_closing() {
  if (!lingers_) return close();
  shutdown(transport_->descriptor(), SHUT_WR);
  phase_ = Phase::kLinger;
  set_phase_deadline(core_.loop.now() + kLingerTime);
  update_watch();
}

}  // namespace penstock::net
