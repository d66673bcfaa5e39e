// The permissions of Penstock's service accounts, which are no wider than the code's requests.
#pragma once

#include <string>
#include <vector>

namespace penstock::deployment {

// A rule of a Role: what may be done with which resource of a namespace.
struct AccessRule {
  std::string in_namespace;  // Empty: of the cluster.
  std::string group;         // "apps"; the core group is "".
  std::string resource;      // "pods", "deployments/scale".
  std::vector<std::string> verbs;
  std::vector<std::string> names{};  // Empty: all objects.
  std::string purpose;               // What fails without it.

  friend bool operator==(const AccessRule&, const AccessRule&) = default;
};

// The rule as a line of a Role: {apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"]}.
[[nodiscard]] std::string role_line(const AccessRule& rule);

// What a gateway follows in a namespace.
struct FollowedObjects {
  bool pods = true, endpoint_slices = false;
  std::string inference_pool{}, inference_pool_group{};  // Empty: none.
};
[[nodiscard]] std::vector<AccessRule> gateway_access(const std::string& in_namespace,
                                                     const FollowedObjects& followed = {});

// An object that is scaled, as a Role names it.
struct ScaledResource {
  std::string group, plural, name;  // "apps", "deployments", "chat".
  bool has_scale = true;            // Otherwise the object itself is patched.
  bool gives_pods = false;          // Its pods may go to another such object, and change their role.
};
// Of one of several planners: a Lease of this name. `create` cannot be limited to a name.
[[nodiscard]] std::vector<AccessRule> lease_access(const std::string& in_namespace, const std::string& lease);
// Of a planner that keeps the state of its policy in a ConfigMap of this name.
[[nodiscard]] std::vector<AccessRule> policy_state_access(const std::string& in_namespace,
                                                          const std::string& config_map);
// Both, and Events.
[[nodiscard]] std::vector<AccessRule> leader_election_access(const std::string& in_namespace, const std::string& lease,
                                                             const std::string& config_map);
// Of a planner that serves external metrics to the API server.
[[nodiscard]] std::vector<AccessRule> external_metrics_access();

// Of a planner that scales these objects of a namespace.
[[nodiscard]] std::vector<AccessRule> scaling_access(const std::string& in_namespace,
                                                     const std::vector<ScaledResource>& targets);
}  // namespace penstock::deployment
