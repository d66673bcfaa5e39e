// Floors by the calendar: "from 8:00 on weekdays, for ten hours, at least 6 replicas". Times are Unix seconds that the
// caller passes; a fixed offset from UTC makes them local. There is no daylight saving time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/result.h"
#include "core/time.h"

namespace penstock::forecast {

// Five fields, as in crontab(5): minute 0-59, hour 0-23, day of month 1-31, month 1-12 or jan-dec, day of week 0-7 or
// sun-sat (0 and 7 are Sunday). A field is a list of `*`, `a`, `a-b`, each with an optional `/step`; `a/step` runs from
// a to the end. Where both days are restricted (neither begins with `*`), one of them is enough.
class CronSchedule {
 public:
  // Errors are one line and name the column, counted from 1. An expression that never occurs (30 February) is one.
  [[nodiscard]] static core::Result<CronSchedule> parse(std::string_view text, core::Duration utc_offset = {});

  [[nodiscard]] bool matches(std::int64_t unix_s) const;  // the minute of this second
  // The first start later than the moment, the last one not later than it. None beyond kDaysSearched and the calendar.
  [[nodiscard]] std::optional<std::int64_t> next(std::int64_t unix_s) const;
  [[nodiscard]] std::optional<std::int64_t> previous(std::int64_t unix_s) const;

  // 29 February is 8 years away at most, around a century without a leap day. What is further away (a Sunday that is a
  // 29 February) is not looked for: no floor is that long, and no lead.
  static constexpr int kDaysSearched = 8 * 366;
  // Moments are kept within years 1 to 9999.
  static constexpr std::int64_t kUnixMin = -62'135'596'800;
  static constexpr std::int64_t kUnixMax = 253'402'300'799;

 private:
  CronSchedule() = default;
  [[nodiscard]] bool matches_day(std::int64_t day) const;  // days since 1970-01-01, local

  std::int64_t offset_s_ = 0;
  std::uint64_t minutes_ = 0, hours_ = 0, days_ = 0, months_ = 0, weekdays_ = 0;  // bit n: value n
  bool any_day_ = false, any_weekday_ = false;
};

struct ScheduledFloor {
  CronSchedule starts;
  core::Duration length{};     // whole seconds, at most kFloorLengthMax
  std::uint32_t replicas = 0;  // at least 1

  [[nodiscard]] bool active(std::int64_t unix_s) const;  // in [start, start + length) of any start
};
inline constexpr core::Duration kFloorLengthMax = std::chrono::hours{24 * 366};

// Errors: those of CronSchedule::parse, a length outside of 1 minute to kFloorLengthMax or not in whole seconds, no replica.
[[nodiscard]] core::Result<ScheduledFloor> make_floor(std::string_view cron, core::Duration utc_offset,
                                                      core::Duration length, std::uint32_t replicas);

// The greatest floor that is active at the moment or becomes so within `lead`, so that replicas ordered now are ready
// when it begins; 0 when there is none. A negative lead is none; a part of a second counts as a whole one.
[[nodiscard]] std::uint32_t floor_at(std::span<const ScheduledFloor> floors, std::int64_t unix_s,
                                     core::Duration lead = {});

}  // namespace penstock::forecast
