// Connection details of a replica.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gateway/options.h"
#include "net/address.h"

namespace penstock::gateway {

// Immutable except for the two atomic members; threads share it.
struct Target {
  std::string id, model;
  std::vector<net::Address> addresses;
  // Increases with each address that refused a connection.
  mutable std::atomic<std::uint32_t> unreached{0};
  // The replica answers nothing; see HealthChecker.
  mutable std::atomic<bool> unresponsive{false};
  bool tls = false;
  std::shared_ptr<const net::Credentials> credentials;  // Null: none, and no TLS.
  std::string host;                                     // For TLS.
  std::string host_field;                               // For example "10.0.0.7:8000".
  std::string path_prefix;                              // "" or "/prefix".
};

[[nodiscard]] std::shared_ptr<const Target> make_target(const ReplicaEndpoint& replica);

}  // namespace penstock::gateway
