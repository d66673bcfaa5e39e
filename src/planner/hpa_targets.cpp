#include "planner/hpa_targets.h"

#include <array>
#include <string>
#include <utility>

#include "planner/hpa_algorithm.h"

namespace penstock::planner {
namespace {

constexpr double kKvTarget = 0.75;  // KV use of a replica.

// Why an HPA cannot run a policy, by the beginning of its name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kReasons{{
    {"static", "it never scales"},
    {"kpa", "its panic mode is in Knative's autoscaler, which scales Knative Services"},
    {"apa", "AIBrix's controller computes it, with the strategy APA of a PodAutoscaler"},
    {"llmd-saturation", "llm-d's workload-variant-autoscaler computes it from peaks of each replica"},
    {"llmd-slo", "it reads latencies and numbers of replicas as the guide workload-autoscaling of llm-d sets them up"},
    {"llmd-",
     "it reads metrics of llm-d's endpoint picker; use the ScaledObject of llm-d's guide workload-autoscaling"},
    {"token-velocity", "TokenScale's controller computes it from arrivals of 15 s"},
    {"hourly-floor", "its floor is a forecast, which no metric in Prometheus has"},
    {"dynamo", "Dynamo's planner computes it from forward pass metrics, which Prometheus does not have"},
}};

}  // namespace

std::vector<MetricTarget> token_targets(const ReplicaCapacity& capacity, double utilisation, signals::Role role) {
  std::vector<MetricTarget> targets;
  if (role != signals::Role::kDecode)
    targets.push_back({PoolMetric::kInputTokenRate, capacity.input_tokens_per_s * utilisation});
  if (role != signals::Role::kPrefill) {
    targets.push_back({PoolMetric::kOutputTokenRate, capacity.output_tokens_per_s * utilisation});
    targets.push_back({PoolMetric::kKvUsage, kKvTarget});
  }
  return targets;
}

bool has_hpa_targets(std::string_view policy) {
  const std::string_view name = decision::name_without_settings(policy);
  return name == "hpa-rate" || name == "hpa-concurrency" || name == "keda-tokens";
}

core::Result<std::vector<MetricTarget>> hpa_targets(std::string_view policy, const ReplicaCapacity& capacity,
                                                    signals::Role role) {
  const auto settings = settings_of(policy);
  if (!settings) return tl::make_unexpected(settings.error());
  const std::string_view rule = decision::name_without_settings(policy);
  const bool is_token_rule = rule == "keda-tokens";
  const double utilisation = settings->get("utilisation", is_token_rule ? kTokenUtilization : kHpaTargetUtilization);
  if (is_token_rule) return token_targets(capacity, utilisation, role);
  if (rule == "hpa-rate")
    return std::vector{MetricTarget{PoolMetric::kRequestRate, utilisation * capacity.requests_per_s}};
  if (rule == "hpa-concurrency")
    return std::vector{MetricTarget{PoolMetric::kRequestsInFlight, utilisation * capacity.concurrency}};
  for (const auto& [name, reason] : kReasons)
    if (policy.starts_with(name)) return core::invalid_input(std::string{policy}, std::string{reason});
  return core::invalid_input(std::string{policy}, "it is no rule of an HPA");
}

}  // namespace penstock::planner
