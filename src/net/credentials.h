// How a client identifies itself to servers: API keys, header fields and certificates.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "net/tls.h"

namespace penstock::net {

struct CredentialOptions {
  // The key is sent as a bearer token. At most one of both is given.
  std::string api_key_env;            // Environment variable.
  std::string api_key_file;           // File that contains the key.
  std::vector<std::string> headers;   // "Name: value".
  std::string ca_file;                // PEM file of trusted certificates; empty: those of the system.
  std::string certificate, key_file;  // PEM files of the client's certificate and its key; empty: none.
  auto operator<=>(const CredentialOptions&) const = default;
};

struct Credentials {
  std::string fields;               // Lines of header fields, each with its line end.
  bool has_key = false;             // An API key is among them.
  std::shared_ptr<TlsContext> tls;  // For https.
};

// The credentials of one list of servers. Messages never contain a key or the value of a header field.
class CredentialStore {
 public:
  struct Server {
    std::string url;
    CredentialOptions options;
  };
  // Reads environment and files. What a server does not specify is taken from `defaults`, which apply to all servers
  // that are not listed. Errors have `where` = the URL of the server; empty for the defaults.
  [[nodiscard]] static core::Result<CredentialStore> load(const CredentialOptions& defaults,
                                                          const std::vector<Server>& servers);

  [[nodiscard]] std::shared_ptr<const Credentials> of(const std::string& url) const;

 private:
  std::shared_ptr<const Credentials> defaults_;
  std::map<std::string, std::shared_ptr<const Credentials>> by_url_;
};

}  // namespace penstock::net
