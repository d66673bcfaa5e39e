// HTTP/1.1 messages as bytes (RFC 9110, RFC 9112): heads are parsed in place, bodies are framed by length or in chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::net {

struct Field {
  std::string_view name, value;  // the value without blanks around it
};

// Views point into the bytes that were parsed.
struct MessageHead {
  std::vector<Field> fields;  // in their order, kFieldsMax at most
  bool http_1_0 = false;
  bool keep_alive = true;  // what Connection and the version say
  bool chunked = false;
  std::optional<std::uint64_t> content_length;
  static constexpr std::size_t kFieldsMax = 128;

  // The first field of that name, in any case; empty if there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const;
  [[nodiscard]] bool has_field(std::string_view name) const;
};
struct RequestHead : MessageHead {
  std::string_view method, target;  // "POST", "/v1/chat/completions?x=1"
  bool expect_continue = false;
  [[nodiscard]] std::string_view path() const;   // the target up to '?'
  [[nodiscard]] std::string_view query() const;  // after it; may be empty
  // A parameter of the query, not decoded; empty if there is none.
  [[nodiscard]] std::string_view parameter(std::string_view name) const;
  [[nodiscard]] std::string decoded_parameter(std::string_view name) const;  // %2F is a slash, + a space
};
struct ResponseHead : MessageHead {
  int status = 0;
};

enum class HeadState : std::uint8_t { kIncomplete, kComplete, kMalformed };
struct HeadResult {
  HeadState state = HeadState::kIncomplete;
  std::size_t bytes = 0;   // of a complete head, the empty line included
  int status = 400;        // what a malformed request deserves: 400, 431, 501 or 505
  const char* fault = "";  // what is wrong with a malformed one
};
// Strict: no bare CR or LF, no folded lines, no blanks before a colon, no second or odd Content-Length, no Content-Length
// beside Transfer-Encoding, no transfer coding but chunked, no control characters, exactly one Host (requests of HTTP/1.1).
// `head` is emptied first and keeps its memory. `searched` bytes at the front are known to hold no end of the head, so
// that a head that comes byte by byte costs linear time.
[[nodiscard]] HeadResult parse_request_head(std::string_view bytes, RequestHead& head, std::size_t searched = 0);
[[nodiscard]] HeadResult parse_response_head(std::string_view bytes, ResponseHead& head, std::size_t searched = 0);

// Finds its way through a chunked body that comes in pieces of any size.
class ChunkReader {
 public:
  enum class State : std::uint8_t { kMore, kDone, kMalformed };
  struct Step {
    State state = State::kMore;
    std::size_t consumed = 0;  // bytes of the input that this step used, framing included
    std::string_view payload;  // the part of the body among them; may be empty
  };
  // Takes the next piece: at most one payload a step. Call it again with the rest until all is consumed or it is done.
  // Trailers are skipped; what follows the body is not consumed. Extensions and trailers are limited to 16 KiB.
  [[nodiscard]] Step take(std::string_view bytes);
  void reset() { *this = ChunkReader{}; }

 private:
  enum class Phase : std::uint8_t { kSize, kExtension, kSizeLf, kData, kDataCr, kDataLf, kTrailer, kTrailerLf, kDone };
  Phase phase_ = Phase::kSize;
  std::uint64_t left_ = 0;
  std::uint32_t digits_ = 0, overhead_ = 0;
  bool line_empty_ = true;
};

[[nodiscard]] std::string_view reason_phrase(int status);  // "Not Found"; "" if there is none
// Case does not matter; ASCII only.
[[nodiscard]] bool equal_fold(std::string_view left, std::string_view right);
void append_chunk(std::string& out, std::string_view payload);  // nothing for an empty one: that would end the body
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
// "%2F" and "+" as what they stand for; none if a '%' is not followed by two hexadecimal digits.
[[nodiscard]] std::optional<std::string> decode_query(std::string_view text);

}  // namespace penstock::net
