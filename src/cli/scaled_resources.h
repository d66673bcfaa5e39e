// What the pools of a configuration scale in Kubernetes, as Roles and as autoscalers name it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "configuration/configuration.h"
#include "deployment/access_rules.h"
#include "deployment/scaled_object.h"
#include "options/reading.h"

namespace penstock::cli {

// Targets that cannot be read are left out.
[[nodiscard]] std::vector<deployment::ScaledResource> scaled_resources(const configuration::Configuration& made);

// What another autoscaler scales, by pool: the object of `pools[].kubernetes`, or the Deployment with the name of the
// pool. Reports names that Kubernetes refuses and objects that such an autoscaler cannot scale.
[[nodiscard]] std::vector<deployment::ScaleTarget> scale_targets(const std::string& in_namespace,
                                                                 const configuration::Configuration& made,
                                                                 options::Reading& reading);

// Reports pools with min_replicas: 0, which `autoscaler` cannot start: such as "a HorizontalPodAutoscaler".
void check_never_zero(const configuration::Configuration& made, std::string_view autoscaler, options::Reading& reading);

}  // namespace penstock::cli
