// Fleets, routers, policies, faults, tenants, budgets and workloads drawn from a seed. Every run checks the invariants
// after each event: each request ends once, delivered tokens equal the ledger and the exported metrics, budgets balance
// and are exceeded by one request at most, limits hold, and no replica with open work is stopped. PENSTOCK_SEEDS=N runs
// so many seeds, and PENSTOCK_FIRST_SEED=N begins with another one: both repeat a failure.
#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  std::uint64_t value = otherwise;
  if (text != nullptr) std::from_chars(text, text + std::string_view{text}.size(), value);
  return value;
}

core::Duration seconds(core::RandomStream& random, std::uint64_t most) {
  return std::chrono::milliseconds{1 + random.below(1000 * most)};
}

dispatch::DispatchOptions random_gateway(core::RandomStream& random) {
  dispatch::DispatchOptions made;
  const char* const names[] = {"a", "b", "c"};
  for (std::uint64_t i = random.below(4); i-- > 0;) {
    dispatch::Tenant& tenant = made.tenants.emplace_back();
    tenant.name = names[i];
    tenant.weight = 0.5 + random.uniform() * 4.0;
    tenant.tier = static_cast<std::int32_t>(random.below(2));
    if (random.below(2) == 0) tenant.budget = {1000.0 + random.uniform() * 200'000.0, random.uniform() * 20'000.0};
    if (random.below(4) == 0) tenant.reserve = admission::Reserve::kExpected;
    if (random.below(2) == 0) tenant.over_budget = dispatch::OverBudget::kQueue;
    if (random.below(3) == 0) tenant.concurrent = static_cast<std::uint32_t>(1 + random.below(20));
    if (random.below(3) == 0)
      tenant.overload = static_cast<admission::OverloadAction>(random.below(admission::kOverloadActions));
  }
  made.max_tokens_default = static_cast<std::uint32_t>(1 + random.below(4'000));
  made.models.push_back({"model", {random.uniform(), random.uniform(), random.uniform()}});
  made.interactive.queue_time = seconds(random, 20);
  made.batch.queue_time = seconds(random, 100);
  if (random.below(3) == 0) made.batch.budget = {1000.0 + random.uniform() * 100'000.0, 0.0};
  made.queue.requests = static_cast<std::uint32_t>(1 + random.below(200));
  made.queue.requests_per_tenant = static_cast<std::uint32_t>(1 + random.below(100));
  made.pressure.prefill_tokens_per_replica = 100 + random.below(20'000);
  if (core::RandomStream deferral = random.fork("deferral"); deferral.below(2) == 0)
    made.batch.completion_window = seconds(deferral, 200);
  for (dispatch::ClassOptions* each : {&made.interactive, static_cast<dispatch::ClassOptions*>(&made.batch)}) {
    each->overload = static_cast<admission::OverloadAction>(random.below(admission::kOverloadActions));
    each->degrade = {1000 + random.below(100'000), static_cast<std::uint32_t>(1 + random.below(300))};
  }
  made.retries = static_cast<std::uint32_t>(random.below(5));
  if (random.below(3) == 0) made.first_byte_timeout = seconds(random, 10);
  if (random.below(3) == 0) made.stream_idle_timeout = seconds(random, 10);
  if (random.below(4) == 0) made.interactive.time_budget = seconds(random, 10);
  if (random.below(4) == 0) made.batch.time_budget = seconds(random, 30);
  return made;
}

FaultEvent random_event(core::RandomStream& random, const std::vector<PoolSpec>& pools) {
  FaultEvent made;
  made.kind = static_cast<FaultKind>(random.below(6));
  made.at = seconds(random, 20);
  if (random.below(4) != 0 || made.kind == FaultKind::kHang) made.length = seconds(random, 20);
  if (random.below(2) == 0) made.replica = static_cast<std::uint32_t>(1 + random.below(6));
  if (random.below(3) == 0) made.pool = pools[random.below(pools.size())].name;
  made.factor = 1.0 + random.uniform() * 5.0;
  return made;
}

RunOptions random_options(core::RandomStream& random, std::uint64_t seed) {
  const auto count = [&] { return static_cast<std::uint32_t>(1 + random.below(5)); };
  RunOptions made =
      random.below(3) == 0 ? testing::disaggregated(count(), count()) : testing::options(testing::pool(count()));
  for (PoolSpec& pool : made.pools) {
    pool.max_replicas = 8;
    pool.start_up = seconds(random, 20);
    if (random.below(2) == 0) pool.warm_up = pool.start_up / 2;
    pool.engine.kv_blocks = static_cast<std::uint32_t>(60 + random.below(1000));
  }
  made.router = static_cast<routing::Strategy>(random.below(5));
  if (random.below(2) == 0) made.dispatch = random_gateway(random);
  Faults& faults = made.faults;
  if (random.below(2) == 0) faults.crashes_per_replica_hour = random.uniform() * 200.0;
  if (random.below(3) == 0) faults.refused_actions = random.uniform();
  if (random.below(3) == 0) faults.telemetry_loss = random.uniform();
  if (random.below(3) == 0) faults.telemetry_delay = seconds(random, 10);
  if (random.below(3) == 0) faults.cache_event_delay = seconds(random, 5);
  if (random.below(3) == 0) {
    faults.cancelled_requests = random.uniform();
    faults.cancelled_after = seconds(random, 5);
  }
  for (std::uint64_t i = random.below(4); i-- > 0;) faults.events.push_back(random_event(random, made.pools));
  faults.start_up_spread = random.uniform();
  if (random.below(2) == 0) made.life_cycle.take_back = true;
  if (random.below(3) == 0) made.life_cycle.drain_deadline = seconds(random, 20);
  if (random.below(3) == 0) made.life_cycle.start_deadline = seconds(random, 60);
  made.kv_transfer_bytes_per_s = random.below(2) == 0 ? 1e8 : 50e9;
  for (PoolSpec& pool : made.pools) {
    if (random.below(2) != 0) continue;
    pool.wake_time = seconds(random, 5);
    pool.min_asleep = static_cast<std::uint32_t>(random.below(5));
  }
  if (random.below(2) == 0)
    for (PoolSpec& pool : made.pools) pool.switch_time = seconds(random, 5);
  if (core::RandomStream zero = random.fork("zero"); zero.below(3) == 0) {
    for (PoolSpec& pool : made.pools) pool.min_replicas = 0;
    if (made.dispatch) made.dispatch->interactive.cold_start_queue_time = seconds(zero, 60);
  }
  made.seed = seed;
  made.check_each_event = true;
  return made;
}

workload::Workload random_traffic(core::RandomStream& random) {
  workload::Workload made = testing::random_workload(static_cast<std::uint32_t>(20 + random.below(150)),
                                                     1.0 + random.uniform() * 40.0, random.below(1u << 30));
  made.tenants = {"a", "b", "c"};
  for (workload::Request& request : made.requests) {
    request.tenant = static_cast<std::uint32_t>(random.below(3));
    if (random.below(3) == 0) request.traffic_class = workload::TrafficClass::kBatch;
    if (random.below(4) == 0) request.session = static_cast<std::uint32_t>(random.below(10));
  }
  return made;
}

// What two runs of one seed must agree on.
std::string figures(const decision::RunResult& result) {
  std::string text;
  for (const double value : {result.ttft_ms.mean, result.itl_ms.mean, result.e2e_ms.max, result.gpu_hours, result.cost,
                             result.queue_wait_ms.mean, result.prefix_hit_ratio})
    text += std::to_string(value) + " ";
  for (const std::uint64_t value : {result.completed, result.failed, result.waited, result.retried, result.clamped,
                                    result.preemptions, result.scaling_actions})
    text += std::to_string(value) + " ";
  for (const auto& tenant : result.tenants) text += tenant.name + std::to_string(tenant.output_tokens) + " ";
  return text;
}

decision::RunResult run_seed(std::uint64_t seed) {
  core::RandomStream random = core::RandomStream{seed}.fork("random world");
  const RunOptions run_options = random_options(random, seed);
  const workload::Workload workload = random_traffic(random);
  core::RandomStream targets = random.fork("targets");
  testing::Scripted policy{[&](const signals::Observation& seen, std::size_t pool) {
    const std::uint32_t least = seen.pools[pool].min_replicas;
    return static_cast<std::uint32_t>(least + targets.below(6));
  }};
  const auto result = run(workload, policy, run_options);
  EXPECT_TRUE(result.has_value());
  EXPECT_EQ(result->completed + result->failed, workload.requests.size());
  return *result;
}

TEST(RandomWorld, HoldsItsInvariants) {
  const std::uint64_t first = setting("PENSTOCK_FIRST_SEED", 1), seeds = setting("PENSTOCK_SEEDS", 200);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE("repeat with PENSTOCK_FIRST_SEED=" + std::to_string(seed) + " PENSTOCK_SEEDS=1");
    const decision::RunResult result = run_seed(seed);
    if (seed % 10 != 0) continue;
    EXPECT_EQ(figures(result), figures(run_seed(seed)));
  }
}

}  // namespace
}  // namespace penstock::simulation
