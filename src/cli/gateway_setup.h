// From what a user asked for to what a gateway takes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/gateway.h"
#include "core/result.h"
#include "gateway/gateway.h"
#include "net/loop.h"

namespace penstock::cli {

// Reads key files and environment variables, and TLS files. Errors name the tenant or the file, never a key.
[[nodiscard]] core::Result<gateway::GatewayOptions> make_gateway_options(const config::GatewaySettings& settings);

// Where entries are kept; null where the settings name no file.
[[nodiscard]] core::Result<std::unique_ptr<gateway::LedgerSink>> open_ledger(const std::string& path);

// "127.0.0.1:8000", "[::]:8000" or ":8000", which is all addresses.
[[nodiscard]] core::Result<net::Address> parse_listen(const std::string& text, std::string_view where);

// Finds replicas for as long as it lives: those that are named, those in a file that is followed as it changes, and the
// addresses of a name. Also listens to their KV events and hands them on.
class Discovery {
 public:
  // What is wrong now, with a file that was right at the start, is told to `say`; the replicas stay as they were.
  [[nodiscard]] static core::Result<std::unique_ptr<Discovery>> start(net::Loop& loop,
                                                                      const config::GatewaySettings& settings,
                                                                      gateway::Gateway& gateway,
                                                                      std::function<void(const std::string&)> say);
  virtual ~Discovery() = default;
};

}  // namespace penstock::cli
