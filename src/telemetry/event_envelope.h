// The envelope around the events of NVIDIA Dynamo's event plane (ai-dynamo/dynamo 1.3 to 1.6).
//
// Over ZeroMQ an event has four frames: topic, publisher (8 bytes, big-endian), sequence (8 bytes, big-endian), and a
// frame of one byte 0x01, the length of the envelope (4 bytes, big-endian) and the envelope. Over NATS the envelope is
// the message. The envelope is a msgpack map {publisher_id, sequence, published_at, topic, payload}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/result.h"

namespace penstock::telemetry {

// The views point into the decoded bytes.
struct EventEnvelope {
  std::uint64_t publisher_id = 0, sequence = 0;
  std::string_view topic;
  std::string_view payload;
};

inline constexpr std::string_view kForwardPassTopic = "forward-pass-metrics";
inline constexpr std::size_t kEnvelopeBytesMax = 16 * 1024 * 1024;

// Unknown keys are skipped; a missing key or one of another type is an error that names it. Accept any bytes. O(bytes).
[[nodiscard]] core::Result<EventEnvelope> decode_event_frame(std::string_view frame);   // With the header of ZeroMQ.
[[nodiscard]] core::Result<EventEnvelope> decode_event_envelope(std::string_view map);  // Without it.

}  // namespace penstock::telemetry
