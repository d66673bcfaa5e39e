// Progress of a run, printed once per second.
#pragma once

#include <string>

#include "core/time.h"
#include "load/tally.h"

namespace penstock::load {

struct LiveState {
  core::Duration elapsed{}, planned{};  // `planned` is zero if unknown.
  std::uint32_t in_flight = 0;
  bool at_limit = false;
  double cpu_share = 0.0;  // During the last second.
};

// Returns a block of kLiveLines lines of at most 100 columns, which replaces the previous block on the terminal.
inline constexpr int kLiveLines = 4;
[[nodiscard]] std::string render_live(const LiveState& state, const Tally& tally);
// The same as one line, for output that is not a terminal.
[[nodiscard]] std::string render_progress(const LiveState& state, const Tally& tally);

}  // namespace penstock::load
