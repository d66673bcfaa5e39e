// Relays an answer from a replica to the client.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/answer_watch.h"
#include "dispatch/refusal.h"
#include "net/http.h"
#include "net/server.h"

namespace penstock::gateway {

// Keeps the head of the answer until its first byte, and of a stream the bytes before its first content, so that the
// request can be retried at another replica until then.
class AnswerRelay {
 public:
  struct Origin {
    std::string_view request_id, replica, why;  // Header fields of the answer.
    // max_tokens that the gateway lowered, which the client is told.
    std::optional<std::uint32_t> lowered_max_tokens{};
    // What was dropped from a truncated prompt, which the client is told; 0: nothing.
    std::uint32_t truncated_prompt_tokens = 0, truncated_messages = 0;
    bool moved_to_batch = false;          // The class of the request was lowered, which the client is told.
    admission::RateLimits rate_limits{};  // Of the tenant.
    bool raw = false;                     // The framing of the replica's answer is relayed with its bytes.
    bool keep_alive = true;               // Whether the client's connection is kept open.
    bool events = false;                  // A stream, which may end early and so has no length.
  };

  void reset() {
    head_.clear();
    held_.clear();
    holds_usage_ = false;
    paused_ = at_event_end_ = false;
  }
  void take_head(const net::ResponseHead& head, const Origin& origin);

  // Keeps bytes that come before the first content of a stream. Returns false and keeps nothing if they are too many.
  [[nodiscard]] bool hold(std::string_view bytes);
  [[nodiscard]] bool has_held() const { return !held_.empty(); }
  // Returns what hold() has kept, and `bytes` behind it.
  [[nodiscard]] std::string take_held_with(std::string_view bytes) { return std::exchange(held_, {}).append(bytes); }

  // Keeps the head for the client; `status` is the replica's.
  void start(net::Exchange& exchange, int status) const;
  // Writes bytes that `watch` has taken. The last chunk of a stream that has no end is kept back, so that the client
  // does not take the stream for whole. Returns false if the client reads too slowly and the caller must pause the
  // replica. Returned once, until resumed().
  [[nodiscard]] bool relay(net::Exchange& exchange, std::string_view bytes, const api::AnswerWatch& watch,
                           bool strips_usage);
  // The client received whole events, and another one can follow.
  [[nodiscard]] bool at_event_end() const { return at_event_end_; }
  // Returns false as relay() does.
  [[nodiscard]] bool write(net::Exchange& exchange, std::string_view bytes);
  // As write(), without events that report usage, whose chunks are written anew. `settled` is AnswerWatch::settled()
  // and `has_usage` whether such an event ended in the bytes. What follows the settled bytes is written later.
  [[nodiscard]] bool write_without_usage(net::Exchange& exchange, std::string_view bytes, std::size_t settled,
                                         bool has_usage);
  void flush(net::Exchange& exchange);  // Writes what is held back, because the replica's answer has ended.
  // Ends the chunks of a stream whose replica has sent the last event and broke off then. Returns false for any other.
  [[nodiscard]] bool end_chunks(net::Exchange& exchange, const api::AnswerWatch& watch);
  // Writes a whole event of the gateway's own, if the framing of the answer allows it.
  void write_event(net::Exchange& exchange, std::string_view event);
  [[nodiscard]] bool resumed() { return std::exchange(paused_, false); }  // Returns true if the replica was paused.

  // Without status line and empty line; the views point into the head.
  [[nodiscard]] std::vector<net::Field> fields() const;
  [[nodiscard]] std::vector<net::Field> json_fields() const;  // For an answer that became a JSON document.
  // Collects the answer of a prefill replica, which is not relayed.
  [[nodiscard]] std::string& text() { return head_; }
  void clear(bool keep_memory);

 private:
  [[nodiscard]] std::string take_held();
  [[nodiscard]] std::string without_usage(std::string_view bytes) const;

  std::string head_;
  std::string held_;          // Bytes before the first content, later those that may be part of an event with usage.
  bool holds_usage_ = false;  // Such an event ended in them.
  bool raw_ = false, close_after_ = false, paused_ = false, is_events_ = false, at_event_end_ = false;
  std::optional<std::uint64_t> content_length_;
};

}  // namespace penstock::gateway
