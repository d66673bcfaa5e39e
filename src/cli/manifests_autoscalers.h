// `penstock manifests autoscalers`: ScaledObjects and HorizontalPodAutoscalers that act on the load of engines, without
// a planner.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/keda_settings.h"
#include "configuration/configuration.h"
#include "core/time.h"
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

// How the pods of a pool that another autoscaler scales down must end.
inline constexpr const char* kDrainNote =
    "# Penstock does not drain pods that this autoscaler takes away: give them a preStop hook, engines a drain of\n"
    "# their own (vLLM: --shutdown-timeout), and a terminationGracePeriodSeconds that is longer than both.\n"
    "# See docs/keda.md.\n";

struct AutoscalerRequest {
  std::string name, in_namespace;
  bool is_keda = true;  // Else HorizontalPodAutoscalers.
  bool prometheus_rule = false;
};
// The objects of all pools, in their order, as YAML after notes. Reports what Kubernetes cannot have; the result is
// then incomplete.
[[nodiscard]] std::string autoscalers_text(const AutoscalerRequest& request, const AutoscalerFlags& flags,
                                           const KedaFlags& keda, const configuration::Configuration& made,
                                           options::Reading& reading);

}  // namespace penstock::cli
