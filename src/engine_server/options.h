// What `penstock engine` is told.
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

// Ways to fail on purpose, for tests of what stands in front.
enum class Fault : std::uint8_t {
  kNone,
  kHang,     // takes connections and requests, answers nothing, generates nothing
  kGarbage,  // answers requests with bytes that are not HTTP
  kSlow,     // everything takes longer
  kCrash,    // the process ends at once
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any that is free
  std::string
      advertised_host;  // where decode engines find this one; empty: `host`, or 127.0.0.1 if that is any address
  std::string id = "engine";
  std::string model_name = "penstock-sim";
  std::string version = "0";
  std::string api_key;  // empty: everybody may ask
  signals::Role role = signals::Role::kAggregated;

  SessionOptions session;
  std::shared_ptr<const engine::StepTimeModel> step_time;
  core::Duration start_up{};
  double speed = 1.0;  // of the engine's time, start-up and transfers included
  std::uint32_t max_queue = 1024;
  core::Duration drain_timeout = std::chrono::seconds{300};  // of the wall

  std::optional<std::uint16_t> fpm_port, kv_events_port;  // none: off; 0: any that is free

  double kv_bytes_per_token = 131'072.0;                   // that a real engine would move …
  double kv_bytes_per_s = 50e9;                            // … at this speed: how long a transfer takes
  std::uint32_t kv_wire_bytes_per_token = 64;              // that are moved here in that time
  core::Duration kv_hold_time = std::chrono::seconds{60};  // of the wall: KV that nobody fetches is let go

  Fault fault = Fault::kNone;
  std::uint64_t fault_after = 0;  // requests that are served well before
  double slow_factor = 1.0;       // from the start, or with kSlow from then on
};

}  // namespace penstock::engine_server
