// Objects of Kubernetes with a number of replicas, and those that change or limit it.
//
// A component of a DynamoGraphDeployment (DGD) is scaled as Dynamo's planner does it: through /scale of its
// DynamoGraphDeploymentScalingAdapter "DGD-COMPONENT" if there is one, otherwise by a patch of the DGD.
#pragma once

#include <cstdint>
#include <map>
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

// An object with the subresource /scale, or a component of a DGD.
struct ScaleTarget {
  ApiResource resource;
  std::string name;
  std::string component{};  // Of a DGD; empty: the object has /scale.
  bool is_ordered = false;  // Kubernetes deletes the pods with the highest ordinals first.
};
// Reads "deployment/NAME", "statefulset/NAME", "leaderworkerset/NAME", "dynamographdeploymentscalingadapter/NAME",
// "dynamographdeployment/NAME/COMPONENT", "GROUP/VERSION/PLURAL/NAME" of any resource with /scale, or
// "nvidia.com/VERSION/dynamographdeployments/NAME/COMPONENT".
[[nodiscard]] core::Result<ScaleTarget> parse_scale_target(std::string_view text);
[[nodiscard]] std::string kind_of(const ScaleTarget& target);    // "Deployment"
[[nodiscard]] std::string to_string(const ScaleTarget& target);  // deployments.apps "chat"
// True also for a component of a DGD and its adapter.
[[nodiscard]] bool is_same(const ScaleTarget& left, const ScaleTarget& right);
// The adapter of a component of a DGD.
[[nodiscard]] ScaleTarget adapter_of(const ScaleTarget& component);
// The label selector of all pods of a target whose /scale has the selector `of_scale`. That of a LeaderWorkerSet
// selects leaders only.
[[nodiscard]] std::string pod_selector(const ScaleTarget& target, const std::string& of_scale);

// A component in the spec of a DGD.
struct ScaledComponent {
  std::uint32_t replicas = 1;
  std::optional<std::size_t> index{};  // In spec.components (v1beta1); none in spec.services (v1alpha1).
  std::vector<std::string> writers{};  // Managers of its replicas, the latest last.
};

// The state of such an object.
struct ScaledObject {
  std::string version;  // resourceVersion.
  std::string uid{};
  std::vector<std::string> writers{};  // Managers of spec.replicas, the latest last.
  std::string last_writer{};           // The manager, other than Penstock, that has changed anything last.
  VariantAnnotations annotations{};
  std::int64_t first_ordinal = 0;  // Of its pods, if they are ordered.
  std::map<std::string, ScaledComponent> components{};
  bool is_observed = true;  // Its controller has seen the latest spec.
};
[[nodiscard]] ScaledObject parse_scaled_object(const nlohmann::json& object);

// The scale of a component of a DGD; empty: it has no such component.
[[nodiscard]] std::optional<ApiScale> component_scale(const ScaleTarget& target, const ScaledObject& object);
// Fails with kConflict if anything about the DGD was changed after `object` was read. The DGD has the component.
[[nodiscard]] ApiCall set_component_call(const ScaleTarget& target, std::string in_namespace,
                                         const ScaledObject& object, std::uint32_t replicas);
// Managers of the number of replicas of the target, the latest last.
[[nodiscard]] const std::vector<std::string>& writers_of(const ScaleTarget& target, const ScaledObject& object);

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
