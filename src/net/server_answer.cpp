// The output of a server's connection: heads, framing, and what the socket does not take at once.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <utility>

#include "core/result.h"
#include "net/server_connection.h"

namespace penstock::net {

namespace {

constexpr core::Duration kLingerTime = std::chrono::seconds{2};

bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

// A line break in a value would let whoever chose the value write fields, or an answer, of its own.
void append_field(std::string& out, const Field& field) {
  out.append(field.name).append(": ");
  for (const char c : field.value) out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
  out.append("\r\n");
}

void append_status_line(std::string& out, int status) {
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::uint64_t>(status));
  out.append(" ").append(reason_phrase(status)).append("\r\n");
}

// A head as a client of HTTP/1.0 may get it: without the framing that it does not know.
std::string head_for_1_0(std::string_view bytes, bool& was_chunked) {
  ResponseHead head;
  const HeadResult result = parse_response_head(bytes, head);
  PENSTOCK_ASSERT(result.state == HeadState::kComplete, "a raw head is one of HTTP");
  was_chunked = head.chunked;
  std::string out{bytes.substr(0, bytes.find('\n') + 1)};
  for (const Field& field : head.fields)
    if (!equal_fold(field.name, "transfer-encoding") && !equal_fold(field.name, "connection") &&
        !equal_fold(field.name, "keep-alive") && !equal_fold(field.name, "trailer"))
      append_field(out, field);
  return out;
}

}  // namespace

void ServerConnection::append_connection(std::string& out) const {
  if (closes_)
    out.append("Connection: close\r\n");
  else if (request_ != nullptr && request_->head.http_1_0)
    out.append("Connection: keep-alive\r\n");
}

void ServerConnection::append_head(std::string& out, int status, std::span<const Field> fields,
                                   std::optional<std::uint64_t> length) {
  closes_ = closes_ || core_.draining;
  append_status_line(out, status);
  for (const Field& field : fields) append_field(out, field);
  out.append(core_.date_line());
  if (length && status >= 200 && status != 204) {
    out.append("Content-Length: ");
    append_number(out, *length);
    out.append("\r\n");
  }
  if (framing_ == Framing::kChunked) out.append("Transfer-Encoding: chunked\r\n");
  append_connection(out);
  out.append("\r\n");
}

void ServerConnection::respond(int status, std::span<const Field> fields, std::string_view body) {
  PENSTOCK_ASSERT(phase_ == Phase::kBusy && framing_ == Framing::kNone, "an exchange has one answer");
  std::string& frame = core_.frame;
  append_head(frame, status, fields, body.size());
  const bool is_silent = request_->head.method == "HEAD" || has_no_body(status);
  send(frame, is_silent ? std::string_view{} : body);
  core_.empty_frame();
  end_exchange();
}

void ServerConnection::start(int status, std::span<const Field> fields, std::optional<std::uint64_t> content_length) {
  PENSTOCK_ASSERT(phase_ == Phase::kBusy && framing_ == Framing::kNone, "an exchange has one answer");
  if (content_length) {
    framing_ = Framing::kLength;
    answer_left_ = *content_length;
  } else if (has_no_body(status)) {
    framing_ = Framing::kSilent;
  } else if (request_->head.http_1_0) {
    framing_ = Framing::kUntilClose;
    closes_ = ends_by_closing_ = true;
  } else {
    framing_ = Framing::kChunked;
  }
  append_head(answer_head_, status, fields, content_length);
  if (request_->head.method == "HEAD" || has_no_body(status)) framing_ = Framing::kSilent;
}

bool ServerConnection::send_body(std::string_view payload) {
  PENSTOCK_ASSERT(phase_ == Phase::kBusy && framing_ != Framing::kNone, "an answer starts before its body");
  if (answer_head_.empty() && payload.empty()) return out_.empty();
  const bool all_sent = send(answer_head_, payload);
  owes_writable_ = owes_writable_ || !all_sent;
  if (!answer_head_.empty()) {
    answer_head_.clear();
    answer_head_.swap(core_.spare_head);
    std::string{}.swap(answer_head_);
  }
  return all_sent;
}

bool ServerConnection::write(std::string_view payload) {
  switch (framing_) {
    case Framing::kSilent: return send_body({});
    case Framing::kLength:
      // More than was announced would be taken for the next answer.
      payload = payload.substr(0, answer_left_);
      answer_left_ -= payload.size();
      return send_body(payload);
    case Framing::kChunked: {
      if (payload.empty()) return send_body({});
      std::string& frame = core_.frame;
      append_chunk(frame, payload);
      const bool all_sent = send_body(frame);
      core_.empty_frame();
      return all_sent;
    }
    default: return send_body(payload);
  }
}

bool ServerConnection::flush() { return send_body({}); }

void ServerConnection::finish() {
  PENSTOCK_ASSERT(phase_ == Phase::kBusy && framing_ != Framing::kNone, "an answer starts before it ends");
  // An answer that is shorter than it said must not look whole.
  if (framing_ == Framing::kLength && answer_left_ > 0) {
    send_body({});
    return abort();
  }
  send_body(framing_ == Framing::kChunked ? kLastChunk : std::string_view{});
  end_exchange();
}

void ServerConnection::start_raw(std::string_view head, bool close_after) {
  PENSTOCK_ASSERT(phase_ == Phase::kBusy && framing_ == Framing::kNone, "an exchange has one answer");
  PENSTOCK_ASSERT(head.ends_with("\r\n\r\n"), "a raw head is whole");
  framing_ = Framing::kRaw;
  ends_by_closing_ = close_after;
  closes_ = closes_ || close_after || core_.draining;
  if (request_->head.http_1_0) {
    bool was_chunked = false;
    answer_head_ = head_for_1_0(head, was_chunked);
    closes_ = true;
    if (was_chunked) {
      ends_by_closing_ = true;
      framing_ = Framing::kRawUnchunked;
      answer_chunks_ = std::make_unique<ChunkReader>();
    }
  } else {
    answer_head_.swap(core_.spare_head);
    answer_head_.assign(head.substr(0, head.size() - 2));
  }
  append_connection(answer_head_);
  answer_head_.append("\r\n");
  if (request_->head.method == "HEAD") framing_ = Framing::kSilent;
}

bool ServerConnection::write_raw(std::string_view bytes) {
  if (framing_ == Framing::kSilent) return send_body({});
  if (framing_ != Framing::kRawUnchunked) return send_body(bytes);
  std::string& frame = core_.frame;
  ChunkReader::Step step;
  while (!bytes.empty() && step.state == ChunkReader::State::kMore) {
    step = answer_chunks_->take(bytes);
    frame.append(step.payload);
    bytes.remove_prefix(step.consumed);
  }
  const bool all_sent = send_body(frame);
  core_.empty_frame();
  return all_sent;
}

void ServerConnection::abort() {
  PENSTOCK_ASSERT(phase_ == Phase::kBusy, "an exchange is under way");
  // Where the end of the connection is the end of the answer, only a reset tells that it is not whole.
  if (ends_by_closing_) {
    const linger reset{1, 0};
    setsockopt(transport_->descriptor(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  close();
}

// Sends at once what the socket takes, and keeps the rest. False: some is kept.
bool ServerConnection::send(std::string_view first, std::string_view second) {
  if (is_broken_) return false;
  if (!out_.empty()) {
    if (sent_ > out_.size() / 2) out_.erase(0, std::exchange(sent_, 0));
    out_.append(first).append(second);
    return false;
  }
  if (first.empty()) std::swap(first, second);
  if (first.empty()) return true;
  const Transport::Transfer put = transport_->write(first, second);
  write_wants_read_ = put.wants_read;
  if (put.failed || put.closed) {
    // Told later: the handler that writes is on the stack.
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
  sent_ = 0;
  set_write_deadline(core::kNever);
  on_all_sent();
}

void ServerConnection::on_all_sent() {
  if (phase_ == Phase::kClosing) {
    end_closing();
  } else if (phase_ == Phase::kBusy) {
    if (std::exchange(owes_writable_, false) && listener_ != nullptr) listener_->on_writable();
  } else if (phase_ == Phase::kHead && !in_.empty()) {
    take_input({});
  }
}

void ServerConnection::refuse(int status, std::string_view fault) {
  const std::string body = core_.handler.error_body(status, fault);
  closes_ = lingers_ = true;
  static constexpr std::array<Field, 1> kFields = {Field{"Content-Type", "application/json"}};
  std::string answer;
  append_head(answer, status, kFields, body.size());
  send(answer, body);
  begin_closing();
}

void ServerConnection::begin_closing() {
  if (request_ != nullptr) release_request();
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
