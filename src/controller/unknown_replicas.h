// Replicas to which a gateway routes, and that may be pods which the API server has not reported yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "connect/kubernetes/pod_groups.h"
#include "controller/gateway_feed.h"

namespace penstock::controller {

// Names of replicas to which the gateway routes and that are in the groups of no pool.
template <class Pools>
[[nodiscard]] std::vector<std::string> routed_without_pool(const std::map<std::string, GatewayReplica>& gateway,
                                                           const Pools& pools) {
  std::vector<std::string> names;
  for (const auto& [name, replica] : gateway)
    if (replica.eligible &&
        std::none_of(pools.begin(), pools.end(), [&](const auto& pool) { return pool->groups.contains(name); }))
      names.push_back(name);
  return names;
}

// Of one pool. The gateway may have replicas of other targets, too: while all pods of the pool are known, no other
// replica is one of them, and the same names never become some.
class UnknownReplicas {
 public:
  // `unknown`: as routed_without_pool() returns them.
  void follow(const std::vector<std::string>& unknown, bool knows_all_pods) {
    unknown_ = unknown;
    if (knows_all_pods) outsiders_.insert(unknown.begin(), unknown.end());
  }

  // How many of them may be pods of the pool: those with the model of its pods. Forgets those that have left.
  [[nodiscard]] std::uint32_t count(const std::map<std::string, GatewayReplica>& gateway,
                                    const std::map<std::string, connect::PodGroup>& pods) {
    std::erase_if(outsiders_, [&](const std::string& name) { return !gateway.contains(name); });
    const auto model_of = [&](const std::string& name) {
      const auto listed = gateway.find(name);
      return listed == gateway.end() ? std::string{} : listed->second.model;
    };
    std::set<std::string> models;
    for (const auto& [name, group] : pods) models.insert(model_of(name));
    models.erase(std::string{});
    return static_cast<std::uint32_t>(std::count_if(unknown_.begin(), unknown_.end(), [&](const std::string& name) {
      return gateway.contains(name) && !outsiders_.contains(name) &&
             (models.empty() || models.contains(model_of(name)));
    }));
  }

 private:
  std::vector<std::string> unknown_;
  std::set<std::string> outsiders_;
};

}  // namespace penstock::controller
