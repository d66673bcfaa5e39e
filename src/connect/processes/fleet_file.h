// The state of the fleet on disk, so that a planner that was killed goes on where it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actuation/fleet_state.h"
#include "core/result.h"
#include "core/time.h"

namespace penstock::connect {

// One moment on the two clocks that matter. An Instant means nothing to another process; the time since the machine
// booted does, until it boots again.
struct Moment {
  core::Instant now;
  core::Duration since_boot{};  // time asleep included
  std::string boot;             // names this boot; empty: nobody knows
};
[[nodiscard]] Moment moment_at(core::Instant now);  // asks the machine for the other two

inline constexpr std::uint64_t kFleetFileBytes = 64ULL * 1024 * 1024;

[[nodiscard]] std::string fleet_text(const actuation::FleetState& fleet, const Moment& moment);

// Instants are turned into those of the new process. After another boot no time has passed, as far as deadlines go, and
// the processes are gone: those replicas have none, whoever has their numbers now. Errors name the place.
[[nodiscard]] core::Result<actuation::FleetState> read_fleet(std::string_view text, const std::string& file,
                                                             const Moment& moment);

// Atomically and flushed: what was saved is there after a crash of the machine, too.
[[nodiscard]] core::Result<void> save_fleet(const std::string& path, const actuation::FleetState& fleet,
                                            core::Instant now);
// None: nothing was ever saved there.
[[nodiscard]] core::Result<std::optional<actuation::FleetState>> load_fleet(const std::string& path, core::Instant now);

}  // namespace penstock::connect
