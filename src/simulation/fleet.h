// Pools of replicas: how they start, serve, drain, crash, and what they cost.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "core/random.h"
#include "engine/engine.h"
#include "routing/router.h"
#include "signals/observation.h"
#include "simulation/recorder.h"
#include "simulation/run.h"

namespace penstock::simulation {

struct Replica {
  std::uint32_t id = 0;
  std::uint32_t pool = 0;
  std::uint32_t slot = 0;  // in the pool's router
  signals::ReplicaState state = signals::ReplicaState::kStarting;
  core::Instant requested_at, state_since, ended_at;
  std::unique_ptr<engine::Engine> engine;        // gone once stopped or crashed
  core::Instant link_free_at;                    // transfers from one replica follow each other
  std::deque<signals::EngineSample> on_its_way;  // telemetry, oldest first, until its delay is over
  std::optional<signals::EngineSample> heard;    // what the planner last heard of it

  [[nodiscard]] bool alive() const {
    return state == signals::ReplicaState::kStarting || state == signals::ReplicaState::kReady ||
           state == signals::ReplicaState::kDraining;
  }
};

struct Pool {
  PoolSpec spec;
  std::uint32_t target = 0;
  routing::Router router;
  std::vector<std::uint32_t> replicas;    // ids of the living, oldest first
  std::vector<std::uint32_t> replica_at;  // by slot of the router
  std::vector<std::uint32_t> free_slots;
  std::vector<std::uint32_t> unrouted;   // requests that wait for a ready replica
  std::uint64_t generated_by_ended = 0;  // tokens from replicas that are gone
  TrafficMeter meter;
  std::uint64_t actions_failed = 0;  // scale requests refused, and replicas that died while starting
};

// What ended replicas leave behind.
struct FleetTotals {
  core::Duration gpu_time{};  // Σ GPUs × (end − request), of ended replicas
  double cost = 0.0;
  core::Duration replica_time{};
  std::uint64_t preemptions = 0, prompt_tokens = 0, hit_tokens = 0, generated_tokens = 0;
  core::QuantileSketch token_gaps_ms;
  std::uint32_t peak_replicas = 0;
};

class Fleet {
 public:
  Fleet(const RunOptions& options, core::RandomStream random);

  [[nodiscard]] std::vector<Pool>& pools() { return pools_; }
  [[nodiscard]] Replica& replica(std::uint32_t id) { return replicas_[id]; }

  // A replica that is asked for now; it is ready after the returned time.
  struct Started {
    std::uint32_t id;
    core::Duration start_up;
  };
  Started start(std::uint32_t pool, core::Instant now, bool ready_at_once);
  void make_ready(std::uint32_t id, core::Instant now);
  void drain(std::uint32_t id, core::Instant now);
  void end(std::uint32_t id, core::Instant now, signals::ReplicaState state);

  // The replicas to give up when `count` must go: those that start, newest first, then the ready ones with the fewest open
  // requests.
  [[nodiscard]] std::vector<std::uint32_t> victims(std::uint32_t pool, std::uint32_t count) const;
  [[nodiscard]] std::uint32_t count(std::uint32_t pool, signals::ReplicaState state) const;

  [[nodiscard]] std::uint64_t generated_tokens(std::uint32_t pool, core::Instant now) const;  // since the start
  [[nodiscard]] FleetSnapshot snapshot(core::Instant now) const;
  [[nodiscard]] FleetTotals totals(core::Instant end) const;  // as if all ended then

 private:
  void settle(const Replica& replica, core::Instant end, FleetTotals& totals) const;

  const RunOptions& options_;
  core::RandomStream random_;
  std::vector<Pool> pools_;
  std::vector<Replica> replicas_;
  FleetTotals ended_;
  std::uint32_t alive_ = 0;
};

}  // namespace penstock::simulation
