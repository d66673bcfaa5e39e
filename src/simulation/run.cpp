#include "simulation/run.h"

#include <algorithm>
#include <chrono>
#include <numeric>
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
  limits.unhealthy_drain_deadline = kUnlimited;
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

namespace {

// A workload as a world takes it: with the block size of the engines, and with arrivals that the world may set.
class PreparedWorkload {
 public:
  static core::Result<std::unique_ptr<PreparedWorkload>> make(const workload::Workload& workload,
                                                              const RunOptions& options) {
    if (auto checked = check(workload, options); !checked) return tl::make_unexpected(checked.error());
    auto made = std::make_unique<PreparedWorkload>();
    const std::uint32_t block_tokens = options.pools[0].engine.block_tokens;
    made->input_ = &workload;
    if (!workload.block_ids.empty() && workload.block_tokens != block_tokens) {
      auto converted = workload::reblock(workload, block_tokens);
      if (!converted) return tl::make_unexpected(converted.error());
      made->own_ = std::move(*converted);
      made->input_ = &made->own_;
    }
    if (!made->input_->waits.empty() && made->input_ == &workload) {
      made->own_ = workload;
      made->input_ = &made->own_;
    }
    return made;
  }
  [[nodiscard]] const workload::Workload& input() const { return *input_; }
  [[nodiscard]] workload::Workload* arrivals() { return &own_; }

 private:
  workload::Workload own_;
  const workload::Workload* input_ = nullptr;
};

}  // namespace

core::Result<decision::RunResult> run(const workload::Workload& workload, decision::Policy& policy,
                                      const RunOptions& options) {
  auto prepared = PreparedWorkload::make(workload, options);
  if (!prepared) return tl::make_unexpected(prepared.error());
  // The speed of the simulation is the one figure taken from the wall.
  const auto began = std::chrono::steady_clock::now();
  World world{(*prepared)->input(), policy, options, (*prepared)->arrivals()};
  world.begin();
  while (world.step()) continue;
  decision::RunResult result = world.finish();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (took.count() > 0.0) result.simulated_requests_per_s = static_cast<double>(result.requests) / took.count();
  return result;
}

namespace {

// Keeps the replicas of the worlds up to date.
class FleetWatch {
 public:
  FleetWatch(const std::vector<std::unique_ptr<World>>& worlds, SharedFleets* fleets) : fleets_(fleets) {
    if (fleets_ == nullptr) return;
    fleets_->replicas.clear();
    for (const auto& world : worlds) {
      fleets_->replicas.push_back(world->fleet().pool_counts());
      looks_.push_back(world->fleet().looks());
    }
    if (fleets_->changed) fleets_->changed(core::kStart);
  }
  void stepped(std::size_t index, const World& world, core::Instant now) {
    if (fleets_ == nullptr || world.fleet().looks() == looks_[index]) return;
    looks_[index] = world.fleet().looks();
    std::vector<planner::global::PoolCounts> counts = world.fleet().pool_counts();
    if (counts == fleets_->replicas[index]) return;
    fleets_->replicas[index] = std::move(counts);
    if (fleets_->changed) fleets_->changed(now);
  }

 private:
  SharedFleets* fleets_;
  std::vector<std::uint64_t> looks_;
};

}  // namespace

std::vector<planner::global::PoolClaim> pool_claims(const std::vector<PoolSpec>& pools) {
  std::vector<planner::global::PoolClaim> claims;
  for (const PoolSpec& spec : pools) {
    planner::global::PoolClaim& pool = claims.emplace_back();
    pool.name = spec.name;
    pool.role = spec.role;
    pool.hardware = spec.hardware;
    pool.gpus_per_replica = spec.gpus_per_replica;
    pool.price_per_gpu_hour = spec.price_per_gpu_hour;
    pool.min_replicas = spec.min_replicas;
    pool.max_replicas = spec.max_replicas;
    pool.proposed = pool.target = spec.replicas;
  }
  return claims;
}

core::Result<std::vector<decision::RunResult>> run_together(std::span<const SharedRun> runs, SharedFleets* fleets) {
  std::vector<std::unique_ptr<PreparedWorkload>> prepared;
  std::vector<std::unique_ptr<World>> worlds;
  for (const SharedRun& run : runs) {
    auto made = PreparedWorkload::make(*run.workload, *run.options);
    if (!made) return tl::make_unexpected(made.error());
    prepared.push_back(*std::move(made));
    worlds.push_back(
        std::make_unique<World>(prepared.back()->input(), *run.policy, *run.options, prepared.back()->arrivals()));
    worlds.back()->begin();
  }
  FleetWatch watch{worlds, fleets};
  std::vector<std::size_t> open(worlds.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  while (!open.empty()) {
    const auto next = std::min_element(open.begin(), open.end(), [&](std::size_t a, std::size_t b) {
      return worlds[a]->next_time() < worlds[b]->next_time();
    });
    const std::size_t index = *next;
    const core::Instant now = worlds[index]->next_time();
    if (!worlds[index]->step()) open.erase(next);
    watch.stepped(index, *worlds[index], now);
  }
  std::vector<decision::RunResult> results;
  for (const auto& world : worlds) results.push_back(world->finish());
  return results;
}

}  // namespace penstock::simulation
