#include "connect/zmq/frames.h"

#include <charconv>

namespace penstock::connect {
namespace {

std::optional<std::uint64_t> read_sequence(std::string_view frame) {
  if (frame.size() != 8) return std::nullopt;
  std::uint64_t number = 0;
  for (const char byte : frame) number = number << 8 | static_cast<std::uint8_t>(byte);
  return number;
}

}  // namespace

std::optional<Framed> read_frames(std::span<const std::string> frames) {
  if (frames.empty() || frames.size() > kFramesMax) return std::nullopt;
  Framed framed;
  framed.payload = frames.back();
  if (frames.size() == 1) return framed;
  framed.sequence = read_sequence(frames[frames.size() - 2]);
  if (frames.size() >= 3 && !framed.sequence) return std::nullopt;
  if (frames.size() >= 3 || !framed.sequence) framed.topic = frames[0];
  if (frames.size() < 4) return framed;
  framed.publisher = read_sequence(frames[1]);
  if (!framed.publisher) return std::nullopt;
  return framed;
}

SequenceStep step_between(std::optional<std::uint64_t> last, std::uint64_t now) {
  if (!last) return {};
  if (now > *last) return {now - *last - 1, false};
  return {now, true};
}

bool is_tcp_endpoint(std::string_view endpoint) {
  constexpr std::string_view kScheme = "tcp://";
  constexpr std::size_t kHostBytesMax = 253;
  if (!endpoint.starts_with(kScheme)) return false;
  endpoint.remove_prefix(kScheme.size());
  const std::size_t colon = endpoint.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon > kHostBytesMax) return false;
  for (const char c : endpoint.substr(0, colon))
    if (c <= ' ' || c == '/' || c == ';' || c == '*' || c >= 0x7f) return false;
  const std::string_view port = endpoint.substr(colon + 1);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  return error == std::errc{} && end == port.data() + port.size() && number > 0;
}

bool has_ipv6_address(std::string_view endpoint) {
  const std::size_t slashes = endpoint.find("//"), port = endpoint.rfind(':');
  return slashes < port && port != std::string_view::npos &&
         endpoint.substr(slashes, port - slashes).find(':') != std::string_view::npos;
}

}  // namespace penstock::connect
