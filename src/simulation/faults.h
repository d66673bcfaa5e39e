// What can go wrong in a simulated run. Everything that is random is drawn from the seed of the run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace penstock::simulation {

enum class FaultKind : std::uint8_t {
  kCrash,           // The engine ends with its open requests.
  kHang,            // The engine accepts requests and computes nothing; it answers no health check and no scrape.
  kSlow,            // Every step takes `factor` times longer.
  kGatewayRestart,  // All streams are cut, and the gateway forgets its state.
  kTruncate,        // The engine ends each stream after its first token.
  kMiscount,        // The engine reports false token counts. The seed of the run decides which, by replica.
};
// Returns "crash", "hang", "slow", "gateway_restart", "truncate" or "miscount".
[[nodiscard]] const char* to_string(FaultKind kind);

// A fault at a given time. It concerns the engine of one replica, those of one pool, or all. A replica that starts
// during the event is slow, too, but does not hang.
struct FaultEvent {
  FaultKind kind = FaultKind::kCrash;
  core::Duration at{};      // From the start of the run.
  core::Duration length{};  // 0: until the end of the run. A crash has none, and a gateway without it is back at once.
  std::uint32_t replica = 0;  // Number of the replica, from 1 in the order of their starts; 0: any.
  std::string pool{};         // Empty: any.
  double factor = 2.0;

  [[nodiscard]] core::Instant begin() const { return core::Instant{at}; }
  [[nodiscard]] core::Instant end() const { return length == core::Duration{} ? core::kNever : begin() + length; }
  [[nodiscard]] bool concerns(std::uint32_t number, std::string_view pool_name) const {
    return (replica == 0 || replica == number) && (pool.empty() || pool == pool_name);
  }
};

// All off by default.
struct Faults {
  core::Duration telemetry_delay{};    // An observation shows the engines as they were this long ago.
  double telemetry_loss = 0.0;         // Share of samples that never arrive; the policy then sees an older one.
  double telemetry_lie = 0.0;          // Share of samples whose queue and KV figures read zero.
  core::Duration cache_event_delay{};  // KV events reach the router this late.
  double crashes_per_replica_hour = 0.0;
  double start_up_spread = 0.0;     // Start-up times are drawn from start_up · [1, 1 + spread].
  double refused_actions = 0.0;     // Share of scale requests that the platform refuses.
  double cancelled_requests = 0.0;  // Share of requests whose client leaves …
  core::Duration cancelled_after = std::chrono::seconds{10};  // … after a time with this mean, if they are still open.
  std::vector<FaultEvent> events;
};

[[nodiscard]] bool is_active(const FaultEvent& event, FaultKind kind, std::uint32_t replica, std::string_view pool,
                             core::Instant now);
// Whether the replica ends its streams early at `now`.
[[nodiscard]] bool truncates(const Faults& faults, std::uint32_t replica, std::string_view pool, core::Instant now);
[[nodiscard]] bool has_miscounts(const Faults& faults);
// How many times longer the steps of a replica take at `now`: the product of the events that concern it.
[[nodiscard]] double slow_factor(const Faults& faults, std::uint32_t replica, std::string_view pool, core::Instant now);

}  // namespace penstock::simulation
