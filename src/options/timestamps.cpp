#include "options/timestamps.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>

#include "options/scalars.h"

namespace penstock::options {
namespace {

constexpr int kYearMin = 1970, kYearMax = 2199;
constexpr core::Duration kOffsetMin = -std::chrono::hours{12};
constexpr core::Duration kOffsetMax = std::chrono::hours{14};

// Removes the next `digits` digits from `text` and returns their value; returns -1 if there are fewer.
int take_digits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return -1;
  int number = 0;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return -1;
    number = number * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// Reads a fraction such as ".5", which is half a second. The fraction may be absent.
bool take_fraction(std::string_view& text, core::Duration& fraction) {
  fraction = {};
  if (!take(text, '.')) return true;
  std::int64_t unit = 1'000'000'000;
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && digits < 9) {
    unit /= 10;
    fraction += core::Duration{(text[digits++] - '0') * unit};
  }
  text.remove_prefix(digits);
  return digits > 0;
}

}  // namespace

core::Result<core::Duration> parse_timestamp(std::string_view text) {
  const auto refuse = [&](std::string hint) {
    return core::invalid_input({}, "must be a timestamp such as 2024-05-13T08:00:00Z, is " + quote(text),
                               std::move(hint));
  };
  std::string_view rest = text;
  const int year = take_digits(rest, 4);
  const bool dash = take(rest, '-');
  const int month = take_digits(rest, 2);
  const bool second_dash = take(rest, '-');
  const int day = take_digits(rest, 2);
  const bool letter = take(rest, 'T');
  const int hour = take_digits(rest, 2);
  const bool colon = take(rest, ':');
  const int minute = take_digits(rest, 2);
  const bool second_colon = take(rest, ':');
  const int second = take_digits(rest, 2);
  core::Duration fraction{};
  if (year < 0 || !dash || month < 0 || !second_dash || day < 0 || !letter || hour < 0 || !colon || minute < 0 ||
      !second_colon || second < 0 || !take_fraction(rest, fraction))
    return refuse({});
  if (rest != "Z") return refuse("write it in UTC, with a Z at the end");
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok()) return refuse("there is no such day");
  if (hour > 23 || minute > 59 || second > 59) return refuse("there is no such time of day");
  if (year < kYearMin || year > kYearMax) return refuse(fmt::format("years are from {} to {}", kYearMin, kYearMax));
  return std::chrono::sys_days{date}.time_since_epoch() + std::chrono::hours{hour} + std::chrono::minutes{minute} +
         std::chrono::seconds{second} + fraction;
}

std::string format_timestamp(core::Duration since_1970) {
  const auto days = std::chrono::floor<std::chrono::days>(since_1970);
  const std::chrono::year_month_day date{std::chrono::sys_days{days}};
  const std::chrono::hh_mm_ss time{since_1970 - days};
  std::string text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                                 static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                                 time.hours().count(), time.minutes().count(), time.seconds().count());
  if (time.subseconds().count() > 0) text += fmt::format(".{:09}", time.subseconds().count());
  return text + "Z";
}

core::Result<core::Duration> parse_utc_offset(std::string_view text) {
  const auto refuse = [&] {
    return core::invalid_input(
        {}, "must be an offset from UTC in whole minutes such as +02:00, from -12:00 to +14:00, is " + quote(text));
  };
  if (text == "Z") return core::Duration{};
  std::string_view rest = text;
  const bool negative = take(rest, '-');
  if (!negative) static_cast<void>(take(rest, '+'));
  core::Duration offset{};
  if (rest.find(':') != std::string_view::npos) {
    const int hours = take_digits(rest, 2);
    const bool colon = take(rest, ':');
    const int minutes = take_digits(rest, 2);
    if (hours < 0 || !colon || minutes < 0 || minutes > 59 || !rest.empty()) return refuse();
    offset = std::chrono::hours{hours} + std::chrono::minutes{minutes};
  } else {
    const auto parsed = parse_duration(rest);
    if (!parsed) return refuse();
    offset = *parsed;
  }
  if (negative) offset = -offset;
  if (offset < kOffsetMin || offset > kOffsetMax || offset % std::chrono::minutes{1} != core::Duration{})
    return refuse();
  return offset;
}

std::string format_utc_offset(core::Duration offset) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(offset < core::Duration{} ? -offset : offset);
  return fmt::format("{}{:02}:{:02}", offset < core::Duration{} ? '-' : '+', minutes.count() / 60,
                     minutes.count() % 60);
}

}  // namespace penstock::options
