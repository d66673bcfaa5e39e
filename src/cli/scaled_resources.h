// What the pools of a configuration scale in Kubernetes, as Roles name it.
#pragma once

#include <vector>

#include "configuration/configuration.h"
#include "deployment/access_rules.h"

namespace penstock::cli {

// Targets that cannot be read are left out.
[[nodiscard]] std::vector<deployment::ScaledResource> scaled_resources(const configuration::Configuration& made);

}  // namespace penstock::cli
