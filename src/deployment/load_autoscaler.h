// Autoscalers that act on the load of engines without a planner: on token rates, use of the KV cache, waiting requests,
// and on what the requests wait for: TTFT and the burn rate of the SLO.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deployment/scaled_object.h"

namespace penstock::deployment {

enum class LoadMetric : std::uint8_t {
  kTokenInRate,
  kTokenOutRate,
  kKvUtilization,
  kQueueDepth,
  kTtftP95,
  kSloBurnRate,
};

// Returns true for a latency of the whole pool, which says that replicas are missing and not how many can go.
[[nodiscard]] bool is_of_pool(LoadMetric metric);

// "token-out-rate", as flags and triggers have it.
[[nodiscard]] std::string_view name_of(LoadMetric metric);
[[nodiscard]] std::optional<LoadMetric> find_load_metric(std::string_view name);
[[nodiscard]] std::vector<std::string_view> load_metric_names();
// "llm_token_out_rate": the metric of a pod, which recording rules derive and an adapter serves to the HPA.
[[nodiscard]] std::string_view pod_metric_of(LoadMetric metric);

struct LoadTarget {
  LoadMetric metric = LoadMetric::kTokenOutRate;
  // Tokens per second, a share from 0 to 1, or requests. Of the whole pool: seconds, or times the budget.
  double per_replica = 0.0;
};

// The series of the engines of a pool in Prometheus.
struct LoadSeries {
  std::string pool;
  // Of the planner that exports them. Series without the label `namespace` are selected, too: a Prometheus that does
  // not scrape pods has none.
  std::string in_namespace;
  std::uint32_t rate_window_s = 60;  // Of token rates and of TTFT.
};

// Names are valid, and all texts are UTF-8.
struct LoadAutoscaler {
  ScaleTarget target;
  std::vector<LoadTarget> targets;
  std::string prometheus;  // URL, for KEDA.
  LoadSeries series;
  std::uint32_t polling_s = kKedaPolling, cooldown_s = kKedaCooldown;
  ScalingRules up, down;
  KedaSettings keda{};
};

// The query of a trigger: the sum over the replicas of a pool, each once. Several planners export the same replicas,
// and so do for a moment the former and the new pod of one planner.
[[nodiscard]] std::string load_query(LoadMetric metric, const LoadSeries& series);
[[nodiscard]] nlohmann::ordered_json scaled_object_of(const LoadAutoscaler& autoscaler);
// An HPA whose metrics are those of its pods (custom.metrics.k8s.io).
[[nodiscard]] nlohmann::ordered_json pod_autoscaler_of(const LoadAutoscaler& autoscaler);

// Returns the rules of docs/reference/token-rules.yaml as a PrometheusRule in YAML. Rules for the metrics of pods, one
// for each target of the autoscalers, are a group of their own; no autoscalers: none.
[[nodiscard]] std::string token_rule_of(const std::string& name, const std::string& in_namespace,
                                        const std::vector<LoadAutoscaler>& autoscalers);

}  // namespace penstock::deployment
