// Pods that are one replica: a pod of its own, or the leader and the workers of a group of a LeaderWorkerSet.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "connect/kubernetes/pods.h"

namespace penstock::connect {

// Labels and an annotation of pods of a LeaderWorkerSet.
inline constexpr const char* kGroupSetLabel = "leaderworkerset.sigs.k8s.io/name";
inline constexpr const char* kGroupIndexLabel = "leaderworkerset.sigs.k8s.io/group-index";
inline constexpr const char* kWorkerIndexLabel = "leaderworkerset.sigs.k8s.io/worker-index";
inline constexpr const char* kGroupRevisionLabel = "leaderworkerset.sigs.k8s.io/template-revision-hash";
inline constexpr const char* kGroupSizeAnnotation = "leaderworkerset.sigs.k8s.io/size";

struct PodGroup {
  // Name, address and node of the leader; the other fields concern all pods: the group is ready when all of them are,
  // terminates or is blocked when one of them is, and was created with the first and became ready with the last.
  PodState pod;
  std::vector<PodIdentity> members;  // All pods, the leader first.
};

enum class PodSelection : std::uint8_t {
  kLeaders,  // Workers may be missing, because the selector may select leaders only.
  kAll,      // A group that lacks pods is not ready.
};

// By the name of the leader. Workers without a leader are no replica.
[[nodiscard]] std::map<std::string, PodGroup> groups_of(const std::map<std::string, PodState>& pods,
                                                        PodSelection selection);

// Nodes of the pods of a group, each once, sorted.
[[nodiscard]] std::vector<std::string> nodes_of(const PodGroup& group);

}  // namespace penstock::connect
