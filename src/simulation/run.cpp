#include "simulation/run.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>

#include "simulation/world.h"
#include "workload/transform.h"

namespace penstock::simulation {

using signals::Role;

std::vector<dispatch::PoolRule> pool_rules(const std::vector<PoolSpec>& pools) {
  std::vector<dispatch::PoolRule> rules;
  for (const PoolSpec& pool : pools)
    if (pool.role == Role::kAggregated) rules.push_back({pool.serves, pool.name, pool.overflow});
  if (rules.size() < 2) rules.clear();
  return rules;
}

actuation::Limits simulated_life_cycle() {
  constexpr core::Duration kUnlimited = std::chrono::hours{24 * 365};
  actuation::Limits limits;
  limits.start_deadline = limits.warm_up_deadline = limits.drain_deadline = kUnlimited;
  limits.take_back = false;
  return limits;
}

namespace {

core::Result<void> check(const workload::Workload& workload, const RunOptions& options) {
  const auto& pools = options.pools;
  const bool aggregated =
      !pools.empty() && pools.size() <= dispatch::kPoolsMax &&
      std::all_of(pools.begin(), pools.end(), [](const PoolSpec& pool) { return pool.role == Role::kAggregated; });
  const bool disaggregated = pools.size() == 2 && pools[0].role != pools[1].role &&
                             pools[0].role != Role::kAggregated && pools[1].role != Role::kAggregated;
  if (!aggregated && !disaggregated)
    return core::invalid_input("pools", "a deployment has aggregated pools, or one prefill and one decode pool",
                               "give each pool its role");
  std::set<std::string_view> names;
  for (const PoolSpec& pool : pools)
    if (!names.insert(pool.name).second)
      return core::invalid_input("pools", "two pools are named " + pool.name, "give each pool its own name");
  for (const PoolSpec& pool : pools) {
    const std::string where = "pools." + pool.name;
    if (!pool.step_time) return core::invalid_input(where + ".engine", "has no step-time model");
    if (pool.min_replicas > pool.max_replicas || pool.replicas < pool.min_replicas || pool.replicas > pool.max_replicas)
      return core::invalid_input(where, "needs min replicas <= replicas <= max replicas, has " +
                                            std::to_string(pool.min_replicas) + ", " + std::to_string(pool.replicas) +
                                            ", " + std::to_string(pool.max_replicas));
    if (pool.engine.block_tokens == 0 || pool.engine.kv_blocks == 0 || pool.engine.max_sequences == 0)
      return core::invalid_input(where + ".engine", "block size, KV blocks and max sequences must be at least 1");
    if (pool.engine.max_batched_tokens < pool.engine.max_sequences)
      return core::invalid_input(where + ".engine", "max batched tokens (" +
                                                        std::to_string(pool.engine.max_batched_tokens) +
                                                        ") must be at least max sequences (" +
                                                        std::to_string(pool.engine.max_sequences) + ")");
    if (pool.engine.block_tokens != pools[0].engine.block_tokens)
      return core::invalid_input(where + ".engine", "all pools need the same block size");
  }
  if (workload.requests.empty()) return core::invalid_input("workload", "has no requests");
  if (!std::is_sorted(workload.requests.begin(), workload.requests.end(),
                      [](const auto& left, const auto& right) { return left.arrival < right.arrival; }))
    return core::invalid_input("workload", "its requests are not in the order of arrival");
  return {};
}

}  // namespace

RunOptions without_limits(RunOptions options) {
  options.faults = {};
  for (PoolSpec& pool : options.pools) pool.min_asleep = 0;  // The fleet never grows.
  options.dispatch.reset();
  if (options.router == routing::Strategy::kLive) options.router = routing::Strategy::kKv;
  return options;
}

core::Result<decision::RunResult> run(const workload::Workload& workload, decision::Policy& policy,
                                      const RunOptions& options) {
  if (auto checked = check(workload, options); !checked) return tl::make_unexpected(checked.error());
  const std::uint32_t block_tokens = options.pools[0].engine.block_tokens;
  workload::Workload reblocked;
  const workload::Workload* input = &workload;
  if (!workload.block_ids.empty() && workload.block_tokens != block_tokens) {
    auto converted = workload::reblock(workload, block_tokens);
    if (!converted) return tl::make_unexpected(converted.error());
    reblocked = std::move(*converted);
    input = &reblocked;
  }
  workload::Workload with_arrivals;
  if (!input->waits.empty()) {
    if (input == &workload)
      with_arrivals = workload;
    else
      with_arrivals = std::move(reblocked);
    input = &with_arrivals;
  }
  // The speed of the simulation is the one figure taken from the wall.
  const auto began = std::chrono::steady_clock::now();
  decision::RunResult result = World{*input, policy, options, &with_arrivals}.run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (took.count() > 0.0) result.simulated_requests_per_s = static_cast<double>(result.requests) / took.count();
  return result;
}

}  // namespace penstock::simulation
