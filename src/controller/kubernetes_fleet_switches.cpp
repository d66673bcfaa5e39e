// Pods that go from one Deployment to another and change their role: the steps of actuation/pod_switch.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actuation/pod_switch.h"
#include "actuation/step_text.h"
#include "controller/kubernetes_fleet.h"
#include "controller/pod_role.h"
#include "net/address.h"
#include "net/fetch.h"

namespace penstock::controller {
namespace {

constexpr core::Duration kSoon = std::chrono::milliseconds{10};  // Changes within this time are seen together.
constexpr core::Duration kRoleTimeout = std::chrono::minutes{2};
constexpr core::Duration kRoleRetry = std::chrono::seconds{1};

// The controller of one of the ReplicaSets counts the pod as its own.
bool is_counted(const std::map<std::string, connect::ReplicaSetState>& sets, const connect::PodState& pod) {
  return std::any_of(sets.begin(), sets.end(), [&](const auto& each) { return each.second.uid == pod.controller_uid; });
}

}  // namespace

void KubernetesFleet::find_partners() {
  for (const auto& pool : pools_)
    for (const auto& other : pools_)
      if (pool->configured.role_switch && other->configured.name == pool->configured.role_switch->partner) {
        pool->partner = other.get();
        other->partner = pool.get();
      }
}

// A pod that Kubernetes makes in the place of one that moves is to be taken away before it starts.
void KubernetesFleet::advance_soon() {
  if (soon_ != 0 || timer_ == 0) return;
  soon_ = loop_.after(kSoon, [this] {
    soon_ = 0;
    advance();
  });
}

// ---- observations ---------------------------------------------------------------------------------------------------

connect::DeploymentPods KubernetesFleet::deployment_of(const Pool& pool) {
  const connect::ScaledObject* const object = object_of(pool);
  if (pool.sets == nullptr || object == nullptr) return {};
  return pods_of_deployment(pool.sets->all(), object->uid);
}

void KubernetesFleet::forget_moved_pods(Pool& pool) {
  if (pool.partner == nullptr) return;
  std::erase_if(pool.groups, [&](const auto& each) {
    const auto found = pool.partner->groups.find(each.first);
    return found != pool.partner->groups.end() && found->second.pod.uid == each.second.pod.uid &&
           connect::is_older_version(each.second.pod.version, found->second.pod.version);
  });
}

bool KubernetesFleet::is_joining(const Pool& pool, const connect::PodState& pod) {
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

void KubernetesFleet::observe_exchange(const Pool& pool, actuation::TargetSeen& seen) const {
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

void KubernetesFleet::observe_role(const Pool& pool, const connect::PodState& pod, const FollowedReplica& replica,
                                   actuation::PodSeen& seen) const {
  seen.has_role = has_role(pod, pool.configured.role);
  if (pool.partner == nullptr) return;
  const connect::RequestedRole next{to_string(pool.partner->configured.role), pod.restarts};
  const telemetry::EngineKind kind = watch_.kind_of(replica.number);
  // Without metrics it is not known yet, and the pod is not drained either.
  seen.can_switch = kind == telemetry::EngineKind::kUnknown || role_change_of(kind) != RoleChange::kNever;
  seen.is_committed = pod.requested_role == next;
  seen.has_next_role = seen.is_committed && replica.role == next;
}

// ---- steps ----------------------------------------------------------------------------------------------------------

std::optional<std::uint32_t> KubernetesFleet::exchange(Pool& pool, actuation::TargetSeen& seen) {
  const auto wanted = [this](const Pool& of) { return may_act() ? of.wanted : std::nullopt; };
  if (pool.partner == nullptr) return wanted(pool);
  Pool& partner = *pool.partner;
  actuation::TargetSeen of_partner = observe(partner);
  const actuation::ExchangeSide own{pool.state, seen, wanted(pool), pool.hold.cause};
  const actuation::ExchangeSide other{partner.state, of_partner, wanted(partner), partner.hold.cause};
  if (partner.configured.role_switch)
    (void)actuation::exchange(own, other, *partner.configured.role_switch, loop_.now());
  if (!pool.configured.role_switch) return wanted(pool);
  return actuation::exchange(other, own, *pool.configured.role_switch, loop_.now());
}

// The annotation tells another planner that the engine may have another role than its pool. So it is written before the
// engine is asked to leave that role, and after the engine has got it again.
void KubernetesFleet::set_role(Pool& pool, const actuation::PodStep& step, const connect::PodGroup& group,
                               FollowedReplica& replica) {
  const connect::PodState& pod = group.pod;
  const bool is_own = step.kind == actuation::PodStepKind::kRestore;
  if (!is_own && pool.partner == nullptr) return;
  const signals::Role role = (is_own ? pool : *pool.partner).configured.role;
  const connect::RequestedRole asked{to_string(role), pod.restarts};
  if (replica.asked != asked) {
    replica.asked = asked;
    report_step(pool, step.pod, step, sentence(step.kind, step.pod));
  }
  if (replica.role != asked && (is_own || pod.requested_role == asked)) return request_role(pool, pod, replica);
  if (pod.requested_role != asked)
    patch(pool, connect::set_role_call(options_.in_namespace, group.members.front(), asked));
}

void KubernetesFleet::request_role(Pool& pool, const connect::PodState& pod, FollowedReplica& replica) {
  const RoleChange change = role_change_of(watch_.kind_of(replica.number));
  const auto address = net::Address::parse(pod.address, options_.port);
  if (replica.is_asking || loop_.now() < replica.ask_at || !address || change == RoleChange::kNever) return;
  if (change == RoleChange::kByLabels) {
    replica.role = replica.asked;
    return;
  }
  const auto credentials = options_.engines.credentials ? options_.engines.credentials(url_of(pod)) : nullptr;
  net::FetchRequest request = net::request_to(*address, "/pd_role_switch", kRoleTimeout);
  request.method = "POST";
  if (credentials) request.field_lines = credentials->fields;
  request.fields.push_back({"Content-Type", "application/json"});
  request.body = fmt::format(R"({{"new_role":"{}"}})", replica.asked->role);
  replica.is_asking = true;
  net::fetch(client_, std::move(request),
             [this, &pool, name = pod.name, uid = pod.uid,
              asked = *replica.asked](const core::Result<net::FetchAnswer>& answer) {
               const auto found = pool.replicas.find(name);
               if (found == pool.replicas.end() || found->second.uid != uid) return;
               FollowedReplica& asker = found->second;
               asker.is_asking = false;
               asker.ask_at = loop_.now() + kRoleRetry;
               if (answer && answer->status == 200) {
                 asker.role = asked;
                 asker.role_failure.clear();
                 return advance_soon();
               }
               std::string failure = answer ? fmt::format("status {}", answer->status) : answer.error().message();
               if (std::exchange(asker.role_failure, failure) == failure) return;
               report(true, pool.configured.name, fmt::format("{} could not change its role: {}", name, failure));
             });
}

void KubernetesFleet::move(Pool& from, Pool& to, const actuation::PodStep& step, const connect::PodGroup& group) {
  const connect::DeploymentPods old = deployment_of(from), next = deployment_of(to);
  if (next.current == nullptr) return;
  const connect::Labels none;
  const actuation::TargetSeen seen = observe(from);
  patch(from,
        connect::move_pod_call(options_.in_namespace, group.members.front(),
                               old.current == nullptr ? none : old.current->labels, next.current->labels),
        [&from, seen, step] { actuation::moved(from.state, seen, step); });
}

// A rollout of the target may have begun just before a pod got the labels of the former template, whose ReplicaSet may
// be gone.
void KubernetesFleet::move_orphans(Pool& pool) {
  const connect::DeploymentPods deployment = deployment_of(pool);
  if (deployment.current == nullptr || !object_of(pool)->is_observed || pool.writes > 0) return;
  const connect::Labels& labels = deployment.current->labels;
  for (const auto& [name, group] : pool.groups) {
    const connect::PodState& pod = group.pod;
    const bool is_selected = std::includes(pod.labels.begin(), pod.labels.end(), labels.begin(), labels.end());
    if (pod.controller_uid.empty() && is_joining(pool, pod) && !is_selected)
      patch(pool, connect::move_pod_call(options_.in_namespace, group.members.front(), {}, labels));
  }
}

}  // namespace penstock::controller
