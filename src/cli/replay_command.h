// What `penstock replay` and `penstock up` have in common: settings in, table and files out.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "config/replay.h"

namespace penstock::cli {

struct ReplayRequest {
  config::ReplaySettings settings;
  std::string command;              // the line that repeats it, for the reports
  std::vector<std::string> inputs;  // files that are read beside the traces and must not be overwritten
  bool progress = false;            // although standard error is no terminal
};

// Runs everything, writes the files, prints the table. Returns the exit code; what went wrong was said.
[[nodiscard]] int carry_out(ReplayRequest request);

// Settings from flags alone, or said what is wrong with them: the error is the exit code.
[[nodiscard]] tl::expected<config::ReplaySettings, int> load_settings(const config::ReplaySources& sources);

}  // namespace penstock::cli
