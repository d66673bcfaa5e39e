// How a replica is reached.
#pragma once

#include <string>
#include <vector>

#include "net/address.h"

namespace penstock::gateway {

// Never changes once made; threads share it.
struct Target {
  std::string id, model;
  std::vector<net::Address> addresses;
  bool tls = false;
  std::string host;         // for TLS
  std::string host_field;   // "10.0.0.7:8000"
  std::string path_prefix;  // "" or "/prefix"
};

}  // namespace penstock::gateway
