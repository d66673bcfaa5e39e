// A pool whose replicas are pods of Kubernetes, and what a fleet knows of it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "actuation/pod_scaling.h"
#include "actuation/role_switch.h"
#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/event_writer.h"
#include "connect/kubernetes/pod_groups.h"
#include "connect/kubernetes/pods.h"
#include "connect/kubernetes/replica_sets.h"
#include "connect/kubernetes/scale_target.h"
#include "connect/kubernetes/watched.h"
#include "controller/replica_start.h"
#include "controller/scale_conflicts.h"
#include "controller/start_up_times.h"
#include "controller/unknown_replicas.h"
#include "core/time.h"
#include "net/loop.h"
#include "signals/observation.h"

namespace penstock::controller {

struct KubernetesPool {
  std::string name;
  connect::ScaleTarget target;
  std::uint32_t gpus = 1;    // Of one replica. Pods that request another number are reported.
  bool single_node = false;  // Replicas whose pods are on several nodes are reported.
  // A pod that has a node and was never Ready cannot start after this time, or after the longest that was learned.
  core::Duration start_up = std::chrono::minutes{2};
  signals::Role role = signals::Role::kAggregated;
  // Pods of the partner may come here and change their role. Both targets are Deployments then.
  std::optional<actuation::RoleSwitch> role_switch{};
};

// A pod, or a group of pods, that a fleet follows.
struct FollowedReplica {
  std::uint32_t number = 0;
  std::string uid, stage;
  core::Instant since, marked_since;
  bool is_ready = false;  // It was, at some time.
  bool is_new = false;    // It was not Ready when it was first seen, and is not of the first list.
  bool is_marked = false;
  ReplicaStart start;
  bool is_checked = false;  // Its nodes.
  bool has_joined = false;  // It came from the other pool, and its mark was removed.
};

// A pool of a fleet, as it is known.
struct ScaledPool {
  KubernetesPool configured;
  std::optional<std::uint32_t> wanted;
  actuation::PodScaling state;
  actuation::PodHold hold;
  std::optional<connect::ApiScale> scale;  // As last read.
  std::string written;                     // Version of the last own write of a DynamoGraphDeployment.
  std::string selector;                    // Of `pods`.
  std::unique_ptr<connect::Watched<connect::ScaledObject>> target;
  std::unique_ptr<connect::Watched<connect::ScaledObject>> adapter;  // Of a component of a DynamoGraphDeployment.
  connect::ScaleTarget adapter_target;
  bool serves_adapters = true;  // The API server does; otherwise there is no adapter.
  std::string watch_failure;    // Why one of the two is not known.
  std::unique_ptr<connect::Watched<connect::PodState>> pods;
  bool has_new_pods = false, has_listed = false, is_reading = false;
  std::map<std::string, connect::PodGroup> groups;  // Of `pods`, by name.
  UnknownReplicas unknown;
  std::map<std::string, FollowedReplica> replicas;  // By name.
  StartUpTimes start_up;
  std::size_t writes = 0;  // In flight.
  core::Instant retry_at;  // After a failure.
  std::string failure;     // Reported once.
  std::uint64_t failed = 0, failed_shrinks = 0;
  std::optional<std::uint32_t> attempted;   // Replicas of the last write, whether it was answered or not.
  std::optional<ScaleConflicts> conflicts;  // Has a value.
  net::Loop::Timer retry = 0;               // After a conflict.
  std::uint32_t reported_gpus = 0;          // Of a replica, because the configuration has another number.
  ScaledPool* partner = nullptr;            // With which it exchanges pods; null: none.
  std::unique_ptr<connect::Watched<connect::ReplicaSetState>> sets;  // Of a pool with a partner.
  std::uint64_t switches = 0;                                        // Pods that have come from the partner.
};

// The object that has the number of replicas: the adapter of a component, or else the target.
[[nodiscard]] const connect::ScaleTarget& scaled_target(const ScaledPool& pool);
[[nodiscard]] const connect::ScaledObject* object_of(const ScaledPool& pool);  // Null: it is not known.

// What is not known of the number of replicas and their states, as a clause; empty: nothing.
[[nodiscard]] std::string unknown_of(const ScaledPool& pool, const std::string& in_namespace, core::Instant now);
[[nodiscard]] std::optional<connect::ObjectReference> reference_of(const ScaledPool& pool,
                                                                   const std::string& in_namespace);
[[nodiscard]] std::string url_of(const connect::PodState& pod, std::uint16_t port);  // Empty: it has no address.

// Why the copy of the objects of a watch cannot be used; empty: it can.
template <class T>
[[nodiscard]] std::string age_of(const connect::Watched<T>& watched, std::string_view what, core::Instant now) {
  if (!watched.is_stale()) return {};
  if (!watched.confirmed_at()) return fmt::format("{}: the API server has not answered yet", what);
  return fmt::format("{}: the API server has confirmed nothing for {:.0f} min", what,
                     core::to_seconds(now - *watched.confirmed_at()) / 60.0);
}

}  // namespace penstock::controller
