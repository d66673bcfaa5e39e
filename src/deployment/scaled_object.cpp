#include "deployment/scaled_object.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::deployment {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::uint32_t kPushPolling = 5;  // Seconds.

Json rules_of(const ScalingRules& rules) {
  Json made = Json::object();
  if (rules.stabilisation_s) made["stabilizationWindowSeconds"] = *rules.stabilisation_s;
  if (rules.policy)
    made["policies"] = Json::array({{{"type", rules.policy->is_percent ? "Percent" : "Pods"},
                                     {"value", rules.policy->amount},
                                     {"periodSeconds", rules.policy->period_s}}});
  return made;
}

// KEDA reports the target value times the replicas as the value of the trigger. `static` is the behaviour of releases
// before 2.17, which do not know the key.
Json fallback_of(const Fallback& fallback) {
  Json made{{"failureThreshold", fallback.failures}, {"replicas", fallback.replicas}};
  if (!fallback.is_static) made["behavior"] = "currentReplicasIfHigher";
  return made;
}

Json cron_of(const CronTrigger& cron) {
  return {{"type", "cron"},
          {"metadata",
           {{"timezone", cron.timezone},
            {"start", cron.start},
            {"end", cron.end},
            {"desiredReplicas", std::to_string(cron.replicas)}}}};
}

}  // namespace

Json reference_of(const ScaleTarget& target) {
  return {{"apiVersion", target.api_version}, {"kind", target.kind}, {"name", target.name}};
}

Json exact_behaviour(const ScaleTarget& target) {
  const Json policy{{"type", "Pods"}, {"value", target.replicas_max}, {"periodSeconds", 1}};
  const Json rules{{"stabilizationWindowSeconds", 0}, {"tolerance", "0"}, {"policies", Json::array({policy})}};
  return {{"scaleUp", rules}, {"scaleDown", rules}};
}

Json behaviour_of(const ScalingRules& up, const ScalingRules& down) {
  Json made;
  if (Json rules = rules_of(up); !rules.empty()) made["scaleUp"] = std::move(rules);
  if (Json rules = rules_of(down); !rules.empty()) made["scaleDown"] = std::move(rules);
  return made;
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
    triggers.push_back({{"type", "prometheus"},
                        {"name", trigger.name},
                        {"metricType", "AverageValue"},
                        {"metadata",
                         // By default KEDA takes an empty result for 0, and would scale down when the metrics are gone.
                         {{"serverAddress", trigger.server},
                          {"query", trigger.query},
                          {"threshold", trigger.threshold},
                          {"ignoreNullValues", "false"}}}});
  for (const CronTrigger& cron : object.keda.crons) triggers.push_back(cron_of(cron));
  Json spec{{"scaleTargetRef", reference_of(object.target)},
            {"minReplicaCount", object.target.replicas_min},
            {"maxReplicaCount", object.target.replicas_max},
            {"pollingInterval", is_pushed ? kPushPolling : object.polling_s}};
  if (!is_pushed) spec["cooldownPeriod"] = object.cooldown_s;
  if (object.keda.fallback) spec["fallback"] = fallback_of(*object.keda.fallback);
  const Json behaviour = is_pushed ? exact_behaviour(object.target) : behaviour_of(object.up, object.down);
  if (!behaviour.is_null()) spec["advanced"] = {{"horizontalPodAutoscalerConfig", {{"behavior", behaviour}}}};
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
