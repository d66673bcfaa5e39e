// Where the body of an answer ends (RFC 9112, §6.3).
#pragma once

#include <cstdint>
#include <string_view>

#include "net/http.h"

namespace penstock::net {

class BodyFraming {
 public:
  // `to_head`: the answer to a HEAD, which has no body whatever its fields say. `raw`: payloads keep their framing.
  void begin(const ResponseHead& head, bool to_head, bool raw);

  // Takes the next piece, which may be empty: at most one payload a step, in raw mode the whole piece. What follows the
  // body is not consumed. A body that ends with the connection never comes to kDone.
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
