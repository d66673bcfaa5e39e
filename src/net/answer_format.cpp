#include "net/answer_format.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/result.h"

namespace penstock::net {

namespace {

bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

// Line breaks are replaced, because a value with a line break could inject fields or a response.
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

// Returns the head for a client of HTTP/1.0, without framing fields.
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

void AnswerFormat::begin(const RequestHead& request) {
  framing_ = Framing::kNone;
  http_1_0_ = request.http_1_0;
  to_head_ = request.method == "HEAD";
  closes_ = !request.keep_alive;
  ends_by_closing_ = false;
}

void AnswerFormat::begin_refusal() {
  framing_ = Framing::kNone;
  closes_ = true;
}

void AnswerFormat::end() {
  framing_ = Framing::kNone;
  std::string{}.swap(head_);
  chunks_.reset();
}

bool AnswerFormat::is_silent(int status) const { return to_head_ || has_no_body(status); }

void AnswerFormat::append_connection(std::string& out) const {
  if (closes_)
    out.append("Connection: close\r\n");
  else if (http_1_0_)
    out.append("Connection: keep-alive\r\n");
}

void AnswerFormat::append_head(std::string& out, int status, std::span<const Field> fields,
                               std::optional<std::uint64_t> length, std::string_view date_line, bool draining) {
  closes_ = closes_ || draining;
  append_status_line(out, status);
  for (const Field& field : fields) append_field(out, field);
  // A relayed answer keeps the date of its origin (RFC 9110, 6.6.1).
  const auto is_date = [](const Field& field) { return equal_fold(field.name, "date"); };
  if (std::none_of(fields.begin(), fields.end(), is_date)) out.append(date_line);
  if (length && status >= 200 && status != 204) {
    out.append("Content-Length: ");
    append_number(out, *length);
    out.append("\r\n");
  }
  if (framing_ == Framing::kChunked) out.append("Transfer-Encoding: chunked\r\n");
  append_connection(out);
  out.append("\r\n");
}

void AnswerFormat::start(int status, std::span<const Field> fields, std::optional<std::uint64_t> content_length,
                         std::string_view date_line, bool draining) {
  if (content_length) {
    framing_ = Framing::kLength;
    left_ = *content_length;
  } else if (has_no_body(status)) {
    framing_ = Framing::kSilent;
  } else if (http_1_0_) {
    framing_ = Framing::kUntilClose;
    closes_ = ends_by_closing_ = true;
  } else {
    framing_ = Framing::kChunked;
  }
  append_head(head_, status, fields, content_length, date_line, draining);
  if (is_silent(status)) framing_ = Framing::kSilent;
}

void AnswerFormat::start_raw(std::string_view head, bool close_after, bool draining) {
  PENSTOCK_ASSERT(head.ends_with("\r\n\r\n"), "a raw head is whole");
  framing_ = Framing::kRaw;
  ends_by_closing_ = close_after;
  closes_ = closes_ || close_after || draining;
  if (http_1_0_) {
    bool was_chunked = false;
    head_ = head_for_1_0(head, was_chunked);
    closes_ = true;
    if (was_chunked) {
      ends_by_closing_ = true;
      framing_ = Framing::kRawUnchunked;
      chunks_ = std::make_unique<ChunkReader>();
    }
  } else {
    head_.assign(head.substr(0, head.size() - 2));
  }
  append_connection(head_);
  head_.append("\r\n");
  if (to_head_) framing_ = Framing::kSilent;
}

std::string_view AnswerFormat::body(std::string_view payload, std::string& frame) {
  switch (framing_) {
    case Framing::kSilent: return {};
    case Framing::kLength:
      // A client would take more than was announced for the next answer.
      payload = payload.substr(0, left_);
      left_ -= payload.size();
      return payload;
    case Framing::kChunked:
      if (payload.empty()) return {};
      append_chunk(frame, payload);
      return frame;
    default: return payload;
  }
}

std::string_view AnswerFormat::raw_body(std::string_view bytes, std::string& frame) {
  if (framing_ == Framing::kSilent) return {};
  if (framing_ != Framing::kRawUnchunked) return bytes;
  ChunkReader::Step step;
  while (!bytes.empty() && step.state == ChunkReader::State::kMore) {
    step = chunks_->take(bytes);
    frame.append(step.payload);
    bytes.remove_prefix(step.consumed);
  }
  return frame;
}

}  // namespace penstock::net
