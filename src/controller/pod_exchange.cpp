#include "controller/pod_exchange.h"

#include <algorithm>

#include "actuation/pod_switch.h"
#include "connect/kubernetes/reflector.h"

namespace penstock::controller {
namespace {

// The controller of one of the ReplicaSets counts the pod as its own.
bool is_counted(const std::map<std::string, connect::ReplicaSetState>& sets, const connect::PodState& pod) {
  return std::any_of(sets.begin(), sets.end(), [&](const auto& each) { return each.second.uid == pod.controller_uid; });
}

connect::DeploymentPods deployment_of(const ScaledPool& pool) {
  const connect::ScaledObject* const object = object_of(pool);
  if (pool.sets == nullptr || object == nullptr) return {};
  return pods_of_deployment(pool.sets->all(), object->uid);
}

// Whether the engine has the role, as far as is known. One that was never asked to change it has that of its pool. A
// restart gives it the role of its arguments, which is not known.
bool has_role(const connect::PodState& pod, signals::Role role) {
  return !pod.requested_role || *pod.requested_role == connect::RequestedRole{to_string(role), pod.restarts};
}

}  // namespace

void forget_moved_pods(ScaledPool& pool) {
  if (pool.partner == nullptr) return;
  std::erase_if(pool.groups, [&](const auto& each) {
    const auto found = pool.partner->groups.find(each.first);
    return found != pool.partner->groups.end() && found->second.pod.uid == each.second.pod.uid &&
           connect::is_older_version(each.second.pod.version, found->second.pod.version);
  });
}

const char* stage_of(const ScaledPool& pool, const connect::PodState& pod) {
  if (pod.is_terminating) return "terminating";
  if (is_joining(pool, pod) || (pod.is_marked && !has_role(pod, pool.configured.role))) return "switching";
  if (pod.is_marked) return "draining";
  if (pod.node.empty()) return "pending";
  return pod.is_ready ? "serving" : "starting";
}

bool is_joining(const ScaledPool& pool, const connect::PodState& pod) {
  if (pool.sets == nullptr || !pod.has_moved || pod.is_terminating || pod.has_ended) return false;
  const auto& sets = pool.sets->all();
  const bool is_counted =
      std::any_of(sets.begin(), sets.end(), [&](const auto& each) { return each.second.uid == pod.controller_uid; });
  if (!is_counted) return true;
  const auto active = std::count_if(pool.groups.begin(), pool.groups.end(), [](const auto& each) {
    return !each.second.pod.is_terminating && !each.second.pod.has_ended;
  });
  return pool.scale && active > std::int64_t{pool.scale->replicas};
}

void observe_exchange(const ScaledPool& pool, actuation::TargetSeen& seen) {
  if (pool.partner == nullptr) return;
  const connect::DeploymentPods deployment = deployment_of(pool);
  seen.has_rollout = deployment.has_rollout;
  seen.is_settled = deployment.current != nullptr && !deployment.has_rollout && object_of(pool)->is_observed &&
                    deployment.current->is_observed && deployment.current->replicas == seen.replicas;
  for (const auto& [name, group] : pool.partner->groups) {
    const bool is_own = is_counted(pool.sets->all(), group.pod);
    if (is_own && !group.pod.is_terminating && !group.pod.has_ended) ++seen.departing;
    if (!is_own && pool.state.moved.contains(name)) seen.released.insert(name);
  }
  // Pods that have got the other labels, which no watch has reported yet.
  seen.departing += static_cast<std::uint32_t>(
      std::erase_if(seen.pods, [&](const actuation::PodSeen& each) { return pool.state.moved.contains(each.name); }));
}

void observe_role(const ScaledPool& pool, const connect::PodState& pod, telemetry::EngineKind kind,
                  const RoleRequests& roles, actuation::PodSeen& seen) {
  seen.has_role = has_role(pod, pool.configured.role);
  if (pool.partner == nullptr) return;
  const connect::RequestedRole next{to_string(pool.partner->configured.role), pod.restarts};
  // Without metrics it is not known yet, and the pod is not drained either.
  seen.can_switch = kind == telemetry::EngineKind::kUnknown || role_change_of(kind) != RoleChange::kNever;
  seen.is_committed = pod.requested_role == next;
  seen.has_next_role = seen.is_committed && roles.has(pod.uid, next);
}

std::optional<std::uint32_t> exchange_pods(ScaledPool& pool, actuation::TargetSeen& seen,
                                           actuation::TargetSeen& of_partner, core::Instant now) {
  ScaledPool& partner = *pool.partner;
  const actuation::ExchangeSide own{pool.state, seen, pool.wanted, pool.hold.cause};
  const actuation::ExchangeSide other{partner.state, of_partner, partner.wanted, partner.hold.cause};
  if (partner.configured.role_switch) (void)actuation::exchange(own, other, *partner.configured.role_switch, now);
  if (!pool.configured.role_switch) return pool.wanted;
  return actuation::exchange(other, own, *pool.configured.role_switch, now);
}

std::optional<connect::ApiCall> move_call(const ScaledPool& pool, const connect::PodIdentity& pod,
                                          const std::string& in_namespace) {
  const connect::DeploymentPods old = deployment_of(pool), next = deployment_of(*pool.partner);
  if (old.current == nullptr || next.current == nullptr) return std::nullopt;
  return connect::move_pod_call(in_namespace, pod, old.current->labels, next.current->labels);
}

std::vector<connect::ApiCall> orphan_calls(const ScaledPool& pool, const std::string& in_namespace) {
  std::vector<connect::ApiCall> calls;
  const connect::DeploymentPods deployment = deployment_of(pool);
  if (deployment.current == nullptr || !object_of(pool)->is_observed) return calls;
  const connect::Labels& labels = deployment.current->labels;
  for (const auto& [name, group] : pool.groups) {
    const connect::PodState& pod = group.pod;
    const bool is_selected = std::includes(pod.labels.begin(), pod.labels.end(), labels.begin(), labels.end());
    if (pod.controller_uid.empty() && is_joining(pool, pod) && !is_selected)
      calls.push_back(connect::move_pod_call(in_namespace, group.members.front(), {}, labels));
  }
  return calls;
}

}  // namespace penstock::controller
