// The output of a server's connection: what the socket does not take at once, refusals, and the end.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <span>
#include <utility>

#include "core/result.h"
#include "net/server_connection.h"

namespace penstock::net {

namespace {

constexpr core::Duration kLingerTime = std::chrono::seconds{2};
constexpr std::uint32_t kRetryAfterMemoryS = 1;

}  // namespace

void ServerConnection::abort_answer(bool with_reset) {
  // Where the end of the connection is the end of the answer, only a reset shows that the answer is not complete.
  if (with_reset) {
    const linger reset{1, 0};
    setsockopt(transport_->descriptor(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  close();
}

bool ServerConnection::send(std::string_view first, std::string_view second) {
  if (is_broken_) return false;
  if (!out_.empty()) {
    if (sent_ > out_.size() / 2) out_.erase(0, std::exchange(sent_, 0));
    out_.append(first).append(second);
    count_buffers();
    return false;
  }
  if (first.empty()) std::swap(first, second);
  if (first.empty()) return true;
  const Transport::Transfer put = transport_->write(first, second);
  write_wants_read_ = put.wants_read;
  if (put.failed || put.closed) {
    // Reported later, because the writing handler is on the stack.
    is_broken_ = true;
    if (!std::exchange(resumes_, true)) core_.resume_later(*this);
    return false;
  }
  if (put.bytes == first.size() + second.size()) return true;
  if (put.bytes < first.size())
    out_.append(first.substr(put.bytes)).append(second);
  else
    out_.append(second.substr(put.bytes - first.size()));
  sent_ = 0;
  set_write_deadline(core_.loop.now() + core_.limits.write_time);
  count_buffers();
  update_interest();
  return false;
}

void ServerConnection::send_waiting() {
  const Transport::Transfer put = transport_->write(std::string_view{out_}.substr(sent_));
  write_wants_read_ = put.wants_read;
  if (put.failed || put.closed) return on_lost();
  sent_ += put.bytes;
  if (sent_ < out_.size()) {
    if (put.bytes > 0) set_write_deadline(core_.loop.now() + core_.limits.write_time);
    return;
  }
  std::string{}.swap(out_);
  count_buffers();
  sent_ = 0;
  set_write_deadline(core::kNever);
  on_all_sent();
}

void ServerConnection::on_all_sent() {
  if (phase_ == Phase::kClosing) {
    end_closing();
  } else if (phase_ == Phase::kBusy) {
    exchange_.on_all_sent();
  } else if (phase_ == Phase::kHead && !in_.empty()) {
    take_input({});
  }
  end_without_input();
}

void ServerConnection::refuse(int status, std::string_view fault) {
  refuse(status, core_.handler.error_body(status, fault), status == 503 ? kRetryAfterMemoryS : 0);
}

void ServerConnection::refuse_for_memory() {
  ++core_.counters.out_of_memory;
  refuse(503, "the limit of memory for requests is reached; retry later");
}

void ServerConnection::refuse(int status, std::string_view body, std::uint32_t retry_after_s) {
  lingers_ = true;
  exchange_.answer().begin_refusal();
  const std::string seconds = std::to_string(retry_after_s);
  const std::array<Field, 2> fields{Field{"Content-Type", "application/json"}, Field{"Retry-After", seconds}};
  std::string answer;
  exchange_.answer().append_head(answer, status, std::span{fields}.first(retry_after_s > 0 ? 2 : 1), body.size(),
                                 core_.date_line(), core_.draining);
  send(answer, body);
  begin_closing();
}

void ServerConnection::begin_closing() {
  if (exchange_.request() != nullptr) release_request();
  std::string{}.swap(in_);
  phase_ = Phase::kClosing;
  set_phase_deadline(core::kNever);
  if (is_broken_) return;
  if (out_.empty()) return end_closing();
  update_interest();
}

void ServerConnection::end_closing() {
  if (!lingers_) return close();
  shutdown(transport_->descriptor(), SHUT_WR);
  phase_ = Phase::kLinger;
  set_phase_deadline(core_.loop.now() + kLingerTime);
  update_interest();
}

}  // namespace penstock::net
