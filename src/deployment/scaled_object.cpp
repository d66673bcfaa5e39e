#include "deployment/scaled_object.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::deployment {

using Json = nlohmann::ordered_json;

namespace {

constexpr int kPushPolling = 5, kPrometheusPolling = 30, kCooldown = 300;  // Seconds. The last two are KEDA's defaults.

}  // namespace

Json reference_of(const ScaleTarget& target) {
  return {{"apiVersion", target.api_version}, {"kind", target.kind}, {"name", target.name}};
}

Json exact_behaviour(const ScaleTarget& target) {
  const Json policy{{"type", "Pods"}, {"value", target.replicas_max}, {"periodSeconds", 1}};
  const Json rules{{"stabilizationWindowSeconds", 0}, {"tolerance", "0"}, {"policies", Json::array({policy})}};
  return {{"scaleUp", rules}, {"scaleDown", rules}};
}

std::string scaler_address(const std::string& planner, const std::string& in_namespace) {
  return fmt::format("{}.{}.svc:{}", planner, in_namespace, kScalerPort);
}

Json spec_of(const ScaledObject& object) {
  const bool is_pushed = !object.scaler.empty();
  Json triggers = Json::array();
  if (is_pushed)
    triggers.push_back({{"type", "external-push"},
                        {"metricType", "AverageValue"},
                        {"metadata", {{"scalerAddress", object.scaler}, {"pool", object.target.pool}}}});
  for (const PrometheusTrigger& trigger : object.triggers)
    triggers.push_back(
        {{"type", "prometheus"},
         {"name", trigger.name},
         {"metricType", "AverageValue"},
         {"metadata",
          {{"serverAddress", trigger.server}, {"query", trigger.query}, {"threshold", trigger.threshold}}}});
  Json spec{{"scaleTargetRef", reference_of(object.target)},
            {"minReplicaCount", object.target.replicas_min},
            {"maxReplicaCount", object.target.replicas_max},
            {"pollingInterval", is_pushed ? kPushPolling : kPrometheusPolling}};
  if (is_pushed)
    spec["advanced"] = {{"horizontalPodAutoscalerConfig", {{"behavior", exact_behaviour(object.target)}}}};
  else
    spec["cooldownPeriod"] = kCooldown;
  spec["triggers"] = std::move(triggers);
  return spec;
}

Json manifest_of(const ScaledObject& object) {
  return {{"apiVersion", "keda.sh/v1alpha1"},
          {"kind", "ScaledObject"},
          {"metadata", {{"name", object.target.name}, {"namespace", object.target.in_namespace}}},
          {"spec", spec_of(object)}};
}

}  // namespace penstock::deployment
