// What one replica of each pool carries: as the user knows it, or from a load test in simulation.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "planner/policy.h"
#include "replay/setup.h"

namespace penstock::replay {

struct PoolCapacity {
  planner::ReplicaCapacity capacity;
  std::string note;  // a sentence on where the figures come from
};

// Whether a policy of this name asks for the capacity.
[[nodiscard]] bool needs_capacity(std::string_view policy);

// Takes about 32 runs of 2,000 requests, unless all four figures are given. Errors: an SLO that one replica
// cannot keep even when it has nothing else to do.
[[nodiscard]] core::Result<PoolCapacity> find_capacity(const ReplaySetup& setup, std::size_t pool);

// The same without a load test: live there is no traffic yet to do one with. Errors: figures that are missing,
// where the policy needs any.
[[nodiscard]] core::Result<PoolCapacity> known_capacity(const configuration::KnownCapacity& known,
                                                        std::string_view policy);

// A policy of the planner's list, with a capacity for each pool.
[[nodiscard]] core::Result<std::unique_ptr<decision::Policy>> make_policy_with(std::span<const PoolCapacity> capacities,
                                                                               std::string_view name,
                                                                               const simulation::RunOptions& options);

}  // namespace penstock::replay
