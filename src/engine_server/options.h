// Options of `penstock engine`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/time.h"
#include "engine/step_time.h"
#include "engine_server/session.h"
#include "signals/observation.h"

namespace penstock::engine_server {

// Injected faults, for tests of gateways.
enum class Fault : std::uint8_t {
  kNone,
  kHang,     // Accepts connections and requests, but neither answers nor generates.
  kGarbage,  // Answers requests with bytes that are not HTTP.
  kSlow,     // Everything takes longer.
  kCrash,    // The process ends at once.
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0 selects a free port.
  std::string
      // Address for decode engines; empty means `host`, or 127.0.0.1 if that is a wildcard address.
      advertised_host;
  std::string id = "engine";
  std::string model_name = "penstock-sim";
  std::string version = "0";
  std::string api_key;  // Empty means no authentication.
  signals::Role role = signals::Role::kAggregated;

  SessionOptions session;
  std::shared_ptr<const engine::StepTimeModel> step_time;
  core::Duration start_up{};
  core::Duration wake_time{};    // From a request to wake up until the engine serves; it falls asleep at once.
  core::Duration switch_time{};  // From a request to change the role until the engine has it.
  double speed = 1.0;            // Speed of the engine's clock, including start-up and transfers.
  std::uint32_t max_queue = 1024;
  core::Duration drain_timeout = std::chrono::seconds{300};  // Wall-clock time.

  std::optional<std::uint16_t> fpm_port, kv_events_port;  // Empty means off; 0 selects a free port.

  double kv_bytes_per_token = 131'072.0;  // KV bytes that a real engine would transfer per token.
  double kv_bytes_per_s = 50e9;           // Bandwidth of a real transfer; the two values determine the transfer time.
  std::uint32_t kv_wire_bytes_per_token = 64;  // Bytes that are actually sent per token in that time.
  // Wall-clock time after which KV that was not fetched is released.
  core::Duration kv_hold_time = std::chrono::seconds{60};

  Fault fault = Fault::kNone;
  std::uint64_t fault_after = 0;  // Number of requests that are served before the fault.
  double slow_factor = 1.0;       // Slowdown factor from the start, or with kSlow from the fault on.
};

}  // namespace penstock::engine_server
