// Addresses to listen on and to connect to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::net {

// The parts of a URL such as "http://host:8000/prefix". The default port is 80 or 443.
struct Url {
  bool tls = false;
  std::string host;  // Without the brackets of an IPv6 address.
  std::uint16_t port = 0;
  std::string path;  // "" or "/prefix", without a trailing slash.

  [[nodiscard]] std::string host_field() const;  // Returns the value of the Host field, such as "host:8000".
};
// Accepts "http://…", "https://…", or "host:port" for http. User, query and fragment are errors.
[[nodiscard]] core::Result<Url> parse_url(std::string_view text);

// An IPv4 or IPv6 address with its port, in the system's representation.
class Address {
 public:
  Address();  // 127.0.0.1:0.
  // Parses a numeric address; a host name is an error.
  [[nodiscard]] static core::Result<Address> parse(std::string_view host, std::uint16_t port);
  // Queries the system's resolver, which blocks, so it must not run on a network thread. Returns at least one address.
  [[nodiscard]] static core::Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port);

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string text() const;  // For example "127.0.0.1:8000" or "[::1]:8000".
  bool operator==(const Address& other) const;

  // The sockaddr and its length, for system calls.
  [[nodiscard]] const void* data() const { return bytes_; }
  [[nodiscard]] unsigned length() const { return length_; }
  [[nodiscard]] static Address from_system(const void* data, unsigned length);

 private:
  struct Blank {};
  explicit Address(Blank) {}

  alignas(8) unsigned char bytes_[28] = {};  // A sockaddr_in or sockaddr_in6.
  unsigned length_ = 0;
};

// Opens a listening socket: non-blocking, closed at exec, with SO_REUSEADDR; `shared` adds SO_REUSEPORT, so that
// several threads can listen on the same port. An error names the likely cause, such as "port 8080 is taken".
[[nodiscard]] core::Result<int> listen_on(const Address& address, bool shared);
[[nodiscard]] Address local_address(int descriptor);
// Lets a listening socket drop packets that begin a connection; handshakes that have begun still end. The client
// repeats the packet after a second, and reaches another socket of the port if there is one.
void ignore_new_clients(int listening);

}  // namespace penstock::net
