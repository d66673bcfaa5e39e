#include "simulation/input_share.h"

#include <cstddef>

#include "capacity/cost_share.h"

namespace penstock::simulation {
namespace {

capacity::EngineLimits limits_of(const PoolSpec& pool) {
  return {static_cast<double>(pool.engine.max_sequences), static_cast<double>(pool.engine.max_batched_tokens),
          static_cast<double>(pool.engine.kv_blocks) * pool.engine.block_tokens};
}

// Of the time of a replica, as below; a pool that completed nothing bears the mean of the others.
double share_of_pools(const FleetTotals& totals, const std::vector<PoolSpec>& pools, double otherwise) {
  double cost = 0.0, input_cost = 0.0;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const PoolTotals& pool = totals.pools[i];
    if (pool.completed == 0 || pool.prompt_tokens == 0 || pool.steps == 0 || pool.replica_time <= core::Duration{})
      continue;
    const auto completed = static_cast<double>(pool.completed), prompts = static_cast<double>(pool.prompt_tokens);
    const capacity::TrafficShape shape{prompts / completed, static_cast<double>(pool.generated_tokens) / completed,
                                       static_cast<double>(pool.hit_tokens) / prompts};
    const double in_a_step = static_cast<double>(pool.step_sequences) / static_cast<double>(pool.steps);
    const double sequences = in_a_step * core::to_seconds(pool.busy) / core::to_seconds(pool.replica_time);
    cost += pool.cost;
    input_cost += pool.cost * capacity::input_cost_share(*pools[i].step_time, shape, limits_of(pools[i]), sequences);
  }
  return cost > 0.0 ? input_cost / cost : otherwise;
}

}  // namespace

double share_of_input(const FleetTotals& totals, const decision::RunResult& result,
                      const std::vector<PoolSpec>& pools) {
  if (result.completed == 0 || result.mean_replicas <= 0.0 || result.duration_s <= 0.0) return result.input_cost_share;
  if (pools.front().role != signals::Role::kAggregated)
    return totals.cost > 0.0 ? totals.prefill_cost / totals.cost : result.input_cost_share;
  if (pools.size() > 1) return share_of_pools(totals, pools, result.input_cost_share);
  const auto completed = static_cast<double>(result.completed);
  const capacity::TrafficShape shape{static_cast<double>(result.completed_tokens.input) / completed,
                                     static_cast<double>(result.completed_tokens.output) / completed,
                                     result.prefix_hit_ratio};
  // By Little's law; waiting counts as decoding.
  const double sequences = completed * result.e2e_ms.mean / 1000.0 / result.duration_s / result.mean_replicas;
  return capacity::input_cost_share(*pools.front().step_time, shape, limits_of(pools.front()), sequences);
}

}  // namespace penstock::simulation
