// Counts of others in fewer bits.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::telemetry {

// The most that fits, where it does not.
[[nodiscard]] constexpr std::uint32_t saturated(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, UINT32_MAX));
}

}  // namespace penstock::telemetry
