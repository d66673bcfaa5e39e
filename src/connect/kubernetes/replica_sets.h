// ReplicaSets of a Deployment, which own its pods.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/label_selector.h"

namespace penstock::connect {

inline const ApiResource kReplicaSets{"apps", "v1", "replicasets"};

struct ReplicaSetState {
  std::string uid, deployment_uid;
  std::int64_t revision = 0;   // Of the Deployment; the largest is that of its present template.
  std::uint32_t replicas = 0;  // Asked for.
  bool is_observed = false;    // Its controller has seen `replicas`.
  Labels labels;               // Of its pods. It adopts a pod that has them and no controller.
};
[[nodiscard]] ReplicaSetState parse_replica_set(const nlohmann::json& object);

// The ReplicaSets of one Deployment.
struct DeploymentPods {
  const ReplicaSetState* current = nullptr;  // Of the present template; null: none is known.
  bool has_rollout = false;                  // Another one is to have pods, too.
};
[[nodiscard]] DeploymentPods pods_of_deployment(const std::map<std::string, ReplicaSetState>& sets,
                                                const std::string& deployment_uid);

}  // namespace penstock::connect
