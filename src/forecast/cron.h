// Scheduled floors: "from 8:00 on weekdays, for ten hours, at least 6 replicas". Times are Unix seconds that the caller
// passes; a fixed offset from UTC makes them local. Daylight saving time is not supported.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/result.h"
#include "core/time.h"

namespace penstock::forecast {

// Five fields as in crontab(5): minute 0-59, hour 0-23, day of month 1-31, month 1-12 or jan-dec, day of week 0-7 or
// sun-sat (0 and 7 are Sunday). A field is a list of `*`, `a`, `a-b`, each with an optional `/step`; `a/step` runs from
// a to the end. If both day fields are restricted (neither starts with `*`), a match of one of them suffices.
class CronSchedule {
 public:
  // Errors are one line and name the column, counted from 1. An expression that never occurs, such as 30 February, is
  // an error.
  [[nodiscard]] static core::Result<CronSchedule> parse(std::string_view text, core::Duration utc_offset = {});

  [[nodiscard]] bool matches(std::int64_t unix_s) const;  // Returns true if the minute of this second matches.
  // next() returns the first start after the timestamp, previous() the last one at or before it; empty beyond
  // kDaysSearched and the calendar.
  [[nodiscard]] std::optional<std::int64_t> next(std::int64_t unix_s) const;
  [[nodiscard]] std::optional<std::int64_t> previous(std::int64_t unix_s) const;

  // 29 February recurs within 8 years, also around a century without a leap day. Rarer schedules (29 February on a
  // Sunday) are not searched for, because floors and leads are shorter than that.
  static constexpr int kDaysSearched = 8 * 366;
  // Timestamps are limited to years 1 to 9999.
  static constexpr std::int64_t kUnixMin = -62'135'596'800;
  static constexpr std::int64_t kUnixMax = 253'402'300'799;

 private:
  CronSchedule() = default;
  [[nodiscard]] bool matches_day(std::int64_t day) const;  // Days since 1970-01-01, local time.

  std::int64_t offset_s_ = 0;
  std::uint64_t minutes_ = 0, hours_ = 0, days_ = 0, months_ = 0, weekdays_ = 0;  // Bit n represents value n.
  bool any_day_ = false, any_weekday_ = false;
};

struct ScheduledFloor {
  CronSchedule starts;
  core::Duration length{};     // Whole seconds, at most kFloorLengthMax.
  std::uint32_t replicas = 0;  // At least 1.

  // Returns true within [start, start + length) of any start.
  [[nodiscard]] bool active(std::int64_t unix_s) const;
};
inline constexpr core::Duration kFloorLengthMax = std::chrono::hours{24 * 366};
// Whether it is whole seconds from 1 minute to kFloorLengthMax.
[[nodiscard]] bool is_floor_length(core::Duration length);

// Errors: those of CronSchedule::parse, a length outside of 1 minute to kFloorLengthMax or not in whole seconds, zero
// replicas.
[[nodiscard]] core::Result<ScheduledFloor> make_floor(std::string_view cron, core::Duration utc_offset,
                                                      core::Duration length, std::uint32_t replicas);

// Returns the highest floor that is active at the timestamp or starts within `lead`, so that replicas that are ordered
// now are ready in time; 0 if there is none. A negative lead counts as 0; fractions of a second are rounded up.
[[nodiscard]] std::uint32_t floor_at(std::span<const ScheduledFloor> floors, std::int64_t unix_s,
                                     core::Duration lead = {});

}  // namespace penstock::forecast
