#include "net/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "core/result.h"

namespace penstock::net {
namespace {

static_assert(sizeof(sockaddr_in6) == 28 && sizeof(sockaddr_in) <= 28, "Address keeps either of them");

std::string describe(int error) { return std::generic_category().message(error); }

// Returns the numeric host without brackets and with a terminating NUL, as inet_pton() requires; empty if it cannot be
// numeric.
std::array<char, INET6_ADDRSTRLEN + 1> to_numeric(std::string_view host) {
  std::array<char, INET6_ADDRSTRLEN + 1> text{};
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) return text;  // Only IPv6 addresses have brackets.
  }
  if (host.size() < text.size() && host.find('\0') == std::string_view::npos)
    std::copy(host.begin(), host.end(), text.begin());
  return text;
}

core::Error listen_error(const Address& address, int number) {
  const std::string port = std::to_string(address.port());
  core::Error error{core::ErrorCode::kEnvironment, address.text(), {}, {}};
  switch (number) {
    case EADDRINUSE:
      error.what = "port " + port + " is taken";
      error.hint =
          "stop the process that uses the port (`ss -ltnp 'sport = :" + port + "'` shows it), or choose another port";
      break;
    case EACCES:
      error.what = "port " + port + " requires privileges that this user does not have";
      error.hint = "choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE";
      break;
    case EADDRNOTAVAIL:
      error.what = "port " + port + " cannot be opened: this machine has no such address";
      error.hint = "listen on 127.0.0.1, on 0.0.0.0, or on an address that `ip address` shows";
      break;
    case EMFILE:
    case ENFILE:
      error.what = "port " + port + " cannot be opened: no more file descriptors";
      error.hint = "raise the limit (`ulimit -n`)";
      break;
    default:
      error.what = "port " + port + " cannot be opened: " + describe(number);
      error.hint = "choose another address or port";
  }
  return error;
}

bool set_option(int descriptor, int option) {
  const int on = 1;
  return ::setsockopt(descriptor, SOL_SOCKET, option, &on, sizeof on) == 0;
}

}  // namespace

Address::Address() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  *this = from_system(&address, sizeof address);
}

core::Result<Address> Address::parse(std::string_view host, std::uint16_t port) {
  const auto text = to_numeric(host);
  sockaddr_in v4{};
  if (host.find('[') == std::string_view::npos && ::inet_pton(AF_INET, text.data(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    return from_system(&v4, sizeof v4);
  }
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET6, text.data(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    return from_system(&v6, sizeof v6);
  }
  return core::invalid_input({}, "not an IPv4 or IPv6 address", "write it as 127.0.0.1 or [::1]");
}

core::Result<std::vector<Address>> Address::resolve(const std::string& host, std::uint16_t port) {
  if (auto numeric = parse(host, port)) return std::vector{*numeric};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner{found, &::freeaddrinfo};
  if (failed != 0) {
    const std::string why = failed == EAI_SYSTEM ? describe(errno) : ::gai_strerror(failed);
    return core::environment_error(host, "the name has no address: " + why,
                                   "check the name, or give a numeric address");
  }
  std::vector<Address> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    Address address = from_system(each->ai_addr, each->ai_addrlen);
    // Both families have the port at the same offset.
    reinterpret_cast<sockaddr_in*>(address.bytes_)->sin_port = htons(port);
    if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
  }
  if (addresses.empty())
    return core::environment_error(host, "the name has neither an IPv4 nor an IPv6 address",
                                   "check the name, or give a numeric address");
  return addresses;
}

std::uint16_t Address::port() const { return ntohs(reinterpret_cast<const sockaddr_in*>(bytes_)->sin_port); }

std::string Address::text() const {
  char host[INET6_ADDRSTRLEN] = {};
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(bytes_);
  const std::string port_text = ":" + std::to_string(port());
  if (v4->sin_family == AF_INET) return ::inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host) + port_text;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(bytes_);
  return std::string{"["} + ::inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host) + "]" + port_text;
}

bool Address::operator==(const Address& other) const {
  return length_ == other.length_ && std::memcmp(bytes_, other.bytes_, length_) == 0;
}

// Copies field by field, so that padding and flow labels, which differ for the same peer, do not affect comparisons.
Address Address::from_system(const void* data, unsigned length) {
  if (length >= sizeof(sockaddr_in6) && static_cast<const sockaddr*>(data)->sa_family == AF_INET6) {
    sockaddr_in6 from{};
    std::memcpy(&from, data, sizeof from);
    from.sin6_flowinfo = 0;
    Address address{Blank{}};
    std::memcpy(address.bytes_, &from, sizeof from);
    address.length_ = sizeof from;
    return address;
  }
  Address address{Blank{}};
  sockaddr_in clean{};
  clean.sin_family = AF_INET;
  if (length >= sizeof(sockaddr_in) && static_cast<const sockaddr*>(data)->sa_family == AF_INET) {
    sockaddr_in from{};
    std::memcpy(&from, data, sizeof from);
    clean.sin_port = from.sin_port;
    clean.sin_addr = from.sin_addr;
  }
  std::memcpy(address.bytes_, &clean, sizeof clean);
  address.length_ = sizeof clean;
  return address;
}

core::Result<int> listen_on(const Address& address, bool shared) {
  const auto* system = static_cast<const sockaddr*>(address.data());
  const int descriptor = ::socket(system->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  const bool listens = descriptor >= 0 && set_option(descriptor, SO_REUSEADDR) &&
                       (!shared || set_option(descriptor, SO_REUSEPORT)) &&
                       ::bind(descriptor, system, address.length()) == 0 && ::listen(descriptor, SOMAXCONN) == 0;
  if (listens) return descriptor;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  return tl::make_unexpected(listen_error(address, error));
}

void ignore_new_clients(int listening) {
  constexpr std::uint32_t kFlagsAt = 13, kSyn = 0x02;  // Byte of the TCP header with the flags.
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kFlagsAt), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kSyn, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, 0), BPF_STMT(BPF_RET | BPF_K, UINT32_MAX)};
  const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  // Without the filter, the few clients that connect before the socket is closed may be refused.
  static_cast<void>(::setsockopt(listening, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
}

Address local_address(int descriptor) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  const int failed = ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &length);
  PENSTOCK_ASSERT(failed == 0, "the descriptor is a socket of the caller");
  return Address::from_system(&storage, length);
}

}  // namespace penstock::net
