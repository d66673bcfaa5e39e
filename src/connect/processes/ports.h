// Which ports of this machine are free.
#pragma once

#include <cstdint>

namespace penstock::connect {

// Whether a server could listen on it now, on all addresses of IPv4. Somebody else may take it before it does; a server
// that then fails to bind is started again on another port.
[[nodiscard]] bool is_port_free(std::uint16_t port);

}  // namespace penstock::connect
