// What the planner and the live page see of a fleet in Kubernetes.
#include "controller/kubernetes_fleet.h"

namespace penstock::controller {

signals::ReplicaState KubernetesFleet::state_of(const connect::PodState& pod) const {
  if (pod.is_terminating || pod.is_marked) return signals::ReplicaState::kDraining;
  const auto listed = gateway_.find(pod.name);
  // A replica that the gateway finds unhealthy takes no traffic, as if it were still starting.
  const bool is_healthy = listed == gateway_.end() || listed->second.healthy;
  return pod.is_ready && is_healthy ? signals::ReplicaState::kReady : signals::ReplicaState::kStarting;
}

void KubernetesFleet::fill(std::size_t index, signals::PoolObservation& seen) const {
  const Pool& pool = *pools_[index];
  if (const auto spread = pool.start_up.spread()) seen.start_up = spread->median;
  seen.actions_failed_total = pool.failed;
  if (pool.scale) {
    const bool is_own = pool.wanted && may_act() && pool.hold.cause != actuation::HoldCause::kManual &&
                        pool.hold.cause != actuation::HoldCause::kAutoscaler;
    seen.target_replicas = is_own ? *pool.wanted : pool.scale->replicas;
  }
  add_replicas(replicas(index), seen);
}

std::vector<ReplicaView> KubernetesFleet::replicas(std::size_t index) const {
  const Pool& pool = *pools_[index];
  std::vector<ReplicaView> views;
  if (pool.pods == nullptr) return views;
  for (const auto& [name, group] : pool.groups) {
    const connect::PodState& pod = group.pod;
    const auto found = pool.replicas.find(name);
    if (found == pool.replicas.end() || pod.has_ended) continue;
    const Replica& replica = found->second;
    const auto listed = gateway_.find(pod.name);
    views.push_back({pod.name,
                     replica.stage,
                     url_of(pod),
                     replica.since,
                     {replica.number, state_of(pod), replica.since, watch_.sample_of(replica.number)},
                     watch_.messages_of(replica.number),
                     listed == gateway_.end() ? std::string{} : listed->second.model});
  }
  return views;
}

std::vector<connect::VariantAnnotations> KubernetesFleet::annotations(std::size_t index) const {
  const Pool& pool = *pools_[index];
  std::vector<connect::VariantAnnotations> made;
  for (const auto& [key, autoscaler] : autoscalers_->all())
    if (autoscaler.annotations && scales(autoscaler, scaled_target(pool))) made.push_back(*autoscaler.annotations);
  if (const connect::ScaledObject* object = object_of(pool)) {
    made.push_back(object->annotations);
    made.back().object = to_string(pool.configured.target);
  }
  return made;
}

std::optional<report::PodScaling> KubernetesFleet::scaling(std::size_t index) const {
  const Pool& pool = *pools_[index];
  report::PodScaling made;
  made.pool = pool.configured.name;
  made.held_by_cause = actuation::to_string(pool.hold.cause);
  made.held_by = pool.hold.by;
  if (pool.scale) made.asked = pool.scale->replicas;
  if (pool.pods != nullptr)
    for (const auto& [name, group] : pool.groups) {
      const auto replica = pool.replicas.find(name);
      if (group.pod.has_ended || replica == pool.replicas.end()) continue;
      made.pending += group.pod.node.empty() || !replica->second.start.blocked_by().empty() ? 1 : 0;
    }
  made.conflicts = pool.conflicts->count();
  if (const auto spread = pool.start_up.spread())
    made.start_up_s = {{"median", core::to_seconds(spread->median)},
                       {"shortest", core::to_seconds(spread->shortest)},
                       {"longest", core::to_seconds(spread->longest)}};
  return made;
}

}  // namespace penstock::controller
