// Where to listen and where to connect to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::net {

// "http://host:8000/prefix" taken apart. The port is 80 or 443 where none is given.
struct Url {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  std::uint16_t port = 0;
  std::string path;  // "" or "/prefix", without a slash at its end

  [[nodiscard]] std::string host_field() const;  // "host:8000", as the Host field says it
};
// "http://…", "https://…", or "host:port" for the former. No user, query or fragment.
[[nodiscard]] core::Result<Url> parse_url(std::string_view text);

// An IPv4 or IPv6 address with its port, ready for the system.
class Address {
 public:
  Address();  // 127.0.0.1:0
  // A numeric address; an error for a name.
  [[nodiscard]] static core::Result<Address> parse(std::string_view host, std::uint16_t port);
  // Asks the resolver, which blocks: not on a network thread. At least one.
  [[nodiscard]] static core::Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port);

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string text() const;  // "127.0.0.1:8000", "[::1]:8000"
  bool operator==(const Address& other) const;

  // As the system's calls want it: a sockaddr and its length.
  [[nodiscard]] const void* data() const { return bytes_; }
  [[nodiscard]] unsigned length() const { return length_; }
  [[nodiscard]] static Address from_system(const void* data, unsigned length);

 private:
  struct Blank {};
  explicit Address(Blank) {}

  alignas(8) unsigned char bytes_[28] = {};  // a sockaddr_in or sockaddr_in6
  unsigned length_ = 0;
};

// A socket that listens, non-blocking, closed at exec, with SO_REUSEADDR; with `shared` also SO_REUSEPORT, so that each
// thread listens on its own. Errors say who may be in the way: "port 8080 is taken".
[[nodiscard]] core::Result<int> listen_on(const Address& address, bool shared);
[[nodiscard]] Address local_address(int descriptor);

}  // namespace penstock::net
