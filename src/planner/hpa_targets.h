// What a HorizontalPodAutoscaler needs to scale as one of the policies does, also one that KEDA makes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/policy.h"

namespace penstock::planner {

// A figure of a pool, summed over its replicas.
enum class PoolMetric : std::uint8_t { kRequestRate, kRequestsInFlight, kInputTokenRate, kOutputTokenRate, kKvUsage };

struct MetricTarget {
  PoolMetric metric = PoolMetric::kRequestRate;
  double per_replica = 1.0;  // AverageValue: 1/s, requests, tokens/s, or a share of the KV cache.
};

inline constexpr double kTokenUtilization = 0.75;  // U of keda-tokens: reserve until the next replica is ready.

// The targets of keda-tokens.
[[nodiscard]] std::vector<MetricTarget> token_targets(const ReplicaCapacity& capacity, double utilisation,
                                                      signals::Role role);

// The name may contain settings. Errors: a policy that no HPA can run, with the reason. Penstock's own policy is none
// of these.
[[nodiscard]] core::Result<std::vector<MetricTarget>> hpa_targets(std::string_view policy,
                                                                  const ReplicaCapacity& capacity, signals::Role role);
[[nodiscard]] bool has_hpa_targets(std::string_view policy);

}  // namespace penstock::planner
