// Where a gateway finds its replicas.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "gateway/gateway.h"
#include "gateway/pod_source.h"
#include "logging/log.h"
#include "net/address.h"
#include "net/credentials.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace penstock::gateway {

struct NamedReplica {
  std::string url, model, pool = "default";
  signals::Role role = signals::Role::kAggregated;
  double weight = 1.0;
  std::uint32_t workers = 0;                // Behind the URL of a router or front end; 0: what the replica reports.
  std::string kv_events, kv_events_replay;  // ZeroMQ endpoints; empty: none
  std::vector<std::string> fpm;             // ZeroMQ endpoints of its forward pass metrics, for planners.
  net::CredentialOptions credentials;
};

struct DiscoveryOptions {
  std::vector<NamedReplica> replicas;
  std::vector<std::string> files;                         // read again when they change
  std::string dns;                                        // "name:port", whose addresses are replicas; empty: none
  core::Duration dns_interval = std::chrono::seconds{5};  // From one look-up of a host name to the next.
  net::Resolver::Lookup lookup = net::Address::resolve;   // Tests replace it.
  PodOptions pods;
  net::CredentialOptions credentials;  // Of replicas without their own.
};

// Reads keys and certificates of the replicas. Errors have `where` = the key of the options.
[[nodiscard]] core::Result<net::CredentialStore> load_credentials(const DiscoveryOptions& options);
// Reads DiscoveryOptions::dns. Requests to the addresses of the name have neither TLS nor a path before theirs.
[[nodiscard]] core::Result<net::Url> parse_replicas_dns(const std::string& name);

// Finds replicas for as long as it lives: those of the options, those in files, which are read again when they change,
// the addresses of a DNS name, and pods of Kubernetes. Host names are looked up again and again; a replica whose name
// has no address yet is passed on without one. It also subscribes to the KV events of the replicas and passes them on.
class Discovery {
 public:
  // A file that becomes invalid later is logged, and its replicas stay as they were.
  [[nodiscard]] static core::Result<std::unique_ptr<Discovery>> start(net::Loop& loop, DiscoveryOptions options,
                                                                      Gateway& gateway, logging::Log& log);
  virtual ~Discovery() = default;

  // Reads the replicas, files and credentials of other options. Returns the function that puts them in force, which
  // cannot fail. Errors: an invalid URL, file or key; nothing changes then.
  [[nodiscard]] virtual core::Result<std::function<void()>> prepare(const DiscoveryOptions& options) = 0;
};

}  // namespace penstock::gateway
