// What the planner and the live page see of a fleet in Kubernetes.
#include <algorithm>
#include <utility>

#include "controller/kubernetes_fleet.h"

namespace penstock::controller {
namespace {

// Whether the replica counts neither as starting nor as draining, because it will not get any further.
bool is_stuck(const connect::PodState& pod, const FollowedReplica& replica, const KubernetesFleetOptions& options,
              core::Instant now) {
  const ReplicaStart& start = replica.start;
  if (pod.is_terminating) return now - replica.since > std::chrono::seconds{pod.grace_s} + options.termination_margin;
  return !start.blocked_by().empty() && now - start.blocked_since() >= options.limits.pending_timeout;
}

const GatewayReplica* listed_in(const std::map<std::string, GatewayReplica>& gateway, const std::string& name) {
  const auto found = gateway.find(name);
  return found == gateway.end() ? nullptr : &found->second;
}

// `listed`: null if the gateway does not list it.
signals::ReplicaState state_of(const connect::PodState& pod, const FollowedReplica& replica, bool leaves,
                               const GatewayReplica* listed) {
  if (replica.stage == "switching" && !leaves) return signals::ReplicaState::kStarting;
  if (pod.is_terminating || pod.is_marked) return signals::ReplicaState::kDraining;
  // A replica that the gateway finds unhealthy takes no traffic, as if it were still starting.
  const bool is_healthy = listed == nullptr || listed->healthy;
  return pod.is_ready && is_healthy ? signals::ReplicaState::kReady : signals::ReplicaState::kStarting;
}

// Replicas without a node, and those that cannot start.
std::uint32_t pending_of(const std::map<std::string, connect::PodGroup>& groups,
                         const std::map<std::string, FollowedReplica>& replicas) {
  return static_cast<std::uint32_t>(std::count_if(groups.begin(), groups.end(), [&](const auto& each) {
    const auto replica = replicas.find(each.first);
    const connect::PodState& pod = each.second.pod;
    return !pod.has_ended && replica != replicas.end() &&
           (pod.node.empty() || !replica->second.start.blocked_by().empty());
  }));
}

std::uint32_t absent_of(const connect::ApiScale& scale, const std::map<std::string, connect::PodGroup>& groups) {
  const auto pods =
      std::count_if(groups.begin(), groups.end(), [](const auto& each) { return !each.second.pod.has_ended; });
  return actuation::absent_replicas(scale.replicas, static_cast<std::uint32_t>(pods), scale.observed);
}

std::vector<std::pair<std::string, double>> seconds_of(const StartUpSpread& spread) {
  return {{"median", core::to_seconds(spread.median)},
          {"shortest", core::to_seconds(spread.shortest)},
          {"longest", core::to_seconds(spread.longest)}};
}

}  // namespace

void KubernetesFleet::fill(std::size_t index, signals::PoolObservation& seen) const {
  const Pool& pool = *pools_[index];
  if (const auto spread = pool.start_up.spread()) seen.start_up = spread->median;
  seen.actions_failed_total = pool.failed;
  seen.shrinks_failed_total = pool.failed_shrinks;
  if (pool.partner != nullptr)
    for (const auto& [name, departure] : pool.partner->state.departures) seen.switching += departure.is_chosen ? 1 : 0;
  if (pool.scale) {
    const bool is_own = pool.wanted && may_act() && pool.hold.cause != actuation::HoldCause::kManual &&
                        pool.hold.cause != actuation::HoldCause::kAutoscaler;
    seen.target_replicas = is_own ? *pool.wanted : pool.scale->replicas;
  }
  std::vector<ReplicaView> counted;
  for (ReplicaView& view : replicas(index)) {
    const connect::PodGroup& group = pool.groups.at(view.name);
    if (!is_stuck(group.pod, pool.replicas.at(view.name), options_, loop_.now()))
      counted.push_back(std::move(view));
    else if (!nodes_of(group).empty())
      ++(group.pod.is_terminating ? seen.stuck_ending : seen.stuck);
  }
  add_replicas(counted, seen);
}

std::vector<ReplicaView> KubernetesFleet::replicas(std::size_t index) const {
  const Pool& pool = *pools_[index];
  std::vector<ReplicaView> views;
  if (pool.pods == nullptr) return views;
  for (const auto& [name, group] : pool.groups) {
    const connect::PodState& pod = group.pod;
    const auto found = pool.replicas.find(name);
    if (found == pool.replicas.end() || pod.has_ended) continue;
    const FollowedReplica& replica = found->second;
    const GatewayReplica* listed = listed_in(gateway_, pod.name);
    const auto departure = pool.state.departures.find(name);
    const bool leaves = departure != pool.state.departures.end() && departure->second.is_chosen;
    const signals::ReplicaState state = state_of(pod, replica, leaves, listed);
    ReplicaView& view = views.emplace_back();
    view = {pod.name,
            replica.stage,
            url_of(pod, options_.port),
            replica.since,
            {replica.number, state, replica.since, watch_.sample_of(replica.number)},
            watch_.messages_of(replica.number),
            listed == nullptr ? std::string{} : listed->model};
    if (leaves) view.switch_to = pool.partner->configured.name;
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
  if (pool.pods != nullptr) made.pending = pending_of(pool.groups, pool.replicas);
  if (pool.pods != nullptr && pool.scale) made.pending += absent_of(*pool.scale, pool.groups);
  made.conflicts = pool.conflicts->count();
  if (const auto spread = pool.start_up.spread()) made.start_up_s = seconds_of(*spread);
  return made;
}

}  // namespace penstock::controller
