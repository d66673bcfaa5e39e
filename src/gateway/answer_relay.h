// The way of an answer from a replica to the client.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/http.h"
#include "net/server.h"

namespace penstock::gateway {

// Keeps the head of the answer until its first byte: until then the request can still go to another replica.
class AnswerRelay {
 public:
  struct Origin {
    std::string_view request_id, replica, why;  // fields of the answer
    bool raw = false;                           // the call passes framing on
    bool keep_alive = true;                     // of the client's connection
  };

  void reset() {
    head_.clear();
    paused_ = false;
  }
  void take_head(const net::ResponseHead& head, const Origin& origin);

  // The head goes to the client; `status` is the replica's.
  void start(net::Exchange& exchange, int status) const;
  // False: the client does not keep up, and the caller pauses the replica; once, until resumed().
  [[nodiscard]] bool write(net::Exchange& exchange, std::string_view bytes);
  [[nodiscard]] bool resumed() { return std::exchange(paused_, false); }  // true: the replica was paused

  // Without status line and empty line; views into the head.
  [[nodiscard]] std::vector<net::Field> fields() const;
  // Holds the answer of a prefill replica, which no client reads.
  [[nodiscard]] std::string& text() { return head_; }
  void clear(bool keep_memory);

 private:
  std::string head_;
  bool raw_ = false, close_after_ = false, paused_ = false;
  std::optional<std::uint64_t> content_length_;
};

}  // namespace penstock::gateway
