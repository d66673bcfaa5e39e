// The state of the fleet on disk, so that a planner that was killed continues where it stopped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actuation/fleet_state.h"
#include "core/result.h"
#include "core/time.h"

namespace penstock::connect {

// One point in time on two clocks. An Instant has no meaning in another process; the time since boot does, until the
// machine boots again.
struct Moment {
  core::Instant now;
  core::Duration since_boot{};  // Includes the time the machine was suspended.
  std::string boot;             // Boot id of the machine; empty if it is not known.
};
[[nodiscard]] Moment moment_at(core::Instant now);  // Reads the other two values from the machine.

inline constexpr std::uint64_t kFleetFileBytes = 64ULL * 1024 * 1024;

[[nodiscard]] std::string fleet_text(const actuation::FleetState& fleet, const Moment& moment);

// Instants are converted to those of the new process. If the machine has booted since, deadlines are kept as if no time
// had passed, and the replicas have no process, even if their process ids are in use again. Errors name the location in
// the file.
[[nodiscard]] core::Result<actuation::FleetState> read_fleet(std::string_view text, const std::string& file,
                                                             const Moment& moment);

// Saves atomically and flushes, so that the file survives a crash of the machine.
[[nodiscard]] core::Result<void> save_fleet(const std::string& path, const actuation::FleetState& fleet,
                                            core::Instant now);
// Returns nothing if no state was ever saved.
[[nodiscard]] core::Result<std::optional<actuation::FleetState>> load_fleet(const std::string& path, core::Instant now);

}  // namespace penstock::connect
