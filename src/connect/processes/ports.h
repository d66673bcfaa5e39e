// Finds free ports of this machine.
#pragma once

#include <cstdint>

namespace penstock::connect {

// Returns whether a server could listen on this port now, on all IPv4 addresses. Another process may take the port
// before the server does; a server that then fails to bind is restarted on another port.
[[nodiscard]] bool is_port_free(std::uint16_t port);

}  // namespace penstock::connect
