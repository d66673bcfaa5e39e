// Pods of Kubernetes as replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "connect/kubernetes/pods.h"
#include "core/result.h"
#include "gateway/options.h"
#include "net/loop.h"

namespace penstock::gateway {

struct PodOptions {
  std::string selector;      // Of labels; empty: no pods.
  std::string in_namespace;  // Empty: that of the kubeconfig or of this pod.
  std::string kubeconfig;    // Empty: KUBECONFIG, the service account of this pod, or ~/.kube/config.
  std::uint16_t port = 8000;
  bool operator==(const PodOptions&) const = default;
};

// Reads the files that the options lead to. Errors have `where` = the section of the options and the place in a file.
[[nodiscard]] core::Result<void> check_pod_options(const PodOptions& options);

// A pod that is ready serves, one that is not is warming, and one that terminates, or that a planner has marked, is
// draining. Pods without an address, and those that have ended, are no replicas.
[[nodiscard]] std::vector<ReplicaEndpoint> replicas_of(const std::map<std::string, connect::PodState>& pods,
                                                       std::uint16_t port);

// Follows the pods for as long as it lives. What was found stays while the API server cannot be reached.
class PodSource {
 public:
  struct Listener {
    std::function<void(std::vector<ReplicaEndpoint>)> found;  // The first time, and when something has changed.
    std::function<void(const std::string& error)> failed;     // Once until it is another error.
  };
  // Errors as check_pod_options().
  [[nodiscard]] static core::Result<std::unique_ptr<PodSource>> start(net::Loop& loop, const PodOptions& options,
                                                                      Listener listener);
  virtual ~PodSource() = default;
};

}  // namespace penstock::gateway
