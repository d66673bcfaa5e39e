// Reads the configuration of a running process again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "configuration/configuration.h"
#include "configuration/loosened_limits.h"
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
  std::optional<options::Reading> reading;                  // Empty before it is loaded.
  bool has_empty_file = false;                              // The file of --config has no key.
  std::vector<configuration::LoosenedLimit> loosened = {};  // By a reload.
};

// Returns true if there is a file without any key. Such a file may be one that another program begins to write.
[[nodiscard]] bool has_empty_file(const options::Source& source);

// Returns everything that is wrong with the flags and the file of --config as they are now. It is an error if the file
// has become empty, and if a limit that is in force would become looser through a value that is not given.
[[nodiscard]] options::Problems read_again(const Parsed& parsed, const LoadedConfiguration& in_force,
                                           LoadedConfiguration& next);

// What a reload changed, and what it did not change because that needs a restart.
struct ReloadChanges {
  std::vector<options::Change> applied, pending;
  std::vector<configuration::LoosenedLimit> loosened;  // Limits of this process only.
};
// Returns those of the process.
[[nodiscard]] std::vector<configuration::LoosenedLimit> loosened_of(configuration::LoosenedLimit::Process process,
                                                                    const LoadedConfiguration& next);
void log_reload(logging::Log& log, std::string_view file, const ReloadChanges& changes);
void log_problems(logging::Log& log, std::string_view file, const options::Problems& problems);

}  // namespace penstock::cli
