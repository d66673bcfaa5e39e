// Bands of prompt and output lengths, in tokens: used wherever latencies are split by length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::signals {

struct Band {
  std::uint32_t below;
  const char* label;
};
inline constexpr std::array<Band, 5> kPromptBands = {
    {{1024, "below 1k"}, {4096, "1k-4k"}, {16384, "4k-16k"}, {65536, "16k-64k"}, {UINT32_MAX, "64k and more"}}};
inline constexpr std::array<Band, 4> kOutputBands = {
    {{64, "below 64"}, {256, "64-256"}, {1024, "256-1k"}, {UINT32_MAX, "1k and more"}}};

template <std::size_t N>
[[nodiscard]] constexpr std::size_t band_of(const std::array<Band, N>& bands, std::uint32_t tokens) {
  std::size_t band = 0;
  while (band + 1 < N && tokens >= bands[band].below) ++band;
  return band;
}

}  // namespace penstock::signals
