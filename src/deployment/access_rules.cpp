#include "deployment/access_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace penstock::deployment {
namespace {

std::string list_of(const std::vector<std::string>& texts) {
  std::string made;
  for (const std::string& text : texts) made += fmt::format("{}\"{}\"", made.empty() ? "" : ", ", text);
  return "[" + made + "]";
}

AccessRule events_rule(const std::string& in_namespace) {
  return {
      in_namespace, "events.k8s.io", "events", {"create", "patch"}, {}, "decisions are Events; all else works without"};
}

}  // namespace

std::string role_line(const AccessRule& rule) {
  const std::string names = rule.names.empty() ? "" : ", resourceNames: " + list_of(rule.names);
  return fmt::format("{{apiGroups: [\"{}\"], resources: [\"{}\"]{}, verbs: {}}}", rule.group, rule.resource, names,
                     list_of(rule.verbs));
}

std::vector<AccessRule> gateway_access(const std::string& in_namespace, const FollowedObjects& followed) {
  std::vector<AccessRule> rules;
  if (followed.pods)
    rules.push_back({in_namespace, "", "pods", {"list", "watch"}, {}, "the gateway follows the pods that serve"});
  if (followed.endpoint_slices)
    rules.push_back({in_namespace,
                     "discovery.k8s.io",
                     "endpointslices",
                     {"list", "watch"},
                     {},
                     "the gateway follows the endpoints of its Service"});
  if (!followed.inference_pool.empty())
    rules.push_back({in_namespace,
                     followed.inference_pool_group,
                     "inferencepools",
                     {"list", "watch"},
                     {followed.inference_pool},
                     "the gateway follows the selector and the ports of its InferencePool"});
  return rules;
}

std::vector<AccessRule> lease_access(const std::string& in_namespace, const std::string& lease) {
  constexpr const char* kLeads = "one of several planners leads";
  return {{in_namespace, "coordination.k8s.io", "leases", {"create"}, {}, kLeads},
          {in_namespace, "coordination.k8s.io", "leases", {"get", "update"}, {lease}, kLeads}};
}

std::vector<AccessRule> policy_state_access(const std::string& in_namespace, const std::string& config_map) {
  constexpr const char* kState = "the next leader reads what the policy has learned";
  return {{in_namespace, "", "configmaps", {"create"}, {}, kState},
          {in_namespace, "", "configmaps", {"get", "patch"}, {config_map}, kState}};
}

std::vector<AccessRule> leader_election_access(const std::string& in_namespace, const std::string& lease,
                                               const std::string& config_map) {
  std::vector<AccessRule> rules = lease_access(in_namespace, lease);
  for (AccessRule& rule : policy_state_access(in_namespace, config_map)) rules.push_back(std::move(rule));
  rules.push_back(events_rule(in_namespace));
  return rules;
}

std::vector<AccessRule> external_metrics_access() {
  return {
      {"kube-system",
       "",
       "configmaps",
       {"get"},
       {"extension-apiserver-authentication"},
       "the planner verifies that the API server calls it; bind the Role extension-apiserver-authentication-reader"},
      {"",
       "authorization.k8s.io",
       "subjectaccessreviews",
       {"create"},
       {},
       "the planner verifies who may read its metrics; bind the ClusterRole system:auth-delegator"}};
}

std::vector<AccessRule> scaling_access(const std::string& in_namespace, const std::vector<ScaledResource>& targets) {
  if (targets.empty()) return {};
  std::map<std::tuple<std::string, std::string, bool>, std::vector<std::string>> names;
  for (const ScaledResource& target : targets) {
    std::vector<std::string>& of_kind = names[{target.group, target.plural, target.has_scale}];
    if (std::find(of_kind.begin(), of_kind.end(), target.name) == of_kind.end()) of_kind.push_back(target.name);
  }
  std::vector<AccessRule> rules;
  for (const auto& [resource, of_resource] : names) {
    const auto& [group, plural, has_scale] = resource;
    rules.push_back({in_namespace, group, plural, {"list", "watch"}, {}, "the planner follows its targets"});
    if (has_scale)
      rules.push_back(
          {in_namespace, group, plural + "/scale", {"get", "patch"}, of_resource, "the planner scales its targets"});
    else
      rules.push_back({in_namespace, group, plural, {"patch"}, of_resource, "the planner scales its targets"});
  }
  rules.push_back(
      {in_namespace, "", "pods", {"list", "watch", "patch"}, {}, "the planner follows pods and marks those that go"});
  if (std::any_of(targets.begin(), targets.end(), [](const ScaledResource& target) { return target.gives_pods; }))
    rules.push_back({in_namespace,
                     "apps",
                     "replicasets",
                     {"list", "watch"},
                     {},
                     "the planner gives pods that change their role the labels of the other Deployment"});
  rules.push_back({in_namespace,
                   "autoscaling",
                   "horizontalpodautoscalers",
                   {"list", "watch"},
                   {},
                   "the planner does nothing where an autoscaler acts"});
  rules.push_back({in_namespace,
                   "policy",
                   "poddisruptionbudgets",
                   {"list", "watch"},
                   {},
                   "the planner respects disruption budgets"});
  rules.push_back(events_rule(in_namespace));
  return rules;
}

}  // namespace penstock::deployment
