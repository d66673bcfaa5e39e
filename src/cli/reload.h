// Reads the configuration of a running process again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "configuration/configuration.h"
#include "core/result.h"
#include "logging/log.h"
#include "options/reading.h"
#include "options/table.h"

namespace penstock::cli {

// A configuration and the table that is bound to it.
struct LoadedConfiguration {
  explicit LoadedConfiguration(configuration::Configuration initial = {}) : made(std::move(initial)) {}
  LoadedConfiguration(const LoadedConfiguration&) = delete;
  LoadedConfiguration& operator=(const LoadedConfiguration&) = delete;

  configuration::Configuration made;
  options::Table table = configuration::configuration_table(made);
  std::optional<options::Reading> reading;  // Empty before it is loaded.
};

// Returns everything that is wrong with the flags and the file of --config as they are now.
[[nodiscard]] options::Problems read_again(const Parsed& parsed, LoadedConfiguration& next);

// What a reload changed, and what it did not change because that needs a restart.
struct ReloadChanges {
  std::vector<options::Change> applied, pending;
};
void log_reload(logging::Log& log, std::string_view file, const ReloadChanges& changes);
void log_problems(logging::Log& log, std::string_view file, const options::Problems& problems);

}  // namespace penstock::cli
