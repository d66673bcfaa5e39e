// Objects of Kubernetes with a number of replicas, and those that change or limit it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/label_selector.h"
#include "connect/kubernetes/variant_annotations.h"
#include "core/result.h"

namespace penstock::connect {

inline const ApiResource kDisruptionBudgets{"policy", "v1", "poddisruptionbudgets"};
inline const ApiResource kHorizontalAutoscalers{"autoscaling", "v2", "horizontalpodautoscalers"};

// An object with the subresource /scale.
struct ScaleTarget {
  ApiResource resource;
  std::string name;
  bool is_ordered = false;  // Kubernetes deletes the pods with the highest ordinals first.
};
// Reads "deployment/NAME", "statefulset/NAME", "leaderworkerset/NAME", "dynamographdeploymentscalingadapter/NAME", or
// "GROUP/VERSION/PLURAL/NAME" of any resource.
[[nodiscard]] core::Result<ScaleTarget> parse_scale_target(std::string_view text);
[[nodiscard]] std::string kind_of(const ScaleTarget& target);    // "Deployment"
[[nodiscard]] std::string to_string(const ScaleTarget& target);  // deployments.apps "chat"
[[nodiscard]] bool is_same(const ScaleTarget& left, const ScaleTarget& right);

// The state of such an object.
struct ScaledObject {
  std::string version;  // resourceVersion.
  std::string uid{};
  std::vector<std::string> writers{};  // Managers of spec.replicas, the latest last.
  VariantAnnotations annotations{};
};
[[nodiscard]] ScaledObject parse_scaled_object(const nlohmann::json& object);

struct HorizontalAutoscaler {
  std::string title;  // HorizontalPodAutoscaler "chat", or the name and kind of its owner, such as a ScaledObject.
  std::string target_group, target_kind, target_name;
  std::optional<VariantAnnotations> annotations{};  // If it is one of llm-d.
};
[[nodiscard]] HorizontalAutoscaler parse_horizontal_autoscaler(const nlohmann::json& object);
[[nodiscard]] bool scales(const HorizontalAutoscaler& autoscaler, const ScaleTarget& target);

struct DisruptionBudget {
  std::string name, version;
  bool selects_none = true;  // It has no selector, or one that cannot be read.
  LabelSelector selector;
  std::uint32_t allowed = 0;  // Disruptions.
};
[[nodiscard]] DisruptionBudget parse_disruption_budget(const nlohmann::json& object);

}  // namespace penstock::connect
