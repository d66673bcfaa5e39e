// `penstock manifests autoscalers`: ScaledObjects and HorizontalPodAutoscalers that act on the load of engines, without
// a planner.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configuration/configuration.h"
#include "core/time.h"
#include "deployment/load_autoscaler.h"
#include "options/reading.h"
#include "options/table.h"

namespace penstock::cli {

// Each text of a list is "[POOL:]VALUE".
struct AutoscalerFlags {
  std::vector<std::string> targets, up, down, up_windows, down_windows;
  std::optional<core::Duration> polling, cooldown;
  core::Duration rate_window = std::chrono::minutes{1};
  std::string planner_namespace;  // Empty: that of the autoscalers.
};

// Adds the rows of the flags. They must outlive the table.
void add_autoscaler_flags(options::Table& table, AutoscalerFlags& flags);
[[nodiscard]] std::span<const std::string_view> autoscaler_flag_names();

// The autoscalers of all pools, in their order. Reports what Kubernetes cannot have; the result is then incomplete.
// `is_keda` is false for HorizontalPodAutoscalers.
[[nodiscard]] std::vector<deployment::LoadAutoscaler> load_autoscalers(const std::string& in_namespace,
                                                                       const AutoscalerFlags& flags, bool is_keda,
                                                                       const configuration::Configuration& made,
                                                                       options::Reading& reading);

}  // namespace penstock::cli
