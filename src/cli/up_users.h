// Who sends requests to a gateway that `penstock up` starts.
#pragma once

#include <string>
#include <vector>

#include "load/request_writer.h"

namespace penstock::cli {

struct UpUsers {
  std::string model = "penstock-sim";   // Of a configuration without deployments.
  std::vector<std::string> models{};    // Of the deployments.
  std::vector<load::Sender> tenants{};  // Those with a key in the configuration.
  bool checks_keys = false;             // There are tenants.

  // The key to try the gateway with; empty if the configuration contains none.
  [[nodiscard]] std::string key() const;
  // "model penstock-sim, key sk-demo"
  [[nodiscard]] std::string text() const;
  // The tenants of the load, as arguments of `penstock load`. The tenant "demo" is for the user to try the gateway with
  // and has no load, unless it is the only one.
  [[nodiscard]] std::vector<std::string> load_arguments() const;
};

// Of a configuration with errors, which gateway and planner report, those of the default.
[[nodiscard]] UpUsers users_of(const std::string& config);

}  // namespace penstock::cli
