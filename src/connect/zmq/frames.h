// Frames and sequence numbers of a published message.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock::connect {

inline constexpr std::size_t kFramesMax = 4;

struct Framed {
  std::string_view topic, payload;
  std::optional<std::uint64_t> publisher, sequence;
};

// Four frames are topic, publisher, sequence and payload, as on Dynamo's event plane. Three are topic, sequence and
// payload; two are sequence and payload if the first has 8 bytes, else topic and payload; one is the payload. Returns
// nothing if there are no frames, more than four, or a publisher or sequence without 8 bytes.
[[nodiscard]] std::optional<Framed> read_frames(std::span<const std::string> frames);

struct SequenceStep {
  std::uint64_t lost = 0;
  bool restarted = false;
};

// Compares a sequence number with the publisher's previous one. A number that is not higher means that the publisher
// has restarted; numbers below it count as lost.
[[nodiscard]] SequenceStep step_between(std::optional<std::uint64_t> last, std::uint64_t now);

// Checks the form "tcp://host:port".
[[nodiscard]] bool is_tcp_endpoint(std::string_view endpoint);
// Whether the host of such an endpoint is an IPv6 address, which ZeroMQ uses only where it is allowed to. For host
// names it would then prefer IPv6 to the IPv4 address at which a publisher listens.
[[nodiscard]] bool has_ipv6_address(std::string_view endpoint);

}  // namespace penstock::connect
