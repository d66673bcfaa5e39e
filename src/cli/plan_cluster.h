// What several planners of one fleet share in Kubernetes: a Lease and the state of the policy.
#pragma once

#include <memory>
#include <string>

#include "connect/kubernetes/event_writer.h"
#include "controller/leader_election.h"
#include "controller/policy_store.h"
#include "core/result.h"
#include "core/time.h"
#include "logging/log.h"
#include "net/client.h"
#include "net/loop.h"
#include "options/table.h"

namespace penstock::cli {

struct ClusterOptions {
  std::string lease;  // NAMESPACE/NAME; empty: this planner is the only one.
  core::Duration lease_duration = std::chrono::seconds{10};
  std::string state_config_map;  // NAMESPACE/NAME; empty: none.
};

void add_cluster(options::Table& table, ClusterOptions& made);

// The planner's events of Kubernetes.
[[nodiscard]] core::Result<std::unique_ptr<connect::EventWriter>> open_events(const std::string& identity,
                                                                              const std::string& kubeconfig,
                                                                              net::Loop& loop, net::Client& client,
                                                                              logging::Log& log);
// A Lease is configured. All arguments must outlive the election.
[[nodiscard]] core::Result<std::unique_ptr<controller::LeaderElection>> open_leader_election(
    const ClusterOptions& options, const std::string& identity, const std::string& kubeconfig, net::Loop& loop,
    net::Client& client, connect::EventWriter& events, logging::Log& log);
// Null if no ConfigMap is configured. That of one of several deployments is called NAME-DEPLOYMENT. `leadership` may
// be null.
[[nodiscard]] core::Result<std::shared_ptr<controller::PolicyStore>> open_state_config_map(
    const ClusterOptions& options, const std::string& deployment, const std::string& kubeconfig,
    const controller::Leadership* leadership, net::Loop& loop, net::Client& client, logging::Log& log);

}  // namespace penstock::cli
