// One answer of a server as bytes: its head, and its body in a framing that the client understands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/http.h"

namespace penstock::net {

// Clients of HTTP/1.0 know no chunks: their answers end with the connection. Used again for each answer of a
// connection.
class AnswerFormat {
 public:
  // Forgets the last answer. The next one goes to a client that sent `request`.
  void begin(const RequestHead& request);
  // The next answer refuses a request that was not read as a whole. The connection closes after it.
  void begin_refusal();
  // Releases what the answer holds.
  void end();

  // Appends a whole head. `date_line` is "Date: …\r\n", for fields without a date. `draining`: the connection closes
  // after the answer.
  void append_head(std::string& out, int status, std::span<const Field> fields, std::optional<std::uint64_t> length,
                   std::string_view date_line, bool draining);
  // Puts the head into head() and chooses the framing of a body that comes in pieces.
  void start(int status, std::span<const Field> fields, std::optional<std::uint64_t> content_length,
             std::string_view date_line, bool draining);
  // The same with a head that an upstream server sent; the body keeps the upstream's framing.
  void start_raw(std::string_view head, bool close_after, bool draining);

  // The bytes to send for a piece of the body: the piece, a part of it, or what is put into `frame`.
  [[nodiscard]] std::string_view body(std::string_view payload, std::string& frame);
  // The same after start_raw().
  [[nodiscard]] std::string_view raw_body(std::string_view bytes, std::string& frame);
  // The bytes that end the body.
  [[nodiscard]] std::string_view body_end() const {
    return framing_ == Framing::kChunked ? kLastChunk : std::string_view{};
  }

  [[nodiscard]] bool started() const { return framing_ != Framing::kNone; }
  // Whether less than the announced length was given to body().
  [[nodiscard]] bool is_short() const { return framing_ == Framing::kLength && left_ > 0; }
  // Whether the request was HEAD, or the status has no body, so that respond() sends the head alone.
  [[nodiscard]] bool is_silent(int status) const;
  [[nodiscard]] bool closes() const { return closes_; }
  // Whether the end of the answer is the end of the connection.
  [[nodiscard]] bool ends_by_closing() const { return ends_by_closing_; }
  // The head, until the caller has sent it.
  [[nodiscard]] std::string& head() { return head_; }

 private:
  enum class Framing : std::uint8_t { kNone, kChunked, kLength, kUntilClose, kRaw, kRawUnchunked, kSilent };

  void append_connection(std::string& out) const;

  Framing framing_ = Framing::kNone;
  bool http_1_0_ = false, to_head_ = false, closes_ = false, ends_by_closing_ = false;
  std::uint64_t left_ = 0;
  std::string head_;
  std::unique_ptr<ChunkReader> chunks_;  // Takes chunks apart for a client of HTTP/1.0.
};

}  // namespace penstock::net
