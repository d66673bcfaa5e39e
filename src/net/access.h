// Who may read an address for operators: the admin address of a gateway, the live page of a planner.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/address.h"
#include "net/server.h"

namespace penstock::net {

struct AccessOptions {
  std::vector<std::string> hosts;    // Names in the Host field, besides those that always work.
  std::vector<std::string> tokens;   // Each of them authenticates.
  bool client_certificates = false;  // TLS verifies certificates of clients; one authenticates like a token.
  bool guards_all = true;            // False: only what is marked as private needs credentials.

  [[nodiscard]] bool authenticates() const { return client_certificates || !tokens.empty(); }
};

// A page of another site can make a browser send requests here under a name of its own (DNS rebinding). Requests must
// therefore name localhost, a loopback address, the address that listens, or a configured name. An address that listens
// everywhere takes all numeric addresses, which cannot be rebound.
class AccessPolicy {
 public:
  AccessPolicy(const Address& listening, AccessOptions options);

  // Returns the status of the refusal; 0 if the request may be served. 421: another name; 401: no credentials; 403: the
  // request is for private data, and there are neither tokens nor client certificates.
  [[nodiscard]] int refusal(const Exchange& exchange, bool is_private = false) const;
  // The sentence for a status that refusal() returned.
  [[nodiscard]] static std::string_view explain(int status);
  [[nodiscard]] bool authenticates() const { return options_.authenticates(); }
  // Returns true if the request has a token ("Bearer TOKEN", or "Basic" with the token as the password, as browsers
  // send it), or came over a connection with a verified client certificate.
  [[nodiscard]] bool is_authenticated(const Exchange& exchange) const;

 private:
  [[nodiscard]] bool knows(std::string_view host_field) const;
  [[nodiscard]] bool accepts(std::string_view authorization) const;

  std::string listening_;  // Without the port; empty for all addresses.
  AccessOptions options_;
};

// Returns 64 random hexadecimal digits.
[[nodiscard]] std::string make_token();

// Returns true for 127.0.0.0/8 and ::1.
[[nodiscard]] bool is_loopback(const Address& address);

}  // namespace penstock::net
