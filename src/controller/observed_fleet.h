// Replicas that others run: the gateway knows them, and Penstock only looks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/engine_watch.h"
#include "controller/fleet.h"

namespace penstock::controller {

struct ObservedFleetOptions {
  std::vector<signals::Role> pools;
  std::string model;                            // replicas of others are left out; empty: none is
  std::shared_ptr<net::TlsContext> tls;         // for engines behind https
  std::function<void(const std::string&)> say;  // what somebody should look at, as it happens; empty: nobody listens
};

// A replica of the model belongs to the first pool with its role. What the gateway does not name any more is gone.
class ObservedFleet final : public Fleet {
 public:
  ObservedFleet(net::Loop& loop, net::Client& client, ObservedFleetOptions options);

  [[nodiscard]] bool acts() const override { return false; }
  void want(std::size_t, std::uint32_t) override {}
  void gateway_says(const GatewayState& state, core::Instant at) override;
  void recent_prompts(std::vector<std::uint32_t>) override {}
  void hot_prefixes(std::vector<GatewayPrefix>) override {}
  void fill(std::size_t pool, signals::PoolObservation& seen) const override;
  [[nodiscard]] std::vector<ReplicaView> replicas(std::size_t pool) const override;
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(std::uint32_t replica,
                                                                 double kv_bytes_per_token) const override {
    return watch_.tokens_of(replica, kv_bytes_per_token);
  }
  [[nodiscard]] const std::vector<FleetEvent>& events() const override { return events_; }

 private:
  struct Known {
    std::uint32_t number = 0;
    std::size_t pool = 0;
    std::string url, phase;
    signals::ReplicaState state = signals::ReplicaState::kStarting;
    core::Instant since;
  };
  void tell(core::Instant at, bool warning, std::string text);

  ObservedFleetOptions options_;
  EngineWatch watch_;
  std::uint32_t next_ = 1;
  std::map<std::string, Known> known_;  // by id
  std::vector<FleetEvent> events_;
};

}  // namespace penstock::controller
