// How hot prefixes are kept from growing cold in the caches that hold them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/time.h"

namespace penstock::routing {

// A prefix on one replica that is believed to hold it.
struct PrefixUse {
  std::uint32_t replica = 0;
  std::uint64_t prefix = 0;  // whatever names it for the caller
  std::uint64_t hits = 0;    // lately
  std::uint32_t tokens = 0;
  core::Instant used_at;  // by a user, on whichever replica
  core::Instant sent_at;  // to this one, by a user or as a ping
};

struct PingOptions {
  core::Duration idle = std::chrono::minutes{2};  // on a replica, after which it is pinged there
  core::Duration hot = std::chrono::minutes{30};  // after the last use by a user; then it may go
  std::uint32_t per_replica = 2;                  // pings to one replica at one time
};

struct Ping {
  std::uint32_t replica = 0;
  std::uint64_t prefix = 0;

  friend bool operator==(const Ping&, const Ping&) = default;
};

// The pings that are due now, by replica, those that save most (hits · tokens) first. One that is left for lack of room is
// due again.
[[nodiscard]] std::vector<Ping> pings_due(std::span<const PrefixUse> uses, const PingOptions& options,
                                          core::Instant now);

}  // namespace penstock::routing
