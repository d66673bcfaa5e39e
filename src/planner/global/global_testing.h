// For tests: short constructors of fleets, and access to figures of a plan by name.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/global/global_planner.h"

namespace penstock::planner::global::testing {

// A pool named like its hardware, whose replicas have equal capacity.
[[nodiscard]] inline Offer on(const std::string& hardware, std::uint32_t gpus_per_replica, ReplicaRange range,
                              double rps_per_replica) {
  return linear_offer({hardware, hardware, gpus_per_replica}, range, rps_per_replica);
}
// Requests/s by number of replicas, from 0.
[[nodiscard]] inline Offer by_curve(const std::string& hardware, const std::vector<double>& carried_rps) {
  Offer offer{{{hardware, hardware, 1}}, {}};
  for (std::uint32_t n = 0; n < carried_rps.size(); ++n) offer.steps.push_back({{n}, carried_rps[n]});
  return offer;
}
[[nodiscard]] inline Deployment deployment(std::string name, double demand_rps, std::vector<Offer> offers,
                                           int priority = 0, double weight = 1.0) {
  return {std::move(name), priority, weight, demand_rps, std::move(offers)};
}

[[nodiscard]] inline const PoolPlan& pool_in(const GlobalPlan& plan, const std::string& deployment,
                                             const std::string& pool) {
  for (const PoolPlan& entry : plan.pools)
    if (entry.deployment == deployment && entry.pool == pool) return entry;
  ADD_FAILURE() << "no pool " << deployment << "/" << pool;
  return plan.pools.front();
}
[[nodiscard]] inline std::uint32_t replicas_in(const GlobalPlan& plan, const std::string& deployment,
                                               const std::string& pool) {
  return pool_in(plan, deployment, pool).replicas;
}
[[nodiscard]] inline std::string limit_in(const GlobalPlan& plan, const std::string& deployment,
                                          const std::string& pool) {
  return to_string(pool_in(plan, deployment, pool).limited_by);
}
[[nodiscard]] inline double kept_in(const GlobalPlan& plan, const std::string& deployment) {
  for (const DeploymentPlan& entry : plan.deployments)
    if (entry.name == deployment) return entry.kept_rps;
  ADD_FAILURE() << "no deployment " << deployment;
  return 0.0;
}
[[nodiscard]] inline const ResourcePlan& resource_in(const GlobalPlan& plan, const std::string& name) {
  for (const ResourcePlan& entry : plan.resources)
    if (entry.name == name) return entry;
  ADD_FAILURE() << "no resource " << name;
  return plan.resources.front();
}
[[nodiscard]] inline std::vector<PoolReplicas> in_force(const GlobalPlan& plan) {
  std::vector<PoolReplicas> previous;
  for (const PoolPlan& pool : plan.pools) previous.push_back({pool.deployment, pool.pool, pool.replicas});
  return previous;
}
// The plan, which must exist.
[[nodiscard]] inline GlobalPlan planned(const std::vector<Deployment>& deployments,
                                        const std::vector<Hardware>& hardware, const Budget& budget,
                                        const Options& options = {}) {
  auto result = plan(deployments, hardware, budget, options);
  if (result) return *result;
  ADD_FAILURE() << result.error().message();
  return {};
}
[[nodiscard]] inline std::string error_of(const std::vector<Deployment>& deployments,
                                          const std::vector<Hardware>& hardware, const Budget& budget,
                                          const Options& options = {}) {
  const auto result = plan(deployments, hardware, budget, options);
  return result ? std::string{} : result.error().message();
}

}  // namespace penstock::planner::global::testing
