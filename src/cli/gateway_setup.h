// From what a user asked for to what a gateway takes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "gateway/gateway.h"
#include "logging/log.h"
#include "net/address.h"

namespace penstock::cli {

// Reads key files and environment variables, and TLS files. Errors name the tenant or the file, never a key.
[[nodiscard]] core::Result<gateway::GatewayOptions> make_gateway_options(const configuration::GatewaySetup& setup);

// The sink of ledger entries; null where `path` is empty.
[[nodiscard]] core::Result<std::unique_ptr<dispatch::LedgerSink>> open_ledger(const std::string& path,
                                                                              logging::Log& log);

// "127.0.0.1:8000", "[::]:8000" or ":8000", which is all addresses.
[[nodiscard]] core::Result<net::Address> parse_listen(const std::string& text, std::string_view where);

}  // namespace penstock::cli
