#include "gateway/answer_relay.h"

#include "gateway/buffers.h"
#include "gateway/fields.h"

namespace penstock::gateway {

void AnswerRelay::take_head(const net::ResponseHead& head, const Origin& origin) {
  content_length_ = origin.events ? std::nullopt : head.content_length;
  // An answer without a length or chunks ends with its connection; the client gets it in chunks.
  raw_ = origin.raw && (head.chunked || content_length_);
  close_after_ = !origin.keep_alive;
  append_answer_head(head_, head, origin.request_id, origin.replica, origin.why);
  if ((head.status == 429 || head.status == 503) && !head.has_field("retry-after")) head_.append("Retry-After: 1\r\n");
  if (!raw_) return;
  if (head.chunked) {
    head_.append("Transfer-Encoding: chunked\r\n");
  } else {
    head_.append("Content-Length: ");
    append_number(head_, *content_length_);
    head_.append("\r\n");
  }
  head_.append("\r\n");
}

void AnswerRelay::start(net::Exchange& exchange, int status) const {
  if (raw_) return exchange.start_raw(head_, close_after_);
  exchange.start(status, fields(), content_length_);
}

bool AnswerRelay::write(net::Exchange& exchange, std::string_view bytes) {
  const bool kept_up = raw_ ? exchange.write_raw(bytes) : exchange.write(bytes);
  return kept_up || std::exchange(paused_, true);
}

void AnswerRelay::write_event(net::Exchange& exchange, std::string_view event) {
  if (content_length_) return;
  std::string chunk;
  if (raw_) net::append_chunk(chunk, event);
  static_cast<void>(write(exchange, raw_ ? std::string_view{chunk} : event));
}

void AnswerRelay::clear(bool keep_memory) {
  paused_ = false;
  keep_memory ? clear_for_reuse(head_) : free_memory(head_);
}

std::vector<net::Field> AnswerRelay::fields() const { return fields_of(head_); }

}  // namespace penstock::gateway
