// The flags of `penstock up`, and what is checked before its parts are started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "core/result.h"
#include "core/time.h"
#include "logging/logger.h"
#include "options/reading.h"

namespace penstock::cli {

struct UpOptions {
  std::string dashboard = "127.0.0.1:8080", listen = "127.0.0.1:8000", admin_listen = "127.0.0.1:8081";
  std::string ports = "9000-9899", peak = "12", trough = "1", period = "10m";
  core::Duration duration{};
  std::uint32_t max_replicas = 6;
  bool disaggregated = false, no_load = false;
  std::string config, state_folder;
  logging::LoggerOptions log;
};

// Returns what is wrong with the values that the parts read: the file of --config, the ports of engines and the load.
// Without it, a part would end after all others have started.
[[nodiscard]] options::Problems check_parts(const UpOptions& options, const Parsed& parsed);
// Returns an error for an address that is invalid, has no port, or is taken. The parts open them again.
[[nodiscard]] core::Result<void> check_addresses(const UpOptions& options);

// The command line of `penstock load` after the name of the program; each model adds to it.
[[nodiscard]] std::vector<std::string> load_words(const UpOptions& options);
// The address at which programs of this machine reach a part that listens on `listen`: 127.0.0.1:8000 of ":8000".
[[nodiscard]] std::string client_address(const std::string& listen);

}  // namespace penstock::cli
