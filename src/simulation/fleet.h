// Pools of replicas: their engines, life-cycle stages and cost.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actuation/advance.h"
#include "core/random.h"
#include "dispatch/dispatcher.h"
#include "engine/engine.h"
#include "planner/global/shared_budget.h"
#include "signals/observation.h"
#include "signals/request_meter.h"
#include "simulation/recorder.h"
#include "simulation/run.h"

namespace penstock::simulation {

struct Replica {
  std::uint32_t id = 0;
  std::uint32_t pool = 0;
  std::uint32_t slot = 0;  // Slot in the dispatcher.
  // Derived from the stage that actuation::advance() set.
  signals::ReplicaState state = signals::ReplicaState::kStarting;
  core::Instant requested_at, state_since;
  bool healthy = false;                           // The engine answers.
  std::uint64_t drain_order = 0;                  // Order in which draining replicas began to drain.
  bool reported_idle = false;                     // The dispatcher knows that the engine is idle.
  bool listed = false;                            // The dispatcher knows the replica, and `slot` is valid.
  bool switching = false;                         // Until the engine has its new role.
  bool engine_asleep = false;                     // Until the engine has woken up.
  std::optional<core::Instant> asleep_since;      // From the request to sleep to the request to wake up.
  core::Duration asleep_time{};                   // Of earlier sleeps.
  bool warm = false;                              // The warm-up prompts were answered.
  std::unique_ptr<engine::Engine> engine;         // Null once the replica has ended.
  core::Instant link_free_at;                     // Transfers from one replica are sequential.
  core::Instant hung_since, hung_until;           // The latest hang.
  std::deque<signals::EngineSample> on_its_way;   // Delayed telemetry, oldest first.
  std::optional<signals::EngineSample> reported;  // The latest telemetry that the planner received.

  [[nodiscard]] bool alive() const { return engine != nullptr; }
  // Its engine has requests, or may get them.
  [[nodiscard]] bool is_in_use() const {
    return state == signals::ReplicaState::kReady || state == signals::ReplicaState::kDraining;
  }
  [[nodiscard]] bool is_hung(core::Instant now) const { return now < hung_until; }
};

struct Pool {
  PoolSpec spec;
  std::uint32_t target = 0;
  std::uint32_t asleep_target = 0;
  std::vector<std::uint32_t> replicas;   // Ids of living replicas, oldest first.
  std::uint64_t generated_by_ended = 0;  // Tokens of replicas that ended.
  signals::RequestMeter meter;
  std::uint64_t actions_failed = 0;  // Refused scale requests, and replicas that died while starting.
};

// Figures of the ended replicas of one pool.
struct PoolTotals {
  double cost = 0.0;
  std::uint64_t completed = 0;  // Requests.
  std::uint64_t prompt_tokens = 0, hit_tokens = 0, generated_tokens = 0;
  std::uint64_t steps = 0, step_sequences = 0;  // Iterations, and the sequences that got a token in each.
  core::Duration busy{}, replica_time{};        // Of iterations, and of replicas that are not asleep.
};

// Figures of ended replicas.
struct FleetTotals {
  core::Duration gpu_time{};  // Σ GPUs × (end − request), of ended replicas; time asleep counts by its price.
  double cost = 0.0;
  double prefill_cost = 0.0;                     // The part of prefill pools.
  core::Duration replica_time{}, asleep_time{};  // Of replicas that are not asleep, and of those that are.
  std::uint64_t preemptions = 0, prompt_tokens = 0, hit_tokens = 0, generated_tokens = 0;
  core::QuantileSketch token_gaps_ms;
  std::uint32_t peak_replicas = 0;
  std::uint64_t switches = 0;  // Replicas that took the role of the other pool.
  std::vector<PoolTotals> pools;
};

class Fleet {
 public:
  // The dispatcher learns of every replica from its start to its end.
  Fleet(const RunOptions& options, const std::string& model, dispatch::Dispatcher& dispatcher,
        core::RandomStream random);

  [[nodiscard]] std::vector<Pool>& pools() { return pools_; }
  [[nodiscard]] std::vector<planner::global::PoolCounts> pool_counts() const;
  // Grows whenever pool_counts() may have changed: each change is followed by advance().
  [[nodiscard]] std::uint64_t looks() const { return looks_; }
  // There are several aggregated pools.
  [[nodiscard]] bool has_pool_rules() const {
    return pools_.size() > 1 && pools_.front().spec.role == signals::Role::kAggregated;
  }
  // The dispatcher's number of the pool.
  [[nodiscard]] std::uint32_t rule_of(std::uint32_t pool) const { return has_pool_rules() ? pool : 0; }
  // Whether an engine of each pool that the request needs can ever hold it; of several aggregated pools, of one.
  [[nodiscard]] bool can_serve(const workload::Request& request) const;
  [[nodiscard]] bool fits_all(const workload::Request& request) const;  // An engine of each pool can hold it.
  // The living replicas that the event concerns.
  [[nodiscard]] std::vector<std::uint32_t> concerned_by(const FaultEvent& event) const;
  // Ids begin with 1.
  [[nodiscard]] Replica& replica(std::uint32_t id) { return replicas_[id - 1]; }

  // The replicas of the start of the run, which serve or sleep at once. Returns their number.
  std::uint32_t add_ready(core::Instant now);

  // Moves every replica to the next stage that its engine, its open requests and the targets of the pools allow. The
  // caller takes the steps with the functions below, and calls again until no step is returned.
  [[nodiscard]] std::vector<actuation::Step> advance(core::Instant now);
  // When the pool starts its next replica, if it waits after a crash.
  [[nodiscard]] std::optional<core::Instant> next_start(std::uint32_t pool) const;

  // Names all replicas and their phases to the dispatcher.
  void publish(core::Instant now);

  // The steps. start() returns the time from now until the replica is ready.
  core::Duration start(std::uint32_t id, core::Instant now);
  void drain(std::uint32_t id, core::Instant now);
  // The engine discards its KV cache, and the dispatcher forgets the replica.
  void sleep(std::uint32_t id, core::Instant now);
  // Returns the time from now until the engine is awake.
  core::Duration wake(std::uint32_t id, core::Instant now);
  // The engine begins anew in the pool whose role the replica takes. Returns the time from now until it serves there.
  core::Duration switch_role(std::uint32_t id, core::Instant now);
  // The engine ends: it was stopped or crashed.
  void end(std::uint32_t id, core::Instant now);

  [[nodiscard]] std::uint32_t count(std::uint32_t pool, signals::ReplicaState state) const;
  // Without those that start up in order to sleep.
  [[nodiscard]] std::uint32_t count_asleep(std::uint32_t pool) const;

  // Replicas of the other role that drain in order to serve in this pool.
  [[nodiscard]] std::uint32_t count_switching(std::uint32_t pool) const;

  [[nodiscard]] std::uint64_t generated_tokens(std::uint32_t pool, core::Instant now) const;  // since the start
  // `waiting`: requests at the gateway.
  [[nodiscard]] FleetSnapshot snapshot(core::Instant now, std::uint32_t waiting) const;
  [[nodiscard]] FleetTotals totals(core::Instant end) const;  // as if all ended then
  // totals() leaves out what was before `now`.
  void begin_scoring(core::Instant now);

 private:
  void begin_engine(Replica& replica, core::Instant now);
  Replica& add(std::uint32_t id, std::uint32_t pool, core::Instant now);
  void add_ready(std::uint32_t pool, actuation::Stage stage, core::Instant now);
  [[nodiscard]] std::vector<actuation::Seen> look(core::Instant now) const;
  [[nodiscard]] std::uint32_t pool_named(const std::string& name) const;
  void settle(const Replica& replica, core::Instant end, FleetTotals& totals) const;

  const RunOptions& options_;
  std::string model_;
  dispatch::Dispatcher& dispatcher_;
  core::RandomStream random_;
  std::vector<Pool> pools_;
  actuation::FleetState state_;
  std::uint64_t drains_ = 0;
  std::uint64_t looks_ = 0;
  std::vector<Replica> replicas_;  // by id, without gaps
  FleetTotals ended_, unscored_;
  std::uint32_t awake_ = 0;
};

}  // namespace penstock::simulation
