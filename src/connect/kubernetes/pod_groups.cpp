#include "connect/kubernetes/pod_groups.h"

#include <algorithm>
#include <set>
#include <utility>

namespace penstock::connect {
namespace {

std::string label_of(const PodState& pod, const char* name) {
  const auto found = pod.labels.find(name);
  return found == pod.labels.end() ? std::string{} : found->second;
}

// Empty: the pod belongs to no group.
std::string group_key(const PodState& pod) {
  const std::string set = label_of(pod, kGroupSetLabel), index = label_of(pod, kGroupIndexLabel);
  return set.empty() || index.empty() ? std::string{} : set + "/" + index;
}

PodGroup group_of(const PodState& pod) { return {pod, {{pod.name, pod.uid, pod.node}}}; }

void add_worker(const PodState& worker, PodGroup& group) {
  PodState& all = group.pod;
  group.members.push_back({worker.name, worker.uid, worker.node});
  all.is_ready = all.is_ready && worker.is_ready;
  all.is_terminating = all.is_terminating || worker.is_terminating;
  all.grace_s = std::max(all.grace_s, worker.grace_s);
  all.has_ended = all.has_ended || worker.has_ended;
  // A mark must be on each pod, and removing it concerns each pod that has one.
  all.is_marked = all.is_marked && worker.is_marked;
  if (all.deletion_cost == 0) all.deletion_cost = worker.deletion_cost;
  if (all.blocked_by.empty()) all.blocked_by = worker.blocked_by;
  all.restarts += worker.restarts;
  all.gpus += worker.gpus;
  if (worker.created_s) all.created_s = std::min(all.created_s.value_or(*worker.created_s), *worker.created_s);
  if (worker.ready_s) all.ready_s = std::max(all.ready_s.value_or(*worker.ready_s), *worker.ready_s);
}

}  // namespace

std::map<std::string, PodGroup> groups_of(const std::map<std::string, PodState>& pods, PodSelection selection) {
  std::map<std::string, PodGroup> groups;
  std::map<std::string, std::string> leaders;  // By the key of their group.
  const auto is_worker = [](const PodState& pod) {
    return !group_key(pod).empty() && label_of(pod, kWorkerIndexLabel) != "0";
  };
  for (const auto& [key, pod] : pods) {
    if (is_worker(pod)) continue;
    PodGroup& group = groups.insert_or_assign(pod.name, group_of(pod)).first->second;
    if (const std::string of = group_key(pod); !of.empty()) {
      leaders[of] = pod.name;
      // The pods of a group have controllers of their own, whose revisions differ.
      group.pod.revision = label_of(pod, kGroupRevisionLabel);
    }
  }
  for (const auto& [key, pod] : pods) {
    if (!is_worker(pod)) continue;
    if (const auto leader = leaders.find(group_key(pod)); leader != leaders.end())
      add_worker(pod, groups.at(leader->second));
  }
  if (selection == PodSelection::kAll)
    for (auto& [name, group] : groups)
      if (group.members.size() < group.pod.group_size) group.pod.is_ready = false;
  return groups;
}

std::vector<std::string> nodes_of(const PodGroup& group) {
  std::set<std::string> nodes;
  for (const PodIdentity& member : group.members)
    if (!member.node.empty()) nodes.insert(member.node);
  return {nodes.begin(), nodes.end()};
}

}  // namespace penstock::connect
