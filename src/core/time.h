// Time as values. An Instant is nanoseconds since the start of a run (simulated) or of the process (live); no clock of
// the standard library has the same type, because Timeline has no now().
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>

namespace penstock::core {

using Duration = std::chrono::nanoseconds;
using Seconds = std::chrono::duration<double>;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct Timeline {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Timeline>;
};
using Instant = Timeline::time_point;

inline constexpr Instant kStart{};
inline constexpr Instant kNever = Instant::max();
inline constexpr Duration kMinute = std::chrono::minutes{1};

[[nodiscard]] inline Duration from_milliseconds(double milliseconds) {
  return Duration{std::llround(milliseconds * 1e6)};
}
[[nodiscard]] inline Duration from_seconds(double seconds) { return Duration{std::llround(seconds * 1e9)}; }
[[nodiscard]] constexpr double to_milliseconds(Duration duration) {
  return static_cast<double>(duration.count()) / 1e6;
}
[[nodiscard]] constexpr double to_seconds(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }
[[nodiscard]] constexpr double to_seconds(Instant instant) { return to_seconds(instant.time_since_epoch()); }
[[nodiscard]] constexpr double ratio(Duration part, Duration whole) {
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}
[[nodiscard]] constexpr double to_hours(Duration duration) { return to_seconds(duration) / 3600.0; }

}  // namespace penstock::core
