#include "net/access.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "net/base64.h"
#include "net/http.h"

namespace penstock::net {
namespace {

// Without port, brackets and a final dot.
std::string_view host_of(std::string_view field) {
  if (field.starts_with('[')) {
    const std::size_t end = field.find(']');
    return end == std::string_view::npos ? std::string_view{} : field.substr(1, end - 1);
  }
  std::string_view host = field.substr(0, field.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

bool is_loopback(std::string_view host) {
  return host == "::1" || (host.starts_with("127.") && Address::parse(host, 0).has_value());
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// What follows "scheme " in the field; empty if it has another scheme.
std::string_view credentials(std::string_view field, std::string_view scheme) {
  if (field.size() <= scheme.size() || !equal_fold(field.substr(0, scheme.size()), scheme)) return {};
  field.remove_prefix(scheme.size());
  while (field.starts_with(' ')) field.remove_prefix(1);
  return field;
}

// "user:password" in base64; empty if it is not.
std::string decode(std::string_view base64) {
  constexpr std::size_t kBytesMax = 8192;
  if (base64.size() > kBytesMax) return {};
  return decode_base64(base64);
}

}  // namespace

AccessPolicy::AccessPolicy(const Address& listening, AccessOptions options)
    : listening_(host_of(listening.text())), options_(std::move(options)) {
  if (listening_ == "0.0.0.0" || listening_ == "::") listening_.clear();
}

int AccessPolicy::refusal(const Exchange& exchange, bool is_private) const {
  if (!knows(exchange.head().field("host"))) return 421;
  if (is_private && !authenticates()) return 403;
  const bool needs = authenticates() && (is_private || options_.guards_all);
  return needs && !is_authenticated(exchange) ? 401 : 0;
}

std::string_view AccessPolicy::explain(int status) {
  switch (status) {
    case 421:
      return "the Host field names no address or name of this server; add the name to gateway.admin_hosts or "
             "--dashboard-hosts";
    case 403: return "texts of users are shown with authentication only; configure a token";
    default: return "this path needs a token (Authorization: Bearer TOKEN) or a client certificate";
  }
}

bool AccessPolicy::is_authenticated(const Exchange& exchange) const {
  return (options_.client_certificates && exchange.client_verified()) ||
         accepts(exchange.head().field("authorization"));
}

bool AccessPolicy::knows(std::string_view host_field) const {
  const std::string_view host = host_of(host_field);
  if (host.empty()) return false;
  if (equal_fold(host, "localhost") || is_loopback(host)) return true;
  if (listening_.empty() ? Address::parse(host, 0).has_value() : host == listening_) return true;
  return std::any_of(options_.hosts.begin(), options_.hosts.end(),
                     [&](const std::string& name) { return equal_fold(host, name); });
}

bool AccessPolicy::accepts(std::string_view authorization) const {
  std::string password = decode(credentials(authorization, "basic "));
  password.erase(0, password.find(':') == std::string::npos ? password.size() : password.find(':') + 1);
  const std::string_view given = password.empty() ? credentials(authorization, "bearer ") : password;
  return !given.empty() && std::any_of(options_.tokens.begin(), options_.tokens.end(),
                                       [&](const std::string& token) { return same_secret(token, given); });
}

std::string make_token() {
  unsigned char bytes[32];
  PENSTOCK_ASSERT(RAND_bytes(bytes, sizeof bytes) == 1, "the system has random bytes");
  std::string token;
  for (const unsigned char byte : bytes) token.append({"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]});
  return token;
}

bool is_loopback(const Address& address) { return is_loopback(host_of(address.text())); }

}  // namespace penstock::net
