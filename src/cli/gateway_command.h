// What `penstock gateway` and `penstock epp` have in common: all but their flags and defaults.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "configuration/configuration.h"

namespace penstock::cli {

struct GatewayCommand {
  // The name and the texts of the help, and flags before those of the table.
  Usage usage;
  configuration::Configuration defaults{};  // Values that neither the file nor a flag gives.
  bool serves_http = true;                  // False: only if gateway.listen is given.
  std::vector<std::string> warnings{};      // Printed before it starts.
};
// Runs until a signal ends it. Returns the exit code.
[[nodiscard]] int run_gateway(GatewayCommand command, const Arguments& arguments);

}  // namespace penstock::cli
