// Conversion of counts to smaller integers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::telemetry {

// Returns the maximum if the count does not fit.
[[nodiscard]] constexpr std::uint32_t saturated(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, UINT32_MAX));
}

}  // namespace penstock::telemetry
