// Schedules in the form of crontab(5): an error is one line and names its column, and what is accepted begins at
// moments that match, one after the other, whatever the moment that is asked about.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "forecast/cron.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  // The first byte says where on Earth the clock hangs, in steps of a quarter of an hour.
  const auto offset = std::chrono::minutes{size > 0 ? 15 * (data[0] % 113) - 14 * 60 : 0};
  const std::string_view text{reinterpret_cast<const char*>(data) + (size > 0 ? 1 : 0), size > 0 ? size - 1 : 0};

  const auto schedule = forecast::CronSchedule::parse(text, offset);
  const auto floor = forecast::make_floor(text, offset, std::chrono::hours{3}, 5);
  if (schedule.has_value() != floor.has_value()) std::abort();
  if (!schedule) {
    const std::string message = schedule.error().message();
    if (std::any_of(message.begin(), message.end(), [](char c) { return (c < ' ' && c != '\t') || c > '~'; }))
      std::abort();
    return 0;
  }
  constexpr std::array<std::int64_t, 6> kMoments = {INT64_MIN, -1, 0, 951'826'000, 1'772'784'000, INT64_MAX};
  for (const std::int64_t moment : kMoments) {
    const auto next = schedule->next(moment), previous = schedule->previous(moment);
    if (next && (!schedule->matches(*next) || *next % 60 != 0 || schedule->previous(*next) != *next)) std::abort();
    if (previous && !schedule->matches(*previous)) std::abort();
    if (moment == INT64_MIN || moment == INT64_MAX) continue;  // they are moved into the calendar
    if (next && *next <= moment) std::abort();
    if (previous && *previous > moment) std::abort();
    if (next && !floor->active(*next)) std::abort();
    if (next && forecast::floor_at({&*floor, 1}, *next - 90, std::chrono::seconds{90}) != 5) std::abort();
  }
  return 0;
}
