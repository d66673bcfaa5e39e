// The replicas that a planner watches, and asks for where it may: processes of this machine, or what others run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/gateway_feed.h"
#include "core/time.h"
#include "signals/observation.h"
#include "telemetry/token_metrics.h"

namespace penstock::controller {

// What was done and seen, for people. Loud: somebody should look.
struct FleetEvent {
  core::Instant at;
  bool warning = false;
  std::string pool, text;
};

// One replica, for dashboards.
struct ReplicaView {
  std::string name, stage, url;  // stage: "starting", "serving", …
  core::Instant since;
  signals::ReplicaObservation seen;
};

// On one loop. Pools are numbered as in the planner's configuration.
class Fleet {
 public:
  virtual ~Fleet() = default;
  // Whether want() changes anything.
  [[nodiscard]] virtual bool acts() const = 0;
  virtual void want(std::size_t pool, std::uint32_t replicas) = 0;
  virtual void gateway_says(const GatewayState& state, core::Instant at) = 0;
  // For warm-up: what users send, and what many of them begin with.
  virtual void recent_prompts(std::vector<std::uint32_t> input_tokens) = 0;
  virtual void hot_prefixes(std::vector<GatewayPrefix> prefixes) = 0;
  // Replica counts, states and what the engines said; the target; failed actions.
  virtual void fill(std::size_t pool, signals::PoolObservation& seen) const = 0;
  [[nodiscard]] virtual std::vector<ReplicaView> replicas(std::size_t pool) const = 0;
  // Of a replica by its number; none: it is not heard.
  [[nodiscard]] virtual std::optional<telemetry::TokenFigures> tokens_of(std::uint32_t replica,
                                                                         double kv_bytes_per_token) const = 0;
  [[nodiscard]] virtual const std::vector<FleetEvent>& events() const = 0;
};

}  // namespace penstock::controller
