// Determines where the body of a response ends (RFC 9112, §6.3).
#pragma once

#include <cstdint>
#include <string_view>

#include "net/http.h"

namespace penstock::net {

class BodyFraming {
 public:
  // `to_head`: the response answers a HEAD request, so it has no body. `raw`: payloads keep their chunk framing.
  void begin(const ResponseHead& head, bool to_head, bool raw);

  // Consumes the next piece, which may be empty. Returns at most one payload per step; in raw mode the whole piece.
  // Bytes after the body are not consumed. A body that ends with the connection never reaches kDone.
  [[nodiscard]] ChunkReader::Step take(std::string_view bytes);
  [[nodiscard]] bool ends_with_connection() const { return kind_ == Kind::kUntilClose; }

 private:
  enum class Kind : std::uint8_t { kLength, kChunked, kUntilClose };

  Kind kind_ = Kind::kLength;
  bool raw_ = false;
  std::uint64_t left_ = 0;
  ChunkReader chunks_;
};

}  // namespace penstock::net
