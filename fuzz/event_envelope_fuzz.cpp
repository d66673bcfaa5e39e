// The envelope of Dynamo's event plane: the payload lies within the frame, and both decoders read the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "telemetry/event_envelope.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::telemetry;
  const std::string_view frame{reinterpret_cast<const char*>(data), size};
  const auto envelope = decode_event_frame(frame);
  if (!envelope) {
    if (envelope.error().message().empty()) std::abort();
    static_cast<void>(decode_event_envelope(frame));
    return 0;
  }
  const std::string_view payload = envelope->payload;
  if (!payload.empty() && (payload.data() < frame.data() || payload.data() + payload.size() > frame.data() + size))
    std::abort();
  const auto bare = decode_event_envelope(frame.substr(5));
  if (!bare || bare->publisher_id != envelope->publisher_id || bare->sequence != envelope->sequence ||
      bare->topic != envelope->topic || bare->payload != payload)
    std::abort();
  return 0;
}
