// Replicas that other systems run: the gateway lists them, and Penstock only observes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/dynamo_discovery.h"
#include "controller/engine_watch.h"
#include "controller/fleet.h"
#include "controller/worker_parts.h"

namespace penstock::controller {

struct ObservedFleetOptions {
  struct ObservedPool {
    signals::Role role = signals::Role::kAggregated;
    std::string name{};
  };
  std::vector<ObservedPool> pools;
  std::string model;  // replicas of other models are left out; empty: all models
  EngineWatchOptions engines{};
  std::optional<DynamoDiscovery::Source> dynamo{};    // Where Dynamo's workers behind a front end are found.
  std::string nats_server = "nats://127.0.0.1:4222";  // Of the subjects that Dynamo's discovery names.
};

// A replica of the model belongs to the pool with its role; of several aggregated pools, to the one that it names. A
// replica that the gateway does not list any more is
// gone.
//
// A replica with many workers counts as so many replicas, because a pool scales by workers. Each has its part of what
// the address reports, and its own forward pass metrics where they are known. Workers that Dynamo's discovery names
// belong to the first of Dynamo's front ends, by id; further front ends of the same fleet have none.
class ObservedFleet final : public Fleet {
 public:
  ObservedFleet(net::Loop& loop, net::Client& client, logging::Log& log, ObservedFleetOptions options);

  [[nodiscard]] bool acts() const override { return false; }
  void set_target(std::size_t, std::uint32_t) override {}
  void update_gateway(const GatewayState& state, core::Instant at) override;
  void recent_prompts(std::vector<std::uint32_t>) override {}
  void hot_prefixes(std::vector<GatewayPrefix>) override {}
  void fill(std::size_t pool, signals::PoolObservation& seen) const override;
  [[nodiscard]] std::vector<ReplicaView> replicas(std::size_t pool) const override;
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(
      std::uint32_t replica, std::optional<double> kv_bytes_per_token) const override;
  [[nodiscard]] const std::vector<FleetEvent>& events() const override { return events_.all(); }
  [[nodiscard]] std::size_t left_out() const override { return left_out_.size(); }

 private:
  struct Known {
    std::uint32_t number = 0;
    // Names and numbers of its workers, in order; without any, the replica is one engine.
    std::vector<std::pair<std::string, std::uint32_t>> workers;
    WorkerParts parts;            // Of its workers, in what the address reports.
    bool has_no_workers = false;  // Another front end has the workers of its fleet.
    std::size_t pool = 0;
    std::string url, phase, model;
    signals::ReplicaState state = signals::ReplicaState::kStarting;
    core::Instant since;
  };

  [[nodiscard]] std::vector<ObservedFleetOptions::ObservedPool>::const_iterator pool_of(
      const GatewayReplica& replica) const;
  [[nodiscard]] std::string no_pool_for(const GatewayReplica& replica) const;
  void report_left_out(std::map<std::string, std::string> left_out, core::Instant at);
  void set_workers(Known& known, const std::vector<std::string>& names);
  [[nodiscard]] std::vector<std::string> workers_of(const GatewayReplica& replica, bool is_front_end) const;
  void add_workers(const std::string& id, const Known& known, std::vector<ReplicaView>& views) const;
  [[nodiscard]] std::optional<std::string> front_end() const;

  ObservedFleetOptions options_;
  FleetEvents events_;
  EngineWatch watch_;
  std::uint32_t next_ = 1;
  std::map<std::string, Known> known_;           // By id.
  std::map<std::string, std::string> left_out_;  // Listed replicas that this planner does not scale: id to cause.
  connect::DynamoRecords records_;
  std::optional<DynamoDiscovery> discovery_;
};

}  // namespace penstock::controller
