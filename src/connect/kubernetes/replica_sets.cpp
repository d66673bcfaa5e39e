#include "connect/kubernetes/replica_sets.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "connect/kubernetes/json_values.h"

namespace penstock::connect {

ReplicaSetState parse_replica_set(const nlohmann::json& object) {
  const nlohmann::json &metadata = json_part(object, "metadata"), &spec = json_part(object, "spec");
  ReplicaSetState made;
  made.uid = json_text(metadata, "uid");
  for (const nlohmann::json& owner : json_part(metadata, "ownerReferences"))
    if (json_part(owner, "controller") == true) made.deployment_uid = json_text(owner, "uid");
  const std::string revision = json_text(json_part(metadata, "annotations"), "deployment.kubernetes.io/revision");
  std::from_chars(revision.data(), revision.data() + revision.size(), made.revision);
  made.replicas =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(json_number(spec, "replicas").value_or(0), 0, INT32_MAX));
  made.is_observed = has_observed_spec(object);
  const nlohmann::json& labels = json_part(json_part(json_part(spec, "template"), "metadata"), "labels");
  for (const auto& [name, value] : labels.items())
    if (value.is_string()) made.labels.emplace(name, value.get<std::string>());
  return made;
}

DeploymentPods pods_of_deployment(const std::map<std::string, ReplicaSetState>& sets,
                                  const std::string& deployment_uid) {
  DeploymentPods made;
  std::size_t with_pods = 0;
  for (const auto& [key, set] : sets) {
    if (set.deployment_uid != deployment_uid) continue;
    if (made.current == nullptr || set.revision > made.current->revision) made.current = &set;
    with_pods += set.replicas > 0 ? 1 : 0;
  }
  made.has_rollout = with_pods > (made.current != nullptr && made.current->replicas > 0 ? 1 : 0);
  return made;
}

}  // namespace penstock::connect
