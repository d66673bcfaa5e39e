#include "connect/processes/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace penstock::connect {

bool is_port_free(std::uint16_t port) {
  if (port == 0) return false;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return false;
  const int yes = 1;  // Servers set this, too: connections of a process that has ended do not block its port.
  ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  // Two sockets that may share an address can both bind while neither listens; only one can listen.
  const bool is_free =
      ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && ::listen(listener, 1) == 0;
  ::close(listener);
  return is_free;
}

}  // namespace penstock::connect
