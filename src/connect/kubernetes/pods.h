// Pods of Kubernetes, as values.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/label_selector.h"

namespace penstock::connect {

// Annotation of a pod that is to go: gateways send it no new requests.
inline constexpr const char* kDrainAnnotation = "penstock/draining";

// Annotation of a pod whose engine was asked to change its role: "decode/0", the role and the restarts of its
// containers at that time. A later restart gives the engine the role of its arguments again.
inline constexpr const char* kRoleAnnotation = "penstock/role";

struct RequestedRole {
  std::string role;
  std::int64_t restarts = 0;

  friend bool operator==(const RequestedRole&, const RequestedRole&) = default;
};

struct PodState {
  std::string name, uid, version;
  std::string address, node;  // Empty until they are assigned.
  Labels labels;
  bool is_ready = false, is_terminating = false, has_ended = false;
  bool is_marked = false;  // It has kDrainAnnotation.
  bool has_moved = false;  // It has that since it got the labels of another target; see move_pod_call().
  std::int64_t deletion_cost = 0;
  std::string revision;    // Of the template that it was made from.
  std::string blocked_by;  // Why it cannot start, as the scheduler or the kubelet says; empty: nothing.
  std::int64_t restarts = 0;
  std::uint32_t gpus = 0;                          // Of the limits of its containers.
  std::uint32_t group_size = 1;                    // Pods of its group of a LeaderWorkerSet.
  std::optional<std::int64_t> created_s, ready_s;  // Unix time. The latter since when it has been ready.
  std::int64_t grace_s = 0;                        // Of a terminating pod: the time it was given to end.
  std::string controller_uid{};                    // Of the object that owns it as its controller; empty: none does.
  std::optional<RequestedRole> requested_role{};
};
[[nodiscard]] PodState parse_pod(const nlohmann::json& object);

struct PodIdentity {
  std::string name, uid, node;
};

// Sets or removes the annotation and the deletion cost of a pod. It fails with kConflict if another pod has its name.
[[nodiscard]] ApiCall mark_pod_call(const std::string& in_namespace, const PodIdentity& pod,
                                    std::optional<std::int64_t> deletion_cost);
[[nodiscard]] ApiCall set_role_call(const std::string& in_namespace, const PodIdentity& pod, const RequestedRole& role);
// Gives a pod the labels `to` and takes those that only `from` has. Its mark, which it keeps, says so.
[[nodiscard]] ApiCall move_pod_call(const std::string& in_namespace, const PodIdentity& pod, const Labels& from,
                                    const Labels& to);

}  // namespace penstock::connect
