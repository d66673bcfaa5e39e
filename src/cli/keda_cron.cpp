#include "cli/keda_cron.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <chrono>
#include <optional>
#include <vector>

#include "forecast/cron.h"
#include "options/scalars.h"

namespace penstock::cli {
namespace {

using deployment::CronTrigger;
using WeekDays = std::bitset<7>;  // From Sunday.

constexpr std::uint32_t kCronReplicasMax = 1'000'000;
constexpr std::int64_t kMinutesOfDay = 24 * 60, kSecondsOfDay = 86'400;
constexpr std::int64_t kSunday = 3 * kSecondsOfDay;  // 4 January 1970.

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_by(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (const std::string_view part = without_spaces(text.substr(begin, end - begin));
        !part.empty() || separator != ' ')
      parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

bool is_timezone(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '/' || c == '_' || c == '+' || c == '-';
  });
}

// What KEDA's parser accepts, too, which has no day 7.
core::Result<std::string> check_expression(std::string_view text) {
  const auto schedule = forecast::CronSchedule::parse(text);
  if (!schedule) return core::invalid_input({}, "is refused: " + schedule.error().message());
  const std::vector<std::string_view> fields = split_by(text, ' ');
  if (fields.size() == 5 && fields[4].find('7') != std::string_view::npos)
    return core::invalid_input({},
                               fmt::format("has the schedule \"{}\", and KEDA's days of the week are 0 to 6", text));
  return std::string{text};
}

// "Etc/GMT-2" for +02:00: the signs of these names are reversed.
std::optional<std::string> timezone_of(core::Duration utc_offset) {
  const auto hours = std::chrono::duration_cast<std::chrono::hours>(utc_offset);
  if (hours != utc_offset || hours < std::chrono::hours{-12} || hours > std::chrono::hours{14}) return std::nullopt;
  return hours.count() == 0 ? "Etc/UTC" : fmt::format("Etc/GMT{:+}", -hours.count());
}

WeekDays week_days_of(std::string_view field) {
  WeekDays days;
  const auto schedule = forecast::CronSchedule::parse(fmt::format("0 0 * * {}", field));
  for (std::size_t day = 0; schedule && day < days.size(); ++day)
    days[day] = schedule->matches(kSunday + static_cast<std::int64_t>(day) * kSecondsOfDay);
  return days;
}

// "1-5" or "0,2,6".
std::string week_days_text(WeekDays days) {
  if (days.all()) return "*";
  std::vector<std::size_t> all;
  for (std::size_t day = 0; day < days.size(); ++day)
    if (days[day]) all.push_back(day);
  if (all.size() > 2 && all.back() - all.front() == all.size() - 1)
    return fmt::format("{}-{}", all.front(), all.back());
  return fmt::format("{}", fmt::join(all, ","));
}

// Days from a start to the next one, at least.
std::int64_t shortest_gap(WeekDays days) {
  std::int64_t shortest = 7;
  for (std::size_t day = 0; day < 7; ++day)
    for (std::size_t later = 1; days[day] && later < 7; ++later)
      if (days[(day + later) % 7]) shortest = std::min(shortest, static_cast<std::int64_t>(later));
  return shortest;
}

WeekDays moved(WeekDays days, std::int64_t by) {
  WeekDays made;
  for (std::size_t day = 0; day < 7; ++day)
    if (days[day]) made.set((day + static_cast<std::size_t>(by % 7)) % 7);
  return made;
}

}  // namespace

core::Result<CronTrigger> parse_cron_trigger(std::string_view text) {
  constexpr const char* kExample = "as 'Europe/Berlin; 0 8 * * 1-5; 0 18 * * 1-5; 6'";
  const std::vector<std::string_view> parts = split_by(text, ';');
  if (parts.size() != 4) return core::invalid_input({}, "must be TIMEZONE; START; END; REPLICAS", kExample);
  CronTrigger made;
  made.timezone = parts[0];
  if (!is_timezone(made.timezone))
    return core::invalid_input({}, "needs the name of a timezone before the first ';'", kExample);
  for (const auto& [part, field] : {std::pair{parts[1], &made.start}, {parts[2], &made.end}}) {
    auto good = check_expression(part);
    if (!good) return tl::make_unexpected(good.error());
    *field = *std::move(good);
  }
  if (made.start == made.end) return core::invalid_input({}, "starts and ends at the same time", kExample);
  const auto replicas = options::parse_count(parts[3], 1, kCronReplicasMax);
  if (!replicas) return core::invalid_input({}, "needs a number of replicas above 0 after the last ';'", kExample);
  made.replicas = static_cast<std::uint32_t>(*replicas);
  return made;
}

core::Result<CronTrigger> cron_trigger_of(std::string_view cron, core::Duration length, core::Duration utc_offset,
                                          std::uint32_t replicas) {
  if (const auto good = forecast::CronSchedule::parse(cron); !good) return core::invalid_input({}, good.error().what);
  const std::vector<std::string_view> fields = split_by(cron, ' ');
  if (fields.size() != 5) return core::invalid_input({}, "its fields are not separated by spaces");
  const auto timezone = timezone_of(utc_offset);
  if (!timezone) return core::invalid_input({}, "an offset from UTC that is not whole hours is not a timezone");
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(length);
  if (minutes != length) return core::invalid_input({}, "the length is not whole minutes");
  const auto minute = options::parse_count(fields[0], 0, 59), hour = options::parse_count(fields[1], 0, 23);
  if (!minute || !hour) return core::invalid_input({}, "it has several starts a day");
  const bool any_date = fields[2] == "*" && fields[3] == "*", any_week_day = fields[4] == "*";
  if (fields[2] != "*" && !any_week_day)
    return core::invalid_input({}, "it has days of the month and days of the week");

  const WeekDays days = week_days_of(fields[4]);
  const auto end = static_cast<std::int64_t>(*hour * 60 + *minute) + minutes.count();
  const std::int64_t days_later = end / kMinutesOfDay;
  if (days_later > 0 && !any_date)
    return core::invalid_input({}, "it ends on another day than it starts, and has days of the month or months");
  if (minutes.count() >= shortest_gap(days) * kMinutesOfDay)
    return core::invalid_input({}, "it starts again before it ends");
  const auto expression = [&](std::int64_t at, WeekDays on) {
    return fmt::format("{} {} {} {} {}", at % 60, at / 60 % 24, fields[2], fields[3], week_days_text(on));
  };
  return CronTrigger{*timezone, expression(static_cast<std::int64_t>(*hour * 60 + *minute), days),
                     expression(end, moved(days, days_later)), replicas};
}

}  // namespace penstock::cli
