// Divides a budget of GPUs and money among deployments that each have a policy of their own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/global/global_planner.h"
#include "signals/observation.h"

namespace penstock::planner::global {

// A pool: what it has, and what the policy of its deployment proposes.
struct PoolClaim {
  std::string name;
  signals::Role role = signals::Role::kAggregated;
  std::string hardware;  // Kind of its GPUs; empty: a kind of its own, without a limit.
  std::uint32_t gpus_per_replica = 1;
  double price_per_gpu_hour = 0.0;
  std::uint32_t min_replicas = 0, max_replicas = 0;
  std::uint32_t proposed = 0;  // Limited to min and max.
  std::uint32_t target = 0;    // The last requested number.
  std::uint32_t running = 0;   // Starting, ready, or stuck in their start.
  std::uint32_t draining = 0;  // Also those that do not end.

  [[nodiscard]] std::uint32_t wanted() const {
    return std::clamp(proposed, min_replicas, std::max(min_replicas, max_replicas));
  }
};

// Any number of aggregated pools, or of pairs of one prefill and one decode pool in the order of `pools`.
struct DeploymentClaim {
  std::string name;     // Unique.
  int priority = 0;     // Priority class; higher classes are served first.
  double weight = 1.0;  // Weight within the class, > 0.
  std::vector<PoolClaim> pools;
};

struct DivisionLimits {
  Budget budget;
  std::vector<Hardware> hardware;  // Their stock; prices are those of the pools.
};

struct PoolGrant {
  std::uint32_t share = 0;   // Replicas that the division gives to the pool.
  std::uint32_t target = 0;  // Replicas that may be requested now: of a larger share, those whose GPUs are free.
};

// What one deployment has of a limited resource.
struct DeploymentUse {
  std::string deployment;
  int priority = 0;
  double used = 0.0;      // Of the replicas that it is granted, those beyond that it has or ordered, and draining ones.
  double draining = 0.0;  // The part that it is not granted.
};

struct ResourceUse {
  std::string name;  // "GPUs", "h100 GPUs", "USD per hour"
  double used = 0.0, available = 0.0;
  std::vector<DeploymentUse> deployments;  // Those that use it: higher classes first, then by use.
};

struct Division {
  std::vector<std::vector<PoolGrant>> grants;  // By deployment and pool.
  std::vector<ResourceUse> resources;          // Those with a limit.
  // The resource that keeps a pool from one replica more, by deployment and pool: its index, if there is one.
  std::vector<std::vector<std::optional<std::size_t>>> limiting;
};

using Shares = std::vector<std::vector<std::uint32_t>>;  // Replicas by deployment and pool.

// Divides the budget in two steps.
//
// Shares: where all proposals fit the limits, each pool gets its proposal. Otherwise plan() divides: the demand of a
// deployment is the GPUs that its policy proposes, of which each replica serves those that it has, so that a deployment
// never gets more than it proposes. A prefill and a decode pool keep the ratio of their proposals as far as whole
// replicas allow. `previous` are the shares of the last division, which plan() keeps if a change is not worth it; where
// it is empty, the targets take its place.
//
// Targets: a pool with a smaller share shrinks to it at once. A pool with a larger share grows only by replicas whose
// GPUs are free: not in use, not ordered, and not held by draining replicas. Free GPUs go to the highest class first,
// then to the pool that has the lowest part of its share.
//
// Minimums take precedence over the limits: a pool has at least its min_replicas. Otherwise the replicas that the
// targets add never exceed a limit. Shares of a smaller budget are not smaller for every pool, because whole replicas
// are chosen anew, but no class as a whole is served better by less.
[[nodiscard]] Division divide(const std::vector<DeploymentClaim>& claims, const DivisionLimits& limits,
                              const Options& options, const Shares& previous);

// What replicas that run or drain use of each resource with a limit.
[[nodiscard]] std::vector<ResourceUse> running_use(const std::vector<DeploymentClaim>& claims,
                                                   const DivisionLimits& limits);

// "limited by gpu_budget: 3 of 5 replicas; 16 of 16 GPUs used: chat 12 (priority 1), mail 4"; empty where the pool has
// what is proposed.
[[nodiscard]] std::string explain(const Division& division, const std::vector<DeploymentClaim>& claims,
                                  std::size_t deployment, std::size_t pool);

}  // namespace penstock::planner::global
