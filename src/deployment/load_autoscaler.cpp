#include "deployment/load_autoscaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/result.h"
#include "deployment/assets.h"
#include "deployment/objects.h"
#include "deployment/yaml_text.h"

namespace penstock::deployment {

using Json = nlohmann::ordered_json;

namespace {

struct LoadMetricNames {
  LoadMetric metric;
  std::string_view name, pod_metric;
  // The value of a replica, as of telemetry/token_metrics.cpp, or of the pool, as of report/metrics.cpp: {0} are the
  // labels and {1} is the window.
  std::string_view query;
};
constexpr std::array kLoadMetrics{
    LoadMetricNames{LoadMetric::kTokenInRate, "token-in-rate", "llm_token_in_rate",
                    "rate(tokens_in_total{{{0}}}[{1}s])"},
    LoadMetricNames{LoadMetric::kTokenOutRate, "token-out-rate", "llm_token_out_rate",
                    "rate(tokens_out_total{{{0}}}[{1}s])"},
    LoadMetricNames{LoadMetric::kKvUtilization, "kv-utilization", "llm_kv_utilization",
                    "llm_kv_cache_usage_ratio{{{0}}}"},
    LoadMetricNames{LoadMetric::kQueueDepth, "queue-depth", "llm_pod_queue_depth", "llm_queue_depth{{{0}}}"},
    // Without a first token in the window there is no quantile: 0 if no request waits, else unknown.
    LoadMetricNames{LoadMetric::kTtftP95, "ttft-p95", "llm_ttft_p95_seconds",
                    "histogram_quantile(0.95, sum by (le) (max by (replica, le) "
                    "(rate(llm_ttft_seconds_bucket{{{0}}}[{1}s])))) >= 0 or "
                    "sum(rate(llm_ttft_seconds_count{{{0}}}[{1}s])) == 0 and sum(llm_queue_depth{{{0}}}) == 0"},
    LoadMetricNames{LoadMetric::kSloBurnRate, "slo-burn-rate", "llm_slo_burn_rate",
                    "max(penstock_decision_evidence{{name=\"burn_rate\",{0}}})"},
};

const LoadMetricNames& names_of(LoadMetric metric) {
  const auto* found =
      std::find_if(kLoadMetrics.begin(), kLoadMetrics.end(), [&](const auto& each) { return each.metric == metric; });
  PENSTOCK_ASSERT(found != kLoadMetrics.end(), "every metric has names");
  return *found;
}

// A value of the pool counts once for each replica, so that the mean over the replicas is the value.
std::string replica_query(LoadMetric metric, const LoadSeries& series) {
  const std::string labels = fmt::format(R"(pool="{}",namespace=~"{}|")", series.pool, series.in_namespace);
  std::string query = fmt::format(fmt::runtime(names_of(metric).query), labels, series.rate_window_s);
  if (!is_of_pool(metric)) return query;
  return fmt::format("max by (pool, replica) (llm_queue_depth{{{}}}) * 0 + on () group_left () ({})", labels, query);
}

// Rules that give each value the labels `namespace` and `pod`, from which an adapter finds the pod. The name of a
// replica is that of its pod, and the namespace of the series is that of the planner that was scraped.
Json pod_rules_of(const std::vector<LoadAutoscaler>& autoscalers) {
  Json rules = Json::array();
  for (const LoadAutoscaler& each : autoscalers)
    for (const LoadTarget& target : each.targets)
      rules.push_back(
          {{"record", std::string{pod_metric_of(target.metric)}},
           {"expr", fmt::format(R"q(max by (pool, pod) (label_replace({}, "pod", "$1", "replica", "(.*)")))q",
                                replica_query(target.metric, each.series))},
           {"labels", {{"namespace", each.target.in_namespace}}}});
  return rules;
}

// Without an exponent up to 1e9.
std::string target_text(double per_replica) { return fmt::format("{:.10g}", per_replica); }

std::string indented(std::string_view text, std::string_view indent) {
  std::string made;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && c != '\n') made += indent;
    begins_line = c == '\n';
    made += c;
  }
  return made;
}

}  // namespace

bool is_of_pool(LoadMetric metric) { return metric == LoadMetric::kTtftP95 || metric == LoadMetric::kSloBurnRate; }
std::string_view name_of(LoadMetric metric) { return names_of(metric).name; }
std::string_view pod_metric_of(LoadMetric metric) { return names_of(metric).pod_metric; }

std::optional<LoadMetric> find_load_metric(std::string_view name) {
  for (const LoadMetricNames& each : kLoadMetrics)
    if (each.name == name) return each.metric;
  return std::nullopt;
}

std::vector<std::string_view> load_metric_names() {
  std::vector<std::string_view> names;
  for (const LoadMetricNames& each : kLoadMetrics) names.push_back(each.name);
  return names;
}

std::string load_query(LoadMetric metric, const LoadSeries& series) {
  return fmt::format("sum(max by (replica) ({}))", replica_query(metric, series));
}

Json scaled_object_of(const LoadAutoscaler& autoscaler) {
  ScaledObject object;
  object.target = autoscaler.target;
  object.polling_s = autoscaler.polling_s;
  object.cooldown_s = autoscaler.cooldown_s;
  object.up = autoscaler.up;
  object.down = autoscaler.down;
  object.keda = autoscaler.keda;
  for (const LoadTarget& each : autoscaler.targets)
    object.triggers.push_back({std::string{name_of(each.metric)}, autoscaler.prometheus,
                               load_query(each.metric, autoscaler.series), target_text(each.per_replica)});
  return manifest_of(object);
}

Json pod_autoscaler_of(const LoadAutoscaler& autoscaler) {
  const ScaleTarget& target = autoscaler.target;
  Json metrics = Json::array();
  for (const LoadTarget& each : autoscaler.targets)
    metrics.push_back({{"type", "Pods"},
                       {"pods",
                        {{"metric", {{"name", std::string{pod_metric_of(each.metric)}}}},
                         {"target", {{"type", "AverageValue"}, {"averageValue", target_text(each.per_replica)}}}}}});
  Json spec{{"scaleTargetRef", reference_of(target)},
            {"minReplicas", target.replicas_min},
            {"maxReplicas", target.replicas_max},
            {"metrics", std::move(metrics)}};
  if (Json behaviour = behaviour_of(autoscaler.up, autoscaler.down); !behaviour.is_null())
    spec["behavior"] = std::move(behaviour);
  return {{"apiVersion", "autoscaling/v2"},
          {"kind", "HorizontalPodAutoscaler"},
          {"metadata", {{"name", target.name}, {"namespace", target.in_namespace}}},
          {"spec", std::move(spec)}};
}

std::string token_rule_of(const std::string& name, const std::string& in_namespace,
                          const std::vector<LoadAutoscaler>& autoscalers) {
  const Json object{{"apiVersion", "monitoring.coreos.com/v1"},
                    {"kind", "PrometheusRule"},
                    {"metadata", {{"name", name}, {"namespace", in_namespace}}}};
  std::string text = to_yaml({object}) + "spec:\n" + indented(assets::token_rules(), "  ");
  if (autoscalers.empty()) return text;
  const Json groups{{"groups", Json::array({{{"name", "llm-pod-metrics"}, {"rules", pod_rules_of(autoscalers)}}})}};
  const std::string more = to_yaml({groups});
  return text + indented(std::string_view{more}.substr(more.find('\n') + 1), "  ");
}

}  // namespace penstock::deployment
