#include "telemetry/event_envelope.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "telemetry/msgpack.h"

namespace penstock::telemetry {
namespace {

constexpr std::string_view kEnvelope = "event envelope";
constexpr char kFrameVersion = 0x01;
constexpr std::size_t kEnvelopeHeaderBytes = 5, kTopicBytesMax = 256;
constexpr std::array<std::string_view, 4> kEnvelopeKeys = {"publisher_id", "sequence", "topic", "payload"};

tl::unexpected<core::Error> envelope_fault(std::string what) {
  return core::invalid_input(std::string(kEnvelope), std::move(what));
}

bool read_envelope_key(MsgpackReader& reader, std::string_view name, EventEnvelope& envelope) {
  const auto integer = [&](std::uint64_t& into) {
    const auto value = reader.read_unsigned();
    into = value.value_or(0);
    return value.has_value();
  };
  if (name == "publisher_id") return integer(envelope.publisher_id);
  if (name == "sequence") return integer(envelope.sequence);
  if (name == "topic") {
    const auto text = reader.read_text();
    envelope.topic = text.value_or("");
    return text && text->size() <= kTopicBytesMax;
  }
  if (name == "payload") {
    const auto bytes = reader.read_binary();
    envelope.payload = bytes.value_or("");
    return bytes.has_value();
  }
  return reader.skip();
}

}  // namespace

core::Result<EventEnvelope> decode_event_frame(std::string_view frame) {
  if (frame.size() < kEnvelopeHeaderBytes)
    return envelope_fault(fmt::format("has {} bytes, fewer than its header", frame.size()));
  if (frame[0] != kFrameVersion)
    return core::invalid_input(
        std::string(kEnvelope),
        fmt::format("has version {}, but only 1 is known", static_cast<unsigned>(static_cast<unsigned char>(frame[0]))),
        "use a newer penstock");
  std::uint32_t length = 0;
  for (const char byte : frame.substr(1, 4)) length = length << 8 | static_cast<std::uint8_t>(byte);
  frame.remove_prefix(kEnvelopeHeaderBytes);
  if (length != frame.size())
    return envelope_fault(fmt::format("names {} bytes, but {} follow its header", length, frame.size()));
  return decode_event_envelope(frame);
}

core::Result<EventEnvelope> decode_event_envelope(std::string_view map) {
  if (map.size() > kEnvelopeBytesMax)
    return envelope_fault(fmt::format("has {} bytes, of at most {}", map.size(), kEnvelopeBytesMax));
  MsgpackReader reader(map);
  const auto pairs = reader.read_map();
  if (!pairs) return envelope_fault("must be a msgpack map");
  EventEnvelope envelope;
  std::array<bool, kEnvelopeKeys.size()> seen{};
  for (std::uint32_t i = 0; i < *pairs; ++i) {
    const auto name = reader.read_text();
    if (!name && !reader.skip()) return envelope_fault("is cut off");
    std::size_t at = 0;
    while (at < kEnvelopeKeys.size() && kEnvelopeKeys[at] != name.value_or("")) ++at;
    if (!read_envelope_key(reader, name.value_or(""), envelope))
      return envelope_fault(at < kEnvelopeKeys.size() ? fmt::format("{}: has another type", kEnvelopeKeys[at])
                                                      : "is cut off");
    if (at < kEnvelopeKeys.size()) seen[at] = true;
  }
  if (!reader.at_end()) return envelope_fault("goes on after its end");
  for (std::size_t at = 0; at < kEnvelopeKeys.size(); ++at)
    if (!seen[at]) return envelope_fault(fmt::format("{}: is missing", kEnvelopeKeys[at]));
  return envelope;
}

}  // namespace penstock::telemetry
