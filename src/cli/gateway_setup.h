// From what a user asked for to what a gateway takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/configuration.h"
#include "core/result.h"
#include "gateway/gateway.h"
#include "logging/log.h"
#include "net/loop.h"

namespace penstock::cli {

// Reads key files and environment variables, and TLS files. Errors name the tenant or the file, never a key.
[[nodiscard]] core::Result<gateway::GatewayOptions> make_gateway_options(const GatewaySetup& setup);

// The sink of ledger entries; null where `path` is empty.
[[nodiscard]] core::Result<std::unique_ptr<dispatch::LedgerSink>> open_ledger(const std::string& path,
                                                                              logging::Log& log);

// "127.0.0.1:8000", "[::]:8000" or ":8000", which is all addresses.
[[nodiscard]] core::Result<net::Address> parse_listen(const std::string& text, std::string_view where);

// Finds replicas for as long as it lives: those of the configuration, those in files that it follows as they change, and
// the addresses of a DNS name. It also subscribes to the replicas' KV events and passes them on.
class Discovery {
 public:
  // A file that becomes invalid later is logged, and its replicas stay as they were.
  [[nodiscard]] static core::Result<std::unique_ptr<Discovery>> start(net::Loop& loop, const DiscoveryOptions& options,
                                                                      gateway::Gateway& gateway, logging::Log& log);
  virtual ~Discovery() = default;
};

}  // namespace penstock::cli
