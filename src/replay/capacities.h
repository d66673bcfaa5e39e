// Capacity of one replica of each pool, as given by the user or from a simulated load test.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "planner/policy.h"
#include "replay/setup.h"

namespace penstock::replay {

struct PoolCapacity {
  planner::ReplicaCapacity capacity;
  std::string note;  // A sentence about the source of the figures.
};

// Takes about 32 runs of 2,000 requests, unless all four figures are given. Errors: an SLO that even an idle replica
// does not meet.
[[nodiscard]] core::Result<PoolCapacity> find_capacity(const ReplaySetup& setup, std::size_t pool);

// The same without a load test, for a live planner, which has no traffic yet. Errors: missing figures that the policy
// needs. Figures that it does not need stay at 1 where they are not known.
[[nodiscard]] core::Result<PoolCapacity> known_capacity(const configuration::KnownCapacity& known,
                                                        std::string_view policy);

// The figures by the names of the configuration.
[[nodiscard]] std::vector<std::pair<std::string, double>> figures_of(const planner::ReplicaCapacity& capacity);

// Returns what llm-d's calibration measures: the speed of one prompt of 8,192 tokens on an idle engine, which has a
// step-time model.
[[nodiscard]] double idle_prompt_tokens_per_s(const simulation::PoolSpec& pool);

// Creates a policy of the planner's list with a capacity for each pool.
[[nodiscard]] core::Result<std::unique_ptr<decision::Policy>> make_policy_with(std::span<const PoolCapacity> capacities,
                                                                               std::string_view name,
                                                                               const simulation::RunOptions& options);

}  // namespace penstock::replay
