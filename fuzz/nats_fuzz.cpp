// What a NATS server sends: the same operations come out whether the bytes arrive at once or in pieces, and every view
// lies within them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "connect/nats/protocol.h"

namespace {

using namespace penstock::connect;

// Reads all operations; the last element is the error.
void read(NatsParser& parser, std::string_view bytes, std::vector<std::string>& all) {
  if (!all.empty() && all.back().starts_with("error ")) return;
  parser.add(bytes);
  for (;;) {
    const auto next = parser.next();
    if (!next) {
      all.push_back("error " + next.error().message());
      return;
    }
    if (!*next) return;
    const NatsReceived& got = **next;
    if (got.payload.size() > kNatsPayloadBytesMax) std::abort();
    all.push_back(std::to_string(static_cast<int>(got.operation)) + " " + std::string{got.text} + " " +
                  std::string{got.subject} + " " + std::to_string(got.subscription) + " " + std::string{got.payload});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  NatsParser whole, pieces;
  std::vector<std::string> at_once, in_pieces;
  read(whole, bytes, at_once);
  const std::size_t piece = size == 0 ? 1 : 1 + data[0] % 16;
  for (std::size_t at = 0; at < size; at += piece) read(pieces, bytes.substr(at, piece), in_pieces);
  if (at_once != in_pieces) std::abort();
  if (const auto endpoint = parse_nats_endpoint(bytes)) {
    const auto again = parse_nats_endpoint(endpoint->server() + "/" + endpoint->subject);
    if (!again || again->server() != endpoint->server() || again->subject != endpoint->subject) std::abort();
  }
  return 0;
}
