// ScaledObjects of KEDA, and what they share with HorizontalPodAutoscalers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
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

// How much an autoscaler may add or take away in a period.
struct ScalingPolicy {
  std::uint32_t amount = 0;  // Pods, or a share of them in percent.
  bool is_percent = false;
  std::uint32_t period_s = 0;  // 1 to 1800, which Kubernetes accepts.
};
// Rules of one direction. What is empty is the default of Kubernetes.
struct ScalingRules {
  std::optional<std::uint32_t> stabilisation_s;  // Up to 3600.
  std::optional<ScalingPolicy> policy;
};
// `behavior` of a HorizontalPodAutoscaler; null if no rule is set.
[[nodiscard]] nlohmann::ordered_json behaviour_of(const ScalingRules& up, const ScalingRules& down);

// The address of the external scaler of a planner.
[[nodiscard]] std::string scaler_address(const std::string& planner, const std::string& in_namespace);
inline constexpr std::uint16_t kScalerPort = 9090;

inline constexpr std::uint32_t kKedaPolling = 30, kKedaCooldown = 300;  // Seconds; the defaults of KEDA.

// The HPA divides the result of the query by the threshold.
struct PrometheusTrigger {
  std::string name, server, query, threshold;
};

// What KEDA does after a trigger has failed more than `failures` times in succession.
struct Fallback {
  std::uint32_t failures = 3, replicas = 1;
  // The trigger asks for `replicas`, also where there are more. Otherwise it asks for those that there are, and for
  // `replicas` at least.
  bool is_static = false;
};

// Asks for replicas from each `start` to the next `end`, both in the five fields of crontab(5).
struct CronTrigger {
  std::string timezone;  // A name of the IANA database: "Europe/Berlin".
  std::string start, end;
  std::uint32_t replicas = 1;
};

struct KedaSettings {
  std::optional<Fallback> fallback;
  std::vector<CronTrigger> crons;  // Beside the other triggers. The largest proposal counts.
};

struct ScaledObject {
  ScaleTarget target;
  std::string scaler;                       // Address of a planner's external scaler, which is followed exactly.
  std::vector<PrometheusTrigger> triggers;  // Without a scaler. The largest proposal counts.
  // Of triggers without a scaler. The cooldown counts before KEDA goes to zero replicas.
  std::uint32_t polling_s = kKedaPolling, cooldown_s = kKedaCooldown;
  ScalingRules up, down;
  KedaSettings keda{};
};
[[nodiscard]] nlohmann::ordered_json spec_of(const ScaledObject& object);
// The whole object, of which all texts are UTF-8.
[[nodiscard]] nlohmann::ordered_json manifest_of(const ScaledObject& object);

}  // namespace penstock::deployment
