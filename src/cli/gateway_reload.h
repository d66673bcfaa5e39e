// Reads the configuration of a running gateway again, after SIGHUP or when one of its files changes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/reload.h"
#include "configuration/configuration.h"
#include "connect/file_stamps.h"
#include "gateway/discovery.h"
#include "gateway/gateway.h"
#include "logging/logger.h"
#include "net/loop.h"

namespace penstock::cli {

// URLs on the command line replace the replicas of the file. Returns an error if there is no replica.
[[nodiscard]] core::Result<void> use_operands(configuration::GatewaySetup& setup, const std::vector<std::string>& urls);

// Applies all reloadable values, or none if any value, key file or certificate is invalid. Logs each value that
// changed, and the keys that need a restart. Runs on one loop.
class GatewayReloader {
 public:
  // `started` is what the gateway runs with, over the same `defaults`; it, the arguments and the log outlive the
  // reloader.
  GatewayReloader(const LoadedConfiguration& started, const Parsed& parsed, configuration::Configuration defaults,
                  logging::Logger& log);

  // Reads the files again whenever one of them changes, unless gateway.watch is false.
  void watch(net::Loop& loop, gateway::Gateway& served, gateway::Discovery& discovery);
  void reload(gateway::Gateway& served, gateway::Discovery& discovery);

  [[nodiscard]] const configuration::Configuration& current() const { return latest().made; }

 private:
  [[nodiscard]] const LoadedConfiguration& latest() const { return last_ ? *last_ : started_; }
  // Returns everything that is wrong; empty if the values are in force.
  [[nodiscard]] options::Problems apply(gateway::Gateway& served, gateway::Discovery& discovery);
  [[nodiscard]] ReloadChanges changes_to(const LoadedConfiguration& next) const;

  const LoadedConfiguration& started_;
  const Parsed& parsed_;
  const configuration::Configuration defaults_;
  logging::Logger& log_;
  std::string file_;
  std::unique_ptr<LoadedConfiguration> last_;  // Null before the first reload.
  connect::FileStamps stamps_;
};

}  // namespace penstock::cli
