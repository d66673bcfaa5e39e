#include "net/credentials.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "net/http.h"

namespace penstock::net {
namespace {

constexpr std::size_t kKeyBytesMax = 16 * 1024;
// Fields that the gateway writes itself, or that belong to the connection.
constexpr std::array<std::string_view, 10> kReserved{
    "host", "content-length", "transfer-encoding", "connection", "keep-alive",
    "te",   "trailer",        "upgrade",           "expect",     "x-request-id"};

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

core::Result<std::string> read_key(const CredentialOptions& options) {
  std::string key;
  if (!options.api_key_env.empty()) {
    const char* value = std::getenv(options.api_key_env.c_str());
    if (value == nullptr || *value == '\0')
      return core::invalid_input({}, "the environment variable \"" + options.api_key_env + "\" is not set");
    key = value;
  } else if (!options.api_key_file.empty()) {
    std::ifstream file{options.api_key_file, std::ios::binary};
    if (!file) return core::environment_error({}, "the API key file " + options.api_key_file + " cannot be read");
    key.resize(kKeyBytesMax + 1);
    file.read(key.data(), static_cast<std::streamsize>(key.size()));
    key.resize(static_cast<std::size_t>(file.gcount()));
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) key.pop_back();
    if (key.empty() || key.size() > kKeyBytesMax)
      return core::invalid_input({}, "the API key file " + options.api_key_file + " must contain one key");
  }
  if (!is_visible(key)) return core::invalid_input({}, "the API key must consist of visible ASCII characters");
  return key;
}

core::Result<void> append_header(std::string& fields, const std::string& header) {
  const std::size_t colon = header.find(':');
  const std::string_view name = std::string_view{header}.substr(0, colon);
  std::string_view value = colon == std::string::npos ? std::string_view{} : std::string_view{header}.substr(colon + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
  constexpr std::string_view kNameSigns = "-_.!#$%&'*+^`|~";
  const auto is_name = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kNameSigns.find(c) != std::string_view::npos;
  };
  const auto is_value = [](char c) { return c == '\t' || (c >= ' ' && c != '\x7f'); };
  if (name.empty() || value.empty() || !std::all_of(name.begin(), name.end(), is_name) ||
      !std::all_of(value.begin(), value.end(), is_value))
    return core::invalid_input({}, "a header must be \"Name: value\"");
  const auto same = [&](std::string_view reserved) { return equal_fold(name, reserved); };
  if (std::any_of(kReserved.begin(), kReserved.end(), same))
    return core::invalid_input({}, "the header field " + std::string{name} + " cannot be set");
  fields.append(name).append(": ").append(value).append("\r\n");
  return {};
}

core::Result<std::shared_ptr<const Credentials>> load_one(const CredentialOptions& options) {
  auto made = std::make_shared<Credentials>();
  if (!options.api_key_env.empty() && !options.api_key_file.empty())
    return core::invalid_input({}, "api_key_env and api_key_file exclude each other");
  const auto key = read_key(options);
  if (!key) return tl::make_unexpected(key.error());
  made->has_key = !key->empty();
  if (made->has_key) made->fields = "Authorization: Bearer " + *key + "\r\n";
  for (const std::string& header : options.headers)
    if (auto added = append_header(made->fields, header); !added) return tl::make_unexpected(added.error());
  if (options.certificate.empty() != options.key_file.empty())
    return core::invalid_input({}, "a client certificate needs a certificate and a key, one of them is missing");
  auto tls = TlsContext::client(options.ca_file, options.certificate, options.key_file);
  if (!tls) return core::invalid_input({}, tls.error().message());
  made->tls = *std::move(tls);
  return made;
}

CredentialOptions merged(CredentialOptions own, const CredentialOptions& defaults) {
  if (own.api_key_env.empty() && own.api_key_file.empty()) {
    own.api_key_env = defaults.api_key_env;
    own.api_key_file = defaults.api_key_file;
  }
  if (own.headers.empty()) own.headers = defaults.headers;
  if (own.ca_file.empty()) own.ca_file = defaults.ca_file;
  if (own.certificate.empty() && own.key_file.empty()) {
    own.certificate = defaults.certificate;
    own.key_file = defaults.key_file;
  }
  return own;
}

}  // namespace

core::Result<CredentialStore> CredentialStore::load(const CredentialOptions& defaults,
                                                    const std::vector<Server>& servers) {
  CredentialStore store;
  auto loaded = load_one(defaults);
  if (!loaded) return tl::make_unexpected(loaded.error());
  store.defaults_ = *std::move(loaded);
  // Servers with the same options share them, and the certificates in memory.
  std::map<CredentialOptions, std::shared_ptr<const Credentials>> known{{defaults, store.defaults_}};
  for (const Server& server : servers) {
    const CredentialOptions options = merged(server.options, defaults);
    auto found = known.find(options);
    if (found == known.end()) {
      auto own = load_one(options);
      if (!own) {
        own.error().where = server.url;
        return tl::make_unexpected(own.error());
      }
      found = known.emplace(options, *std::move(own)).first;
    }
    store.by_url_.insert_or_assign(server.url, found->second);
  }
  return store;
}

std::shared_ptr<const Credentials> CredentialStore::of(const std::string& url) const {
  const auto own = by_url_.find(url);
  return own == by_url_.end() ? defaults_ : own->second;
}

}  // namespace penstock::net
