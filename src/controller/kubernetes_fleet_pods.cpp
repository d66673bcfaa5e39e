// What a fleet in Kubernetes knows of its pods.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "controller/kubernetes_fleet.h"
#include "controller/pod_exchange.h"
#include "net/address.h"

namespace penstock::controller {
namespace {

// How a ready replica differs from the configuration. Each number of GPUs is named once.
std::vector<std::string> unexpected_of(const KubernetesPool& configured, const connect::PodGroup& group,
                                       std::uint32_t& reported_gpus) {
  std::vector<std::string> found;
  const std::uint32_t gpus = group.pod.gpus;
  if (gpus != 0 && gpus != configured.gpus && std::exchange(reported_gpus, gpus) != gpus)
    found.push_back(
        fmt::format("{} has {} GPUs, and pools[].gpus is {}; correct it, because budgets and costs are computed by it",
                    group.pod.name, gpus, configured.gpus));
  if (const std::vector<std::string> nodes = nodes_of(group); configured.single_node && nodes.size() > 1)
    found.push_back(
        fmt::format("the pods of {} run on several nodes ({}); give them an affinity to one node, or remove "
                    "planner.kubernetes.single_node",
                    group.pod.name, fmt::join(nodes, ", ")));
  return found;
}

FollowedReplica new_replica(std::uint32_t number, bool is_new) {
  FollowedReplica replica;
  replica.number = number;
  replica.is_new = is_new;
  return replica;
}

void learn_start_up(const connect::PodState& pod, StartUpTimes& times) {
  if (pod.restarts == 0 && pod.created_s && pod.ready_s)
    times.add(std::chrono::seconds{std::max<std::int64_t>(0, *pod.ready_s - *pod.created_s)});
}

// Disruption budgets that select one of the pods.
std::vector<actuation::BudgetSeen> budgets_of(const connect::Watched<connect::PodState>& pods,
                                              const connect::Watched<connect::DisruptionBudget>& budgets) {
  std::vector<actuation::BudgetSeen> made;
  for (const auto& [key, budget] : budgets.all()) {
    const bool selects_one = std::any_of(pods.all().begin(), pods.all().end(), [&](const auto& each) {
      return !budget.selects_none && budget.selector.selects(each.second.labels);
    });
    if (selects_one) made.push_back({budget.name, budget.allowed, budget.version});
  }
  return made;
}

// All planners have the same field manager. Under a Lease, only the one before this one can have written; without a
// Lease, this one knows what it wrote. `is_known`: one of the two.
void set_writer(const std::vector<std::string>& writers, bool is_known, actuation::TargetSeen& seen) {
  const bool is_penstock = std::find(writers.begin(), writers.end(), connect::kFieldManager) != writers.end();
  seen.is_own_write = is_penstock && is_known;
  seen.is_planner = !writers.empty() && writers.back() == connect::kFieldManager && !is_known;
  if (!writers.empty()) seen.writer = seen.is_planner ? "another planner" : writers.back();
}

}  // namespace

void KubernetesFleet::follow_pods(Pool& pool) {
  if (pool.pods == nullptr || !pool.pods->confirmed_at()) return;
  const core::Instant now = loop_.now();
  const auto log_stage = [&](const std::string& name, const std::string& from, std::string_view to) {
    events_.log().write(logging::Event::kReplicaState,
                        {{"pool", pool.configured.name}, {"replica", name}, {"from", from}, {"to", to}});
  };
  if (std::exchange(pool.has_new_pods, false)) pool.groups = groups_of(pool.pods->all(), connect::PodSelection::kAll);
  forget_moved_pods(pool);
  const auto learned = pool.start_up.spread();
  const core::Duration start_up = std::max(pool.configured.start_up, learned ? learned->longest : core::Duration{});
  std::map<std::string, FollowedReplica> next;
  const bool has_listed = std::exchange(pool.has_listed, true);
  for (const auto& [name, group] : pool.groups) {
    const connect::PodState& pod = group.pod;
    if (pod.has_ended) continue;
    FollowedReplica replica;
    if (const auto known = pool.replicas.find(pod.name); known != pool.replicas.end() && known->second.uid == pod.uid)
      replica = known->second;
    else
      replica = new_replica(next_number_++, has_listed && !pod.is_ready);
    replica.uid = pod.uid;
    const std::string stage = stage_of(pool, pod);
    if (stage != replica.stage) {
      log_stage(pod.name, replica.stage, stage);
      replica.stage = stage;
      replica.since = now;
    }
    replica.has_joined = replica.has_joined && pod.has_moved;
    if (pod.is_marked != std::exchange(replica.is_marked, pod.is_marked)) replica.marked_since = now;
    replica.start.follow(pod, !replica.is_ready && now - replica.since > start_up, now);
    check_group(pool, group, replica);
    // A pod that was Ready before it was seen may have become so again, long after its start.
    if (pod.is_ready && !std::exchange(replica.is_ready, true) && replica.is_new) learn_start_up(pod, pool.start_up);
    next.emplace(pod.name, std::move(replica));
  }
  for (const auto& [name, replica] : pool.replicas)
    if (!next.contains(name)) log_stage(name, replica.stage, "gone");
  pool.replicas = std::move(next);
}

void KubernetesFleet::check_group(Pool& pool, const connect::PodGroup& group, FollowedReplica& replica) {
  if (replica.is_checked || !group.pod.is_ready) return;
  replica.is_checked = true;
  for (const std::string& text : unexpected_of(pool.configured, group, pool.reported_gpus)) {
    reports_.report(true, pool.configured.name, text);
    reports_.write_event(pool, true, "ReplicaUnexpected", "Check", text);
  }
}

void KubernetesFleet::watch_engines() {
  std::vector<WatchedEngine> engines;
  for (const auto& pool : pools_) {
    if (pool->pods == nullptr) continue;
    for (const auto& [name, group] : pool->groups) {
      const connect::PodState& pod = group.pod;
      const auto replica = pool->replicas.find(name);
      // One that was never ready has no metrics yet.
      if (replica == pool->replicas.end() || !replica->second.is_ready || url_of(pod, options_.port).empty()) continue;
      const auto listed = gateway_.find(pod.name);
      engines.push_back({replica->second.number, url_of(pod, options_.port),
                         listed == gateway_.end() ? std::vector<std::string>{} : listed->second.fpm, pod.name,
                         pod.is_terminating});
    }
  }
  watch_.watch(engines);
}

actuation::PodSeen KubernetesFleet::observe(const Pool& pool, const connect::PodGroup& group,
                                            const FollowedReplica& replica) const {
  const connect::PodState& pod = group.pod;
  actuation::PodSeen seen;
  seen.name = pod.name;
  seen.pods = static_cast<std::uint32_t>(group.members.size());
  seen.is_scheduled = !pod.node.empty();
  seen.is_ready = pod.is_ready;
  seen.is_marked = pod.is_marked;
  seen.marked_since = replica.marked_since;
  seen.deletion_cost = pod.deletion_cost;
  seen.created_s = pod.created_s.value_or(0);
  seen.revision = pod.revision;
  seen.blocked_by = replica.start.blocked_by();
  seen.blocked_since = replica.start.blocked_since();
  if (const auto listed = gateway_.find(pod.name); listed != gateway_.end() && gateway_at_)
    seen.gateway = actuation::GatewaySeen{*gateway_at_, listed->second.eligible, listed->second.open_work(),
                                          listed->second.healthy};
  if (const auto sample = watch_.sample_of(replica.number))
    seen.engine = actuation::EngineSeen{
        sample->sampled_at, true,
        actuation::OpenWork{sample->queued_requests + sample->running_requests, sample->open_transfers.value_or(0)}};
  observe_role(pool, pod, watch_.kind_of(replica.number), roles_, seen);
  return seen;
}

actuation::TargetSeen KubernetesFleet::observe(Pool& pool) const {
  actuation::TargetSeen seen;
  seen.missing = missing_of(pool);
  if (!seen.missing.empty()) return seen;
  const connect::ScaledObject& object = *object_of(pool);
  seen.replicas = pool.scale->replicas;
  seen.is_ordered = pool.configured.target.is_ordered;
  seen.first_ordinal = object.first_ordinal;
  set_writer(writers_of(scaled_target(pool), object), options_.api.may_write || pool.attempted == seen.replicas, seen);
  seen.existing = pool.scale->observed;
  seen.gateway_at = gateway_at_;
  for (const auto& [key, autoscaler] : autoscalers_->all())
    if (scales(autoscaler, scaled_target(pool))) seen.autoscaler = autoscaler.title;
  for (const auto& [name, group] : pool.groups) {
    const auto replica = pool.replicas.find(name);
    if (group.pod.is_terminating || group.pod.has_ended)
      ++seen.leaving;
    else if (is_joining(pool, group.pod))
      ++seen.joining;
    else if (replica != pool.replicas.end())
      seen.pods.push_back(observe(pool, group, replica->second));
  }
  observe_exchange(pool, seen);
  if (seen.pods.size() < seen.replicas) seen.unlisted = pool.unknown.count(gateway_, pool.groups);
  seen.budgets = budgets_of(*pool.pods, *budgets_);
  return seen;
}

}  // namespace penstock::controller
