// Options of a gateway that are fixed at its start. Replicas can change later; see gateway.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/time.h"
#include "dispatch/options.h"
#include "dispatch/replica_spec.h"
#include "gateway/warm_up_prompts.h"
#include "net/access.h"
#include "net/address.h"
#include "net/client.h"
#include "net/credentials.h"
#include "net/resolver.h"
#include "net/server.h"
#include "routing/prefix_pings.h"

namespace penstock::gateway {

struct ApiKey {
  std::string key;  // Only its digest is stored.
  std::uint32_t tenant = 0;
  std::string name{};    // In the ledger.
  std::string option{};  // Its place in the configuration: "tenants[1].keys[0]".
};

// What passes from clients to replicas, beyond what every gateway forwards.
struct ForwardOptions {
  std::vector<std::string> headers;  // Names of header fields.
  std::vector<std::string> fields;   // Names of body fields that control engines; see api/engine_controls.h.
  bool strict = false;               // A request with a control that does not pass is rejected.
};

// Who receives x-penstock-replica and x-penstock-route.
enum class ExposeRouting : std::uint8_t { kNever, kOperators, kAlways };

[[nodiscard]] constexpr const char* to_string(ExposeRouting expose) {
  switch (expose) {
    case ExposeRouting::kNever: return "never";
    case ExposeRouting::kOperators: return "operators";
    case ExposeRouting::kAlways: return "always";
  }
  return "";
}

// Options that Gateway::reconfigure() applies as they are.
struct ReloadableOptions {
  bool anonymous = true;                 // Requests without a key are admitted as the tenant "anonymous".
  std::shared_ptr<net::TlsContext> tls;  // Null: plain HTTP.
  std::shared_ptr<net::TlsContext> endpoint_picker_tls;  // Null: cleartext.
  bool request_usage = true;                             // Engines are told to report the usage of every stream.
  ForwardOptions forward;
  bool engine_priority = false;  // Engines schedule by priority, so the priorities of tenants are sent to them.
  dispatch::Isolation isolation = dispatch::Isolation::kNone;  // Of tenants without one of their own.
  ExposeRouting expose_routing = ExposeRouting::kOperators;
};

// Other gateways with the same tenants and classes.
struct PeerOptions {
  // URLs of admin addresses. Each address of a host name is one of a gateway, and this gateway's own may be among them.
  std::vector<std::string> urls;
  core::Duration interval = std::chrono::seconds{1};      // From one report of a gateway to the next.
  core::Duration dns_interval = std::chrono::seconds{5};  // From one look-up of a host name to the next.
  std::shared_ptr<net::TlsContext> tls;                   // For https.
  net::Resolver::Lookup lookup = net::Address::resolve;   // Tests replace it.
};

// Where proxies ask for an endpoint by Envoy's external processing protocol. They send the requests themselves.
struct EndpointPickerOptions {
  net::Address listen;
  std::optional<net::Address> health_listen;  // Of grpc.health.v1 in cleartext, as probes of Kubernetes speak it.
};

struct GatewayOptions : ReloadableOptions {
  dispatch::DispatchOptions dispatch;  // The anonymous tenant is added.
  std::vector<ApiKey> api_keys;

  std::uint32_t threads = 1;
  net::ServerLimits server;
  std::optional<std::uint64_t> memory_max;  // For requests and answers; by default half of net::usable_memory().
  double tenant_memory_share = 0.5;         // Share of that limit that one tenant may hold.
  std::uint32_t large_body_threads = 1;     // Threads that parse large bodies: as many are parsed at once.
  net::ClientLimits client;
  net::AccessOptions admin_access;
  std::shared_ptr<net::TlsContext> admin_tls;  // Null: plain HTTP.
  PeerOptions peers;                           // Without URLs, budgets are this gateway's own.
  std::optional<EndpointPickerOptions> endpoint_picker;
  bool serves_http = true;  // False: requests come by the endpoint picker only, and nothing listens for them.

  std::optional<routing::PingOptions> prefix_pings;         // Empty: switched off.
  core::Duration ping_interval = std::chrono::seconds{10};  // Time between two checks for due pings.
  bool warm_up = false;                                     // See ReplicaWarmUp.
  std::vector<WarmUpPrompt> warm_up_prompts;                // Of the operator.
  core::Duration warm_up_time = std::chrono::minutes{1};    // Longest warm-up of a replica.
  bool hot_prefixes = true;  // Texts of prefixes that many requests share are kept for new replicas.
  core::Duration health_interval = std::chrono::seconds{2};
  core::Duration health_timeout = std::chrono::seconds{2};  // Tests shorten it.
  core::Duration scrape_interval = std::chrono::seconds{1};
};

// A replica as discovery reports it.
struct ReplicaEndpoint : dispatch::ReplicaSpec {
  std::string url;                                        // Also its id if no other is given: "http://10.0.0.7:8000".
  std::vector<net::Address> addresses;                    // Of its host; empty: it has none yet, and gets no requests.
  std::string unresolved{};                               // Why it has no address; empty if it has one.
  std::shared_ptr<const net::Credentials> credentials{};  // Null: none, and no https.
  std::uint32_t configured_workers = 0;                   // 0: the replica reports them, or is one engine.
  std::string kv_events{}, kv_events_replay{};            // ZeroMQ endpoints of its KV events; empty: none.
  std::vector<std::string> fpm{};                         // ZeroMQ endpoints of its forward pass metrics.
  bool operator==(const ReplicaEndpoint&) const = default;
};

}  // namespace penstock::gateway
