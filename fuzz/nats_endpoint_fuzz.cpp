// An endpoint of NATS, as options and Dynamo's records name it: what is read is written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "connect/nats/endpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::connect;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto endpoint = parse_nats_endpoint(text);
  if (!endpoint) return 0;
  if (!is_nats_endpoint(text)) std::abort();
  const auto again = parse_nats_endpoint(endpoint->server() + "/" + endpoint->subject);
  if (!again || again->server() != endpoint->server() || again->subject != endpoint->subject) std::abort();
  return 0;
}
