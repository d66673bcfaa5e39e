#include "gateway/answer_relay.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/answer_watch.h"
#include "core/append.h"
#include "gateway/answer_end.h"
#include "gateway/buffers.h"
#include "gateway/fields.h"
#include "net/memory_budget.h"

namespace penstock::gateway {
namespace {

constexpr std::size_t kHeldMax = 256 * 1024;
constexpr std::size_t kBeginningMax = net::kUncountedBytesMax;

}  // namespace

void AnswerRelay::take_head(const net::ResponseHead& head, const Origin& origin) {
  is_events_ = origin.events;
  content_length_ = origin.events ? std::nullopt : head.content_length;
  // An answer without a length or chunks ends with its connection; the client gets it in chunks.
  raw_ = origin.raw && (head.chunked || content_length_);
  close_after_ = !origin.keep_alive;
  append_answer_head(head_, head, origin.request_id, origin.replica, origin.why);
  const auto append_field = [this](std::string_view name, std::uint32_t value) {
    head_.append(name).append(": ");
    append_number(head_, value);
    head_.append("\r\n");
  };
  if (origin.lowered_max_tokens) append_field("x-penstock-max-tokens", *origin.lowered_max_tokens);
  if (origin.truncated_prompt_tokens > 0)
    append_field("x-penstock-truncated-prompt-tokens", origin.truncated_prompt_tokens);
  if (origin.truncated_messages > 0) append_field("x-penstock-truncated-messages", origin.truncated_messages);
  if (origin.moved_to_batch) head_.append("x-penstock-traffic-class: batch\r\n");
  std::vector<std::pair<std::string, std::string>> limits;
  append_rate_limits(limits, origin.rate_limits);
  for (const auto& [name, value] : limits) core::append_all(head_, {name, ": ", value, "\r\n"});
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

bool AnswerRelay::hold(std::string_view bytes) {
  if (held_.size() + bytes.size() > kBeginningMax) return false;
  held_.append(bytes);
  return true;
}

void AnswerRelay::start(net::Exchange& exchange, int status) const {
  if (raw_) return exchange.start_raw(head_, close_after_);
  exchange.start(status, fields(), content_length_);
}

bool AnswerRelay::relay(net::Exchange& exchange, std::string_view bytes, const api::AnswerWatch& watch,
                        bool strips_usage) {
  const bool without_end = is_events_ && watch.over() && !has_end(watch);
  if (without_end) bytes = bytes.substr(0, std::min(watch.last_chunk_at(), bytes.size()));
  at_event_end_ = is_events_ && watch.settled() >= bytes.size() && !watch.within_event() &&
                  (!without_end || watch.last_chunk_at() != std::string_view::npos);
  return strips_usage && is_events_ ? write_without_usage(exchange, bytes, watch.settled(), watch.usage_events() > 0)
                                    : write(exchange, bytes);
}

bool AnswerRelay::write(net::Exchange& exchange, std::string_view bytes) {
  const bool kept_up = raw_ ? exchange.write_raw(bytes) : exchange.write(bytes);
  return kept_up || std::exchange(paused_, true);
}

bool AnswerRelay::write_without_usage(net::Exchange& exchange, std::string_view bytes, std::size_t settled,
                                      bool has_usage) {
  settled = std::min(settled, bytes.size());
  if (held_.empty() && !has_usage && settled == bytes.size()) return write(exchange, bytes);
  holds_usage_ = holds_usage_ || has_usage;
  // No usage event is longer.
  if (settled == 0 && held_.size() + bytes.size() > kHeldMax) settled = bytes.size();
  held_.append(bytes.substr(0, settled));
  std::string out;
  if (settled > 0) {
    out = take_held();
    // The event may be in a chunk whose line end has not come.
    holds_usage_ = has_usage && settled < bytes.size();
  }
  held_.append(bytes.substr(settled));
  return out.empty() || write(exchange, out);
}

std::string AnswerRelay::take_held() {
  std::string held = std::exchange(held_, {});
  return std::exchange(holds_usage_, false) ? without_usage(held) : held;
}

void AnswerRelay::flush(net::Exchange& exchange) {
  if (const std::string rest = take_held(); !rest.empty()) static_cast<void>(write(exchange, rest));
}

// The framing was checked when the bytes were read.
std::string AnswerRelay::without_usage(std::string_view bytes) const {
  if (!raw_) return api::without_usage_events(bytes);
  std::string payload, out;
  while (!bytes.empty()) {
    std::size_t size = 0;
    std::from_chars(bytes.data(), bytes.data() + bytes.size(), size, 16);
    if (size == 0) break;
    bytes.remove_prefix(std::min(bytes.find('\n') + 1, bytes.size()));
    payload.append(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
    bytes.remove_prefix(std::min(bytes.find('\n') + 1, bytes.size()));
  }
  if (const std::string rest = api::without_usage_events(payload); !rest.empty()) net::append_chunk(out, rest);
  return out.append(bytes);
}

bool AnswerRelay::end_chunks(net::Exchange& exchange, const api::AnswerWatch& watch) {
  if (!at_event_end_ || !watch.done() || watch.over()) return false;
  flush(exchange);
  if (raw_) static_cast<void>(write(exchange, net::kLastChunk));
  return true;
}

void AnswerRelay::write_event(net::Exchange& exchange, std::string_view event) {
  if (content_length_) return;
  std::string chunk;
  if (raw_) net::append_chunk(chunk, event);
  static_cast<void>(write(exchange, raw_ ? std::string_view{chunk} : event));
}

void AnswerRelay::clear(bool keep_memory) {
  paused_ = false;
  free_memory(held_);
  keep_memory ? clear_for_reuse(head_) : free_memory(head_);
}

std::vector<net::Field> AnswerRelay::fields() const { return fields_of(head_); }

std::vector<net::Field> AnswerRelay::json_fields() const {
  std::vector<net::Field> fields = fields_of(head_);
  for (net::Field& field : fields)
    if (net::equal_fold(field.name, "content-type")) field.value = "application/json";
  return fields;
}

}  // namespace penstock::gateway
