// Where forward pass metrics are on NATS: a server, and a subject on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::connect {

// "nats://host:4222/subject", or "tls://host:4222/subject" for a server that must be reached by TLS. The default port
// is 4222.
struct NatsEndpoint {
  std::string host;  // Without the brackets of an IPv6 address.
  std::uint16_t port = 0;
  std::string subject;  // Empty if the text names none.
  bool tls = false;

  [[nodiscard]] std::string server() const;  // "nats://host:4222"
};
[[nodiscard]] bool is_nats_endpoint(std::string_view text);  // It has one of both schemes.
// Errors name the form. They show neither user nor password of a URL, which belong into files or the environment.
[[nodiscard]] core::Result<NatsEndpoint> parse_nats_endpoint(std::string_view text);

// Subjects are words of visible characters with dots between them; "*" and a last ">" are wildcards.
[[nodiscard]] bool is_nats_subject(std::string_view text);

}  // namespace penstock::connect
