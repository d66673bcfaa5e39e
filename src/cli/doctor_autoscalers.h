// What `penstock doctor` finds out about KEDA or HorizontalPodAutoscalers that follow the planner's targets.
#pragma once

#include <string>
#include <vector>

#include "cli/doctor_checks.h"
#include "deployment/scaled_object.h"

namespace penstock::cli {

// Whether each target has a ScaledObject with a trigger for its pool, which does not scale it to zero.
[[nodiscard]] std::vector<Finding> check_scaled_objects(BlockingClient& client,
                                                        const std::vector<deployment::ScaleTarget>& targets);
// Whether a planner in this namespace serves the external metrics, and an HPA of each target reads that of its pool.
[[nodiscard]] std::vector<Finding> check_external_metrics(BlockingClient& client, const std::string& planner_namespace,
                                                          const std::vector<deployment::ScaleTarget>& targets);

}  // namespace penstock::cli
