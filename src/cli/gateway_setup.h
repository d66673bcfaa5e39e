// Creates what a gateway needs from its configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "configuration/configuration.h"
#include "core/result.h"
#include "gateway/gateway.h"
#include "gateway/lifecycle.h"
#include "gateway/traffic_recorder.h"
#include "logging/log.h"
#include "net/access.h"
#include "net/address.h"
#include "net/tls.h"
#include "options/reading.h"

namespace penstock::cli {

// Tenants or classes have tokens_per_minute.
[[nodiscard]] bool has_budgets(const dispatch::DispatchOptions& options);

struct Access {
  net::AccessOptions options;
  std::shared_ptr<net::TlsContext> tls;  // Null: plain HTTP.
};
// Reads token, certificates and key. Errors name the file or the variable, never a token.
[[nodiscard]] core::Result<Access> make_access(const configuration::AccessSetup& setup);
// Returns the tokens of the file and of the variable; empty names are left out.
[[nodiscard]] core::Result<std::vector<std::string>> read_tokens(const std::string& file, const std::string& variable);
// Warns if other machines can reach the address without authentication.
void warn_if_exposed(logging::Log& log, std::string_view purpose, const net::Address& address,
                     const net::AccessOptions& access);

// Reads key files, environment variables and TLS files of the setup that was read. Reports each one that cannot be
// read, and each API key that is empty or given twice, at the place of its option; no report contains a key.
[[nodiscard]] gateway::GatewayOptions make_gateway_options(const configuration::GatewaySetup& setup,
                                                           options::Reading& reading);

// Returns the files whose content the options of a gateway come from: `config_file`, keys and certificates.
[[nodiscard]] std::vector<std::string> watched_files(const std::string& config_file,
                                                     const configuration::GatewaySetup& setup);

struct OpenedLedger {
  std::unique_ptr<dispatch::LedgerSink> sink;     // Null: no ledger is configured.
  std::function<gateway::LedgerHealth()> health;  // Any thread may call it while the sink lives. Empty without a sink.
  std::shared_ptr<const std::uint64_t> lost;      // Entries that were lost when the sink ended. Never null.
};
[[nodiscard]] core::Result<OpenedLedger> open_ledger(const configuration::GatewaySetup& setup, logging::Log& log);

// Records the traffic of the gateway until it is destroyed, which must be before the gateway; null if no file is
// configured.
[[nodiscard]] core::Result<std::unique_ptr<gateway::TrafficRecorder>> open_recorder(
    const configuration::GatewaySetup& setup, const gateway::Gateway& served, logging::Log& log);

// Reports each address on which the gateway cannot listen, and a name of replicas that is none. Several sockets may
// share a port, so that clients of the API would reach the admin address, and operators the API, if both had one.
void check_addresses(const configuration::GatewaySetup& setup, options::Reading& reading, bool serves_http = true);

// Accepts "127.0.0.1:8000", "[::]:8000" or ":8000", which listens on all addresses.
[[nodiscard]] core::Result<net::Address> parse_listen(const std::string& text, std::string_view where);

}  // namespace penstock::cli
