// Publishes engine telemetry over ZeroMQ: one message per iteration (FPM), and KV cache events.
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
  // Binds the sockets that the options request.
  [[nodiscard]] static core::Result<Telemetry> open(const ServerOptions& options);
  Telemetry(Telemetry&&) noexcept;
  ~Telemetry();

  // `wall_per_time` is the number of wall-clock seconds per engine second.
  void iterations(std::span<const IterationRecord> records, double wall_per_time);
  void heartbeat(const engine::EngineState& state);
  void cache_events(std::vector<telemetry::KvEvent> events, double unix_seconds);

  [[nodiscard]] bool publishes_iterations() const { return iterations_ != nullptr; }
  [[nodiscard]] std::string fpm_endpoint() const;  // Empty if disabled.
  [[nodiscard]] std::string kv_events_endpoint() const;

 private:
  Telemetry();

  std::string worker_;
  std::uint64_t counter_ = 0;
  std::unique_ptr<connect::Publisher> iterations_, events_;
};

}  // namespace penstock::engine_server
