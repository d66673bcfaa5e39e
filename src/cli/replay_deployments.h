// `penstock replay` of several deployments under one budget.
#pragma once

#include <string>
#include <vector>

#include "configuration/configuration.h"

namespace penstock::cli {

struct DeploymentsRequest {
  configuration::Configuration configuration;  // check_deployments() found no error.
  std::string command;                         // Command line that repeats the run, for reports.
  std::vector<std::string> inputs;             // Other input files, which must not be overwritten.
  bool progress = false, quiet = false;
};

// Runs the replay, writes the files and prints the table. Reports errors and returns the exit code.
[[nodiscard]] int run_deployments(DeploymentsRequest request);

}  // namespace penstock::cli
