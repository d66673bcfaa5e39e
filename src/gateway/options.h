// What a gateway is configured with, once, before it starts. Replicas come and go later; see gateway.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/time.h"
#include "dispatch/options.h"
#include "dispatch/replica_spec.h"
#include "net/address.h"
#include "net/client.h"
#include "net/server.h"
#include "routing/prefix_pings.h"

namespace penstock::gateway {

struct ApiKey {
  std::string key;  // only its digest is kept
  std::uint32_t tenant = 0;
};

struct GatewayOptions {
  dispatch::DispatchOptions dispatch;  // the anonymous tenant is added
  std::vector<ApiKey> api_keys;
  bool anonymous = true;  // requests without a key are admitted, as the tenant of that name

  std::uint32_t threads = 1;
  net::ServerLimits server;
  net::ClientLimits client;
  std::shared_ptr<net::TlsContext> tls;         // null: plain
  std::shared_ptr<net::TlsContext> client_tls;  // for replicas behind https

  std::optional<routing::PingOptions> prefix_pings;         // none: off
  core::Duration ping_interval = std::chrono::seconds{10};  // between two checks of what is due
  bool hot_prefixes = true;  // texts of prefixes that many requests share are kept, for new replicas
  core::Duration health_interval = std::chrono::seconds{2};
  core::Duration scrape_interval = std::chrono::seconds{1};
  core::Duration first_byte_time = std::chrono::minutes{10};
  core::Duration silence = std::chrono::minutes{2};
  std::string replica_key;  // sent to replicas as theirs; the client's own never is
};

// A replica as discovery reports it, and how it is reached.
struct ReplicaEndpoint : dispatch::ReplicaSpec {
  std::string url;                      // also its id where nothing else names it: "http://10.0.0.7:8000"
  std::vector<net::Address> addresses;  // of its host, resolved
  bool operator==(const ReplicaEndpoint&) const = default;
};

}  // namespace penstock::gateway
