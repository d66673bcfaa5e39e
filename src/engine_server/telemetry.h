// What the engine publishes over ZeroMQ: a message for each iteration (FPM), and what its prefix cache gains and loses.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "engine_server/options.h"
#include "engine_server/session.h"

namespace penstock::connect {
class Publisher;
}

namespace penstock::engine_server {

class Telemetry {
 public:
  // Binds what the options ask for.
  [[nodiscard]] static core::Result<Telemetry> open(const ServerOptions& options);
  Telemetry(Telemetry&&) noexcept;
  ~Telemetry();

  // `wall_per_time`: seconds of the wall in one of the engine's.
  void iterations(std::span<const IterationRecord> records, double wall_per_time);
  void heartbeat(const engine::EngineState& state);
  void cache_events(std::vector<telemetry::KvEvent> events, double unix_seconds);

  [[nodiscard]] bool publishes_iterations() const { return iterations_ != nullptr; }
  [[nodiscard]] std::string fpm_endpoint() const;  // empty: off
  [[nodiscard]] std::string kv_events_endpoint() const;

 private:
  Telemetry();

  std::string worker_;
  std::uint64_t counter_ = 0;
  std::unique_ptr<connect::Publisher> iterations_, events_;
};

}  // namespace penstock::engine_server
