// ScaledObjects of KEDA, and what they share with HorizontalPodAutoscalers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace penstock::deployment {

// What an autoscaler acts on.
struct ScaleTarget {
  std::string pool;               // A valid value of a label.
  std::string api_version, kind;  // "apps/v1", "Deployment".
  std::string name, in_namespace;
  std::uint32_t replicas_min = 1, replicas_max = 1;
};

[[nodiscard]] nlohmann::ordered_json reference_of(const ScaleTarget& target);
// Each change of the metric is followed at once and exactly: by default an HPA ignores those of up to 10 %, and adds at
// most 4 pods or 100 % in 15 s.
[[nodiscard]] nlohmann::ordered_json exact_behaviour(const ScaleTarget& target);

// The address of the external scaler of a planner.
[[nodiscard]] std::string scaler_address(const std::string& planner, const std::string& in_namespace);
inline constexpr std::uint16_t kScalerPort = 9090;

// The HPA divides the result of the query by the threshold.
struct PrometheusTrigger {
  std::string name, server, query, threshold;
};

struct ScaledObject {
  ScaleTarget target;
  std::string scaler;                       // Address of a planner's external scaler, which is followed exactly.
  std::vector<PrometheusTrigger> triggers;  // Without a scaler. The largest proposal counts.
};
[[nodiscard]] nlohmann::ordered_json spec_of(const ScaledObject& object);
// The whole object, of which all texts are UTF-8.
[[nodiscard]] nlohmann::ordered_json manifest_of(const ScaledObject& object);

}  // namespace penstock::deployment
