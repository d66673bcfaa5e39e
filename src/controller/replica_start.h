// Why a replica in Kubernetes cannot start.
#pragma once

#include <string>
#include <utility>

#include "connect/kubernetes/pods.h"
#include "core/time.h"

namespace penstock::controller {

class ReplicaStart {
 public:
  // `is_late`: it has had a node for longer than its pool needs for a start, and was never Ready.
  //
  // A container that crashes again and again runs in between, so only readiness ends the time for which a pod with a
  // node cannot start.
  void follow(const connect::PodState& pod, bool is_late, core::Instant now) {
    const bool has_node = !pod.node.empty();
    if (pod.is_ready || (has_node && !has_node_)) blocked_by_.clear();
    if (pod.is_ready) return;
    std::string cause = pod.blocked_by;
    if (cause.empty() && blocked_by_.empty() && has_node && is_late && !pod.is_terminating)
      cause = "it is not Ready after the start-up time of its pool; see its readiness probe and its log";
    if (cause.empty()) return;
    if (blocked_by_.empty()) blocked_since_ = now;
    blocked_by_ = std::move(cause);
    has_node_ = has_node;
  }

  [[nodiscard]] const std::string& blocked_by() const { return blocked_by_; }  // Empty: nothing.
  [[nodiscard]] core::Instant blocked_since() const { return blocked_since_; }

 private:
  std::string blocked_by_;
  core::Instant blocked_since_;
  bool has_node_ = false;  // When it was blocked last.
};

}  // namespace penstock::controller
