// Where to listen and where to connect to, as a user writes it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "net/address.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::net;
  const std::string_view text{reinterpret_cast<const char*>(data), size};

  if (const auto url = parse_url(text)) {
    // What was understood is written so that it is understood again.
    const std::string written = (url->tls ? "https://" : "http://") + url->host_field() + url->path;
    const auto again = parse_url(written);
    if (!again || again->tls != url->tls || again->host != url->host || again->port != url->port ||
        again->path != url->path)
      std::abort();
  } else if (url.error().message().find_first_of("\r\n") != std::string::npos) {
    std::abort();
  }

  if (const auto address = Address::parse(text, 80)) {
    const std::string written = address->text();
    const auto again = Address::parse(std::string_view{written}.substr(0, written.rfind(':')), 80);
    if (!again || !(*again == *address)) std::abort();
  }
  return 0;
}
