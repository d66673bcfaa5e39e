#include "planner/hpa_targets.h"

#include <array>

#include "planner/hpa_algorithm.h"

namespace penstock::planner {
namespace {

constexpr double kTokenUtilization = 0.75;  // U of keda-tokens: reserve until the next replica is ready.
constexpr double kKvTarget = 0.75;          // KV use of a replica.

std::vector<MetricTarget> token_targets(const ReplicaCapacity& capacity, signals::Role role) {
  std::vector<MetricTarget> targets;
  if (role != signals::Role::kDecode)
    targets.push_back({PoolMetric::kInputTokenRate, capacity.input_tokens_per_s * kTokenUtilization});
  if (role != signals::Role::kPrefill) {
    targets.push_back({PoolMetric::kOutputTokenRate, capacity.output_tokens_per_s * kTokenUtilization});
    targets.push_back({PoolMetric::kKvUsage, kKvTarget});
  }
  return targets;
}

// Why an HPA cannot run a policy, by the beginning of its name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kReasons{{
    {"static", "it never scales"},
    {"kpa", "its panic mode is in Knative's autoscaler, which scales Knative Services"},
    {"apa", "AIBrix's controller computes it, with the strategy APA of a PodAutoscaler"},
    {"llmd-saturation", "llm-d's workload-variant-autoscaler computes it from peaks of each replica"},
    {"llmd-slo", "it reads latencies and numbers of replicas as the guide workload-autoscaling of llm-d sets them up"},
    {"dynamo", "Dynamo's planner computes it from forward pass metrics, which Prometheus does not have"},
}};

}  // namespace

bool has_hpa_targets(std::string_view policy) {
  return policy == "hpa-rate" || policy == "hpa-concurrency" || policy == "keda-tokens";
}

core::Result<std::vector<MetricTarget>> hpa_targets(std::string_view policy, const ReplicaCapacity& capacity,
                                                    signals::Role role) {
  if (policy == "keda-tokens") return token_targets(capacity, role);
  if (policy == "hpa-rate")
    return std::vector{MetricTarget{PoolMetric::kRequestRate, kHpaTargetUtilization * capacity.requests_per_s}};
  if (policy == "hpa-concurrency")
    return std::vector{MetricTarget{PoolMetric::kRequestsInFlight, kHpaTargetUtilization * capacity.concurrency}};
  for (const auto& [name, reason] : kReasons)
    if (policy.starts_with(name)) return core::invalid_input(std::string{policy}, std::string{reason});
  return core::invalid_input(std::string{policy}, "it is no rule of an HPA");
}

}  // namespace penstock::planner
