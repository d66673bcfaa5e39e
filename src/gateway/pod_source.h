// Pods of Kubernetes, and endpoints of a Service, as replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "connect/kubernetes/endpoint_slices.h"
#include "connect/kubernetes/inference_pool.h"
#include "connect/kubernetes/pods.h"
#include "core/result.h"
#include "gateway/options.h"
#include "net/loop.h"

namespace penstock::gateway {

struct PodOptions {
  std::string selector;   // Of labels; empty: no pods.
  std::string service;    // Whose EndpointSlices are followed; then pods only add roles, pools and marks of planners.
  std::string port_name;  // Of the Service's port; empty: its only port, or the one with the number `port`.
  std::string inference_pool;  // Whose pods and ports are followed; instead of selector and service.
  std::string inference_pool_group{connect::kInferencePoolGroup};
  std::string in_namespace;                  // Empty: that of the kubeconfig or of this pod.
  std::string kubeconfig;                    // Empty: KUBECONFIG, the service account of this pod, or ~/.kube/config.
  std::string pool_label = "penstock/pool";  // Its value is the pool of a pod; a pod without it is in "default".
  std::uint16_t port = 8000;
  std::vector<std::uint16_t> ports;  // Of each pod of the selector, each a replica; empty: `port` alone.
  [[nodiscard]] bool follows_any() const { return !selector.empty() || !service.empty() || !inference_pool.empty(); }
  bool operator==(const PodOptions&) const = default;
};

// Reads the kubeconfig that the options name, and the files that it leads to. Without one nothing is read, because the
// machine that runs the gateway decides which is used, and only that one may be in a cluster. Errors have `where` = the
// section of the options and the place in a file.
[[nodiscard]] core::Result<void> check_pod_options(const PodOptions& options);

// A pod that is ready serves, one that is not is warming, and one that terminates, or that a planner has marked, is
// draining. Pods without an address, and those that have ended, are no replicas. Of a group of a LeaderWorkerSet the
// leader is the replica; if the workers are among the pods, they must be ready, too. Of several ports each is a replica
// of its own, with the id "pod:port".
[[nodiscard]] std::vector<ReplicaEndpoint> replicas_of(const std::map<std::string, connect::PodState>& pods,
                                                       const PodOptions& options);

// The endpoints of all slices of a Service. One that terminates, or whose pod a planner has marked, is draining; one
// that is ready serves; others are warming. Its id is the name of its pod, or its address. An endpoint that is in
// several slices, for example with addresses of both families, is one replica.
[[nodiscard]] std::vector<ReplicaEndpoint> replicas_of(const std::map<std::string, connect::EndpointSlice>& slices,
                                                       const std::map<std::string, connect::PodState>& pods,
                                                       const PodOptions& options);

// Why there are no replicas, and what to do; empty: there are some.
[[nodiscard]] std::string missing_replicas(const std::map<std::string, connect::EndpointSlice>& slices,
                                           const PodOptions& options, const std::string& in_namespace);

// Follows the pods for as long as it lives. What was found stays while the API server cannot be reached.
class PodSource {
 public:
  struct Listener {
    std::function<void(std::vector<ReplicaEndpoint>)> found;  // The first time, and when something has changed.
    std::function<void(const std::string& error)> failed;     // Once until it is another error.
  };
  // Also an error: access to the cluster that is not there. Other errors as check_pod_options().
  [[nodiscard]] static core::Result<std::unique_ptr<PodSource>> start(net::Loop& loop, const PodOptions& options,
                                                                      Listener listener);
  virtual ~PodSource() = default;
};

}  // namespace penstock::gateway
