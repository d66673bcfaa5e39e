// HTTP/1.1 messages as bytes (RFC 9110, RFC 9112): heads are parsed in place, bodies are framed by length or in chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/equal_fold.h"

namespace penstock::net {

struct Field {
  std::string_view name, value;  // The value excludes surrounding blanks.
};

// The views refer to the bytes that were parsed.
struct MessageHead {
  std::vector<Field> fields;  // In order, at most kFieldsMax.
  bool http_1_0 = false;
  bool keep_alive = true;  // Derived from the Connection field and the version.
  bool chunked = false;
  std::optional<std::uint64_t> content_length;
  static constexpr std::size_t kFieldsMax = 128;

  // Returns the first field with the name, ignoring case; empty if there is none.
  [[nodiscard]] std::string_view field(std::string_view name) const;
  [[nodiscard]] bool has_field(std::string_view name) const;
  // Returns all fields with the name as one list, joined by commas (RFC 9110, 5.3).
  [[nodiscard]] std::string joined_field(std::string_view name) const;
};
struct RequestHead : MessageHead {
  std::string_view method, target;  // For example "POST" and "/v1/chat/completions?x=1".
  bool expect_continue = false;
  [[nodiscard]] std::string_view path() const;   // The target before '?'.
  [[nodiscard]] std::string_view query() const;  // The target after '?'; may be empty.
  // Returns a query parameter without decoding; empty if there is none.
  [[nodiscard]] std::string_view parameter(std::string_view name) const;
  [[nodiscard]] std::string decoded_parameter(std::string_view name) const;  // %2F is a slash, + a space.
};
struct ResponseHead : MessageHead {
  int status = 0;
};

enum class HeadState : std::uint8_t { kIncomplete, kComplete, kMalformed };
struct HeadResult {
  HeadState state = HeadState::kIncomplete;
  std::size_t bytes = 0;   // Length of a complete head, including the empty line.
  int status = 400;        // Status for a malformed request: 400, 431, 501 or 505.
  const char* fault = "";  // The error of a malformed head.
};
// The parser is strict. It rejects bare CR or LF, folded lines, blanks before a colon, repeated or invalid
// Content-Length, Content-Length with Transfer-Encoding, transfer codings other than chunked, control characters, and
// requests of HTTP/1.1 without exactly one Host. `head` is cleared first and keeps its memory. The first `searched`
// bytes are known to hold no end of the head, so that a head that arrives byte by byte costs linear time.
[[nodiscard]] HeadResult parse_request_head(std::string_view bytes, RequestHead& head, std::size_t searched = 0);
[[nodiscard]] HeadResult parse_response_head(std::string_view bytes, ResponseHead& head, std::size_t searched = 0);

// Incremental reader of a chunked body.
class ChunkReader {
 public:
  enum class State : std::uint8_t { kMore, kDone, kMalformed };
  struct Step {
    State state = State::kMore;
    std::size_t consumed = 0;  // Bytes of the input that this step used, including framing.
    std::string_view payload;  // The part of the body among them; may be empty.
  };
  // Consumes the next piece and returns at most one payload per step. The caller repeats the call with the rest until
  // everything is consumed or the body ends. Trailers are skipped; bytes after the body are not consumed. Extensions
  // and trailers together are limited to 16 KiB.
  [[nodiscard]] Step take(std::string_view bytes);
  // The last chunk was read. A step ends here, so that the caller can tell trailers from chunks.
  [[nodiscard]] bool in_trailer() const { return phase_ >= Phase::kTrailer; }
  void reset() { *this = ChunkReader{}; }

 private:
  enum class Phase : std::uint8_t { kSize, kExtension, kSizeLf, kData, kDataCr, kDataLf, kTrailer, kTrailerLf, kDone };
  Phase phase_ = Phase::kSize;
  std::uint64_t left_ = 0;
  std::uint32_t digits_ = 0, overhead_ = 0;
  bool line_empty_ = true;
};

[[nodiscard]] bool is_token(std::string_view text);        // RFC 9110, 5.6.2: the form of methods and field names.
[[nodiscard]] std::string_view reason_phrase(int status);  // For example "Not Found"; "" for unknown statuses.
using core::equal_fold;
// Appends nothing for an empty payload, because an empty chunk ends the body.
void append_chunk(std::string& out, std::string_view payload);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
// Decodes "%2F" and "+". Returns nothing if a '%' is not followed by two hexadecimal digits.
[[nodiscard]] std::optional<std::string> decode_query(std::string_view text);
// The reverse: everything but letters, digits and "-_.~" becomes "%2F".
[[nodiscard]] std::string encode_query(std::string_view text);

}  // namespace penstock::net
