// Replicas that other systems run: the gateway lists them, and Penstock only observes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/engine_watch.h"
#include "controller/fleet.h"

namespace penstock::controller {

struct ObservedFleetOptions {
  std::vector<signals::Role> pools;
  std::string model;  // replicas of other models are left out; empty: all models
  decltype(EngineWatchOptions::credentials) credentials{};
};

// A replica of the model belongs to the first pool with its role. A replica that the gateway does not list any more is
// gone.
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
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(std::uint32_t replica,
                                                                 double kv_bytes_per_token) const override {
    return watch_.tokens_of(replica, kv_bytes_per_token);
  }
  [[nodiscard]] const std::vector<FleetEvent>& events() const override { return events_.all(); }

 private:
  struct Known {
    std::uint32_t number = 0;
    std::size_t pool = 0;
    std::string url, phase;
    signals::ReplicaState state = signals::ReplicaState::kStarting;
    core::Instant since;
  };

  ObservedFleetOptions options_;
  FleetEvents events_;
  EngineWatch watch_;
  std::uint32_t next_ = 1;
  std::map<std::string, Known> known_;  // By id.
};

}  // namespace penstock::controller
