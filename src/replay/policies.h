// The policies of a replay, by their names.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "decision/policy.h"
#include "replay/capacities.h"
#include "replay/setup.h"
#include "replay/task_pool.h"

namespace penstock::replay {

[[nodiscard]] bool is_clairvoyant(std::string_view policy);
[[nodiscard]] bool is_penstock(std::string_view policy);

// The share of requests within the SLO that the policy plans for, `general` unless its name has a setting; empty if it
// plans for none.
[[nodiscard]] std::optional<double> goal_of(std::string_view policy, double general);

// The capacity of a replica of each pool, from load tests as far as it is not given. They have no notes, and nothing is
// tested, if no policy of the configuration needs them. Errors: those of find_capacity().
[[nodiscard]] core::Result<std::vector<PoolCapacity>> find_capacities(
    const ReplaySetup& setup, const std::function<void(const TaskProgress&)>& show);

// `options` have the goal of the policy. The setup outlives the policy.
[[nodiscard]] core::Result<std::unique_ptr<decision::Policy>> make_policy(const ReplaySetup& setup,
                                                                          std::span<const PoolCapacity> capacities,
                                                                          std::string_view name,
                                                                          const simulation::RunOptions& options);

}  // namespace penstock::replay
