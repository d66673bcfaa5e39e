// The protocol of NATS as a subscriber receives it: lines of text, and messages with a payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::connect {

enum class NatsOperation : std::uint8_t { kInfo, kMessage, kPing, kPong, kOk, kError };

// What a server sent. The views are valid until the next call of the parser.
struct NatsReceived {
  NatsOperation operation = NatsOperation::kOk;
  std::string_view text;  // The JSON of kInfo, the text of kError.
  std::string_view subject, payload;
  std::uint64_t subscription = 0;  // The number that the subscriber gave it.
};

inline constexpr std::size_t kNatsLineBytesMax = 64 * 1024;
inline constexpr std::size_t kNatsPayloadBytesMax = 16 * 1024 * 1024;

// Cuts a stream of bytes into what the server sent. Not thread-safe.
class NatsParser {
 public:
  void add(std::string_view bytes);
  // Nothing: more bytes are needed. After an error the stream cannot be read any further. Messages with headers are
  // read without them.
  [[nodiscard]] core::Result<std::optional<NatsReceived>> next();
  void reset();  // Another stream begins.

 private:
  std::string buffer_;
  std::size_t read_ = 0;  // Bytes of the buffer that were returned.
};

// A server, and a subject on it: "nats://host:4222/subject". The default port is 4222.
struct NatsEndpoint {
  std::string host;  // Without the brackets of an IPv6 address.
  std::uint16_t port = 0;
  std::string subject;  // Empty if the text names none.

  [[nodiscard]] std::string server() const;  // "nats://host:4222"
};
inline constexpr std::string_view kNatsScheme = "nats://";
// Errors name the form.
[[nodiscard]] core::Result<NatsEndpoint> parse_nats_endpoint(std::string_view text);

// Subjects are words of visible characters with dots between them; "*" and a last ">" are wildcards.
[[nodiscard]] bool is_nats_subject(std::string_view text);

}  // namespace penstock::connect
