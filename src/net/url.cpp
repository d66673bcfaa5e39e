// URLs (RFC 3986), as far as they address a server.
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/digits.h"
#include "net/address.h"

namespace penstock::net {
namespace {

constexpr std::size_t kUrlBytesMax = 2048, kHostBytesMax = 253, kLabelBytesMax = 63;

bool is_hexadecimal(char c) { return core::is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_alphanumeric(char c) { return core::is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Quotes the text for messages, which are one line of printable text.
std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 80;
  std::string out = "\"";
  for (const char c : text.substr(0, kShown)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > kShown ? "…\"" : "\"");
}

bool take_prefix_fold(std::string_view& text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  for (std::size_t at = 0; at < lower.size(); ++at) {
    const char c = text[at];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c) != lower[at]) return false;
  }
  text.remove_prefix(lower.size());
  return true;
}

// Names as DNS and container networks use them, including '_'. A host that ends in a number must be an IPv4 address,
// because resolvers accept "127.1" and "0x7f.1" as addresses.
const char* fault_of_name(std::string_view host) {
  if (host.size() > kHostBytesMax) return "its host is longer than 253 bytes";
  std::string_view label;
  for (std::string_view rest = host;;) {
    const std::size_t dot = rest.find('.');
    label = rest.substr(0, dot);
    if (label.empty()) return "its host has an empty part";
    if (label.size() > kLabelBytesMax) return "a part of its host is longer than 63 bytes";
    for (const char c : label)
      if (!is_alphanumeric(c) && c != '-' && c != '_') return "its host has an invalid character";
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (core::is_digit(label.front()) && !Address::parse(host, 0)) {
    const bool hexadecimal = label.size() > 1 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X');
    if (hexadecimal || label.find_first_not_of("0123456789") == std::string_view::npos)
      return "its host is not a whole IPv4 address";
  }
  return nullptr;
}

const char* fault_of_path(std::string_view path) {
  for (std::size_t at = 0; at < path.size(); ++at) {
    const char c = path[at];
    if (c == '?') return "it has a query";
    if (c == '#') return "it has a fragment";
    if (c == '%') {
      if (path.size() - at < 3 || !is_hexadecimal(path[at + 1]) || !is_hexadecimal(path[at + 2]))
        return "a '%' of its path is not followed by two hexadecimal digits";
      continue;
    }
    if (!is_alphanumeric(c) && std::string_view{"/-._~!$&'()*+,;=:@"}.find(c) == std::string_view::npos)
      return "its path has a character that must be written as %XX";
  }
  return nullptr;
}

const char* take_port(std::string_view digits, std::uint16_t& port) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  return !whole || port == 0 ? "its port is not a number from 1 to 65535" : nullptr;
}

const char* take_authority(std::string_view authority, bool has_scheme, Url& url) {
  if (authority.find('@') != std::string_view::npos)
    return "it has a user name; remove it and configure keys separately";
  std::string_view port;
  bool has_port = false;
  if (!authority.empty() && authority.front() == '[') {
    const std::size_t end = authority.find(']');
    if (end == std::string_view::npos) return "the bracket of its IPv6 address is not closed";
    if (!Address::parse(authority.substr(0, end + 1), 0)) return "the text in brackets is not an IPv6 address";
    url.host = authority.substr(1, end - 1);
    authority.remove_prefix(end + 1);
    if (!authority.empty() && authority.front() != ':') return "only a port may follow the brackets";
    has_port = !authority.empty();
    port = authority.substr(has_port ? 1 : 0);
  } else {
    const std::size_t colon = authority.find(':');
    has_port = colon != std::string_view::npos;
    const std::string_view host = authority.substr(0, colon);
    if (has_port) port = authority.substr(colon + 1);
    if (port.find(':') != std::string_view::npos) return "an IPv6 address must be in brackets";
    if (host.empty()) return "it has no host";
    if (const char* fault = fault_of_name(host)) return fault;
    url.host = host;
  }
  if (has_port) return take_port(port, url.port);
  if (!has_scheme) return "it has neither http:// nor a port";
  url.port = url.tls ? 443 : 80;
  return nullptr;
}

const char* take_url(std::string_view text, Url& url) {
  if (text.size() > kUrlBytesMax) return "it is longer than 2048 bytes";
  url.tls = take_prefix_fold(text, "https://");
  const bool has_scheme = url.tls || take_prefix_fold(text, "http://");
  if (!has_scheme && text.find("://") != std::string_view::npos) return "its scheme is neither http nor https";
  const std::size_t slash = text.find_first_of("/?#");
  if (const char* fault = take_authority(text.substr(0, slash), has_scheme, url)) return fault;
  std::string_view path = slash == std::string_view::npos ? std::string_view{} : text.substr(slash);
  if (const char* fault = fault_of_path(path)) return fault;
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  url.path = path;
  return nullptr;
}

}  // namespace

std::string Url::host_field() const {
  const std::string port_text = ":" + std::to_string(port);
  return host.find(':') == std::string::npos ? host + port_text : "[" + host + "]" + port_text;
}

core::Result<Url> parse_url(std::string_view text) {
  Url url;
  if (const char* fault = take_url(text, url))
    return core::invalid_input({}, quoted(text) + " is not a server address: " + fault,
                               "write http://host:8000, https://host or host:8000");
  return url;
}

}  // namespace penstock::net
