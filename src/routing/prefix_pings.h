// Selects the hot prefixes that are sent again to keep them in the caches of their replicas.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/time.h"

namespace penstock::routing {

// A prefix on one replica that is expected to hold it.
struct PrefixUse {
  std::uint32_t replica = 0;
  std::uint64_t prefix = 0;  // Identifier that the caller chooses.
  std::uint64_t hits = 0;    // Recent cache hits.
  std::uint32_t tokens = 0;
  core::Instant used_at;  // Last use by a user on any replica.
  core::Instant sent_at;  // Last time the prefix was sent to this replica by a user or as a ping.
};

struct PingOptions {
  // A prefix that was not sent to a replica for this time is pinged there.
  core::Duration idle = std::chrono::minutes{2};
  core::Duration hot = std::chrono::minutes{30};  // Pings end this long after the last use by a user.
  std::uint32_t per_replica = 2;                  // Maximum number of concurrent pings per replica.
};

struct Ping {
  std::uint32_t replica = 0;
  std::uint64_t prefix = 0;

  friend bool operator==(const Ping&, const Ping&) = default;
};

// Returns the pings that are due now, ordered by replica and then by savings (hits · tokens), largest first. A ping
// that exceeds the limit of its replica stays due.
[[nodiscard]] std::vector<Ping> pings_due(std::span<const PrefixUse> uses, const PingOptions& options,
                                          core::Instant now);

}  // namespace penstock::routing
