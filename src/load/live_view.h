// A run while it goes on, once a second.
#pragma once

#include <string>

#include "core/time.h"
#include "load/tally.h"

namespace penstock::load {

struct LiveState {
  core::Duration elapsed{}, planned{};  // planned: zero where it is not known
  std::uint32_t in_flight = 0;
  bool at_limit = false;
  double cpu_share = 0.0;  // of the last second
};

// A block of so many lines, each at most 100 columns wide, to be drawn over the one before.
inline constexpr int kLiveLines = 4;
[[nodiscard]] std::string render_live(const LiveState& state, const Tally& tally);
// The same as one line, for what is no terminal.
[[nodiscard]] std::string render_progress(const LiveState& state, const Tally& tally);

}  // namespace penstock::load
