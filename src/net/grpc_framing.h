// Messages of gRPC in the bytes of a call, each after a flag and its length, and the text of a status.
// Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::net {

inline constexpr std::size_t kGrpcPrefixBytes = 5;

class GrpcMessageReader {
 public:
  explicit GrpcMessageReader(std::size_t message_bytes_max) : message_bytes_max_{message_bytes_max} {}

  enum class State : std::uint8_t { kMore, kMessage, kCompressed, kTooLarge };
  // Reads from the front of the bytes and removes what it has read. After kMessage, repeat the call with the rest. A
  // message that the bytes hold as a whole is not copied. Nothing may be read after kCompressed and kTooLarge.
  [[nodiscard]] State next(std::string_view& bytes);
  [[nodiscard]] std::string_view message() const { return message_; }  // Valid as long as the bytes, until next().
  [[nodiscard]] bool has_part() const { return !part_.empty() && !is_complete_; }

 private:
  [[nodiscard]] State check(std::string_view prefix) const;  // kMessage: it may be read.

  std::size_t message_bytes_max_;
  std::string part_;  // A message that arrives in pieces, with its prefix.
  std::string_view message_;
  bool is_complete_ = false;  // part_ is.
};

void append_grpc_message(std::string& out, std::string_view message);
// Percent-encodes what grpc-message may not hold.
[[nodiscard]] std::string encode_grpc_text(std::string_view text);
// Clears the buffer, whose memory is kept if it is small: most calls last long and send little at a time.
void clear_grpc_buffer(std::string& buffer);

}  // namespace penstock::net
