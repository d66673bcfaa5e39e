// Determines where the body of a response ends (RFC 9112, §6.3).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/http.h"

namespace penstock::net {

class BodyFraming {
 public:
  // `to_head`: the response answers a HEAD request, so it has no body. `raw`: payloads keep their chunk framing, and
  // trailers with illegal names are dropped.
  void begin(const ResponseHead& head, bool to_head, bool raw);

  // Consumes the next piece, which may be empty. Returns at most one payload per step; in raw mode the whole piece.
  // A payload is valid until the next call.
  // Bytes after the body are not consumed. A body that ends with the connection never reaches kDone.
  [[nodiscard]] ChunkReader::Step take(std::string_view bytes);
  [[nodiscard]] bool ends_with_connection() const { return kind_ == Kind::kUntilClose; }

 private:
  [[nodiscard]] ChunkReader::Step take_raw(std::string_view bytes);

  enum class Kind : std::uint8_t { kLength, kChunked, kUntilClose };

  Kind kind_ = Kind::kLength;
  bool raw_ = false;
  std::uint64_t left_ = 0;
  ChunkReader chunks_;
  std::string trailers_;  // In raw mode, until they are complete.
};

}  // namespace penstock::net
