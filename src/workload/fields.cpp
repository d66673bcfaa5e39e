#include "workload/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <system_error>

#include "core/digits.h"

namespace penstock::workload {
namespace {

constexpr std::size_t kShownBytesMax = 60;

bool all_digits(std::string_view text) { return std::all_of(text.begin(), text.end(), core::is_digit); }

std::string without_controls(std::string_view text) {
  std::string clean{text.substr(0, kShownBytesMax)};
  for (char& c : clean)
    if (c < ' ' || c > '~') c = '?';
  if (text.size() > kShownBytesMax) clean += "...";
  return clean;
}

// Parses digits[.digits], with the fraction in units of 10^-decimals; empty for other text or on overflow.
struct Decimal {
  std::uint64_t whole = 0, fraction = 0;
};
std::optional<Decimal> parse_decimal(std::string_view text, std::size_t decimals) {
  Decimal value;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value.whole);
  if (error != std::errc{}) return std::nullopt;
  if (after == end) return value;
  if (*after != '.') return std::nullopt;
  const std::string_view digits{after + 1, static_cast<std::size_t>(end - after - 1)};
  if (!all_digits(digits)) return std::nullopt;
  for (std::size_t i = 0; i < decimals; ++i)
    value.fraction = value.fraction * 10 + (i < digits.size() ? static_cast<std::uint64_t>(digits[i] - '0') : 0);
  return value;
}

// Parses any notation, for text that the exact parsers reject: exponents, signs, overflow. NaN and infinity are
// rejected.
std::optional<double> parse_number(std::string_view text) {
  double value = 0.0;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (after != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    if (text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos) return 0.0;
    return text.starts_with('-') ? -HUGE_VAL : HUGE_VAL;
  }
  if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
  return value;
}

struct UnitInfo {
  std::string_view name;
  std::uint64_t per_second;
  std::size_t decimals;  // Decimals of one unit that are whole nanoseconds.
};
UnitInfo info_of(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::kMilliseconds: return {"milliseconds", 1'000, 6};
    case TimeUnit::kMicroseconds: return {"microseconds", 1'000'000, 3};
    case TimeUnit::kNanoseconds: return {"nanoseconds", 1'000'000'000, 0};
    case TimeUnit::kSeconds: break;
  }
  return {"seconds", 1, 9};
}

// Removes `digits` digits from the front of `text`, for fixed-width date fields.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits || !all_digits(text.substr(0, digits))) return std::nullopt;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) value = value * 10 + (text[i] - '0');
  text.remove_prefix(digits);
  return value;
}
bool take(std::string_view& text, std::string_view one_of) {
  if (text.empty() || one_of.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// `word` is in lower case and consists of letters.
bool take_word(std::string_view& text, std::string_view word) {
  const auto same = [](char letter, char c) { return letter == (c | 0x20); };
  if (text.size() < word.size() || !std::equal(word.begin(), word.end(), text.begin(), same)) return false;
  text.remove_prefix(word.size());
  return true;
}
// Removes one or two digits.
std::optional<int> take_short_number(std::string_view& text) {
  return take_number(text, text.size() > 1 && core::is_digit(text[1]) ? 2 : 1);
}

std::optional<core::Duration> take_date(std::string_view& text, DateOrder order) {
  const bool year_first = order == DateOrder::kYearFirst, day_first = order == DateOrder::kDayFirst;
  const auto first = year_first ? take_number(text, 4) : take_short_number(text);
  const std::string_view separator = text.substr(0, 1);
  if (!first || !take(text, "-/.")) return std::nullopt;
  const auto second = year_first ? take_number(text, 2) : take_short_number(text);
  if (!second || !take(text, separator)) return std::nullopt;
  const auto third = take_number(text, year_first ? 2 : 4);
  if (!third) return std::nullopt;
  const int year = year_first ? *first : *third;
  const int month = year_first || day_first ? *second : *first;
  int day = day_first ? *first : *second;
  if (year_first) day = *third;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok() || year < 1970 || year > 2254) return std::nullopt;
  return std::chrono::sys_days{date}.time_since_epoch();
}

std::optional<core::Duration> take_fraction(std::string_view& text) {
  const auto length =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), core::is_digit) - text.begin());
  if (length == 0 || length > 9) return std::nullopt;
  std::int64_t fraction_ns = 0;
  for (std::size_t i = 0; i < 9; ++i) fraction_ns = fraction_ns * 10 + (i < length ? text[i] - '0' : 0);
  text.remove_prefix(length);
  return core::Duration{fraction_ns};
}

std::optional<core::Duration> take_time_of_day(std::string_view& text) {
  auto hour = take_short_number(text);
  if (!hour || *hour > 23 || !take(text, ":")) return std::nullopt;
  const auto minute = take_number(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  core::Duration past = std::chrono::minutes{*minute};
  if (take(text, ":")) {
    const auto second = take_number(text, 2);
    if (!second || *second > 59) return std::nullopt;
    past += std::chrono::seconds{*second};
    if (take(text, ".,")) {
      const auto fraction = take_fraction(text);
      if (!fraction) return std::nullopt;
      past += *fraction;
    }
  }
  std::string_view rest = trimmed(text);
  const bool pm = take_word(rest, "pm");
  if (pm || take_word(rest, "am")) {
    if (*hour < 1 || *hour > 12) return std::nullopt;
    hour = *hour % 12 + (pm ? 12 : 0);
    text = rest;
  }
  return past + std::chrono::hours{*hour};
}

std::optional<core::Duration> take_zone(std::string_view& text) {
  text = trimmed(text);
  if (text.empty() || take(text, "Zz") || take_word(text, "utc") || take_word(text, "gmt")) return core::Duration{};
  const bool west = text[0] == '-';
  if (!take(text, "+-")) return std::nullopt;
  const auto hours = take_number(text, 2);
  if (!hours || *hours > 23) return std::nullopt;
  take(text, ":");
  const auto past = text.empty() ? std::optional{0} : take_number(text, 2);
  if (!past || *past > 59) return std::nullopt;
  const core::Duration offset = std::chrono::hours{*hours} + std::chrono::minutes{*past};
  return west ? -offset : offset;
}

}  // namespace

std::string printable(std::string_view text) { return without_controls(text); }
std::string quoted_text(std::string_view text) { return '"' + without_controls(text) + '"'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

Parsed<std::uint32_t> parse_tokens(std::string_view column, std::string_view text, std::uint32_t min) {
  if (const auto exact = parse_decimal(text, 18); exact && exact->fraction == 0) {
    if (exact->whole < min)
      return wrong(fmt::format("{} is {}, must be at least {}", printable(column), exact->whole, min));
    if (exact->whole > kTokensMax)
      return wrong(fmt::format("{} is {}, must be at most {}", printable(column), exact->whole, kTokensMax));
    return static_cast<std::uint32_t>(exact->whole);
  }
  if (text.empty()) return wrong(fmt::format("{} is blank", printable(column)));
  const auto number = parse_number(text);
  if (number && *number < 0)
    return wrong(fmt::format("{} is {}, must be at least {}", printable(column), printable(text), min));
  if (number && *number > kTokensMax)
    return wrong(fmt::format("{} is {}, must be at most {}", printable(column), printable(text), kTokensMax));
  return wrong(fmt::format("{} {} is not a whole number", printable(column), quoted_text(text)));
}

Parsed<core::Duration> parse_time(std::string_view column, std::string_view text, TimeUnit unit) {
  const UnitInfo info = info_of(unit);
  const auto per_second = static_cast<std::int64_t>(info.per_second);
  if (const auto exact = parse_decimal(text, info.decimals); exact && exact->whole < kTimeMaxS * info.per_second) {
    const std::int64_t unit_ns = 1'000'000'000 / per_second;
    const auto whole = static_cast<std::int64_t>(exact->whole);
    const auto fraction_ns = static_cast<std::int64_t>(exact->fraction);
    return core::Duration{whole * unit_ns + fraction_ns};
  }
  if (text.empty()) return wrong(fmt::format("{} is blank", printable(column)));
  const auto number = parse_number(text);
  if (!number)
    return wrong(fmt::format("{} {} is not a number of {}", printable(column), quoted_text(text), info.name));
  if (*number < 0) return wrong(fmt::format("{} is {}, must be at least 0", printable(column), printable(text)));
  if (*number >= static_cast<double>(kTimeMaxS * per_second))
    return wrong(fmt::format("{} is {}, must be below {} {}", printable(column), printable(text),
                             kTimeMaxS * per_second, info.name));
  return core::from_seconds(*number / static_cast<double>(per_second));
}

Parsed<core::Duration> parse_date_time(std::string_view column, std::string_view text, DateOrder order) {
  if (text.empty()) return wrong(fmt::format("{} is blank", printable(column)));
  std::string_view rest = text;
  if (const auto date = take_date(rest, order); date && (take(rest, ",") ? take(rest, " ") : take(rest, " Tt")))
    if (const auto time = take_time_of_day(rest))
      if (const auto offset = take_zone(rest); offset && rest.empty() && *date + *time >= *offset)
        return *date + *time - *offset;
  return wrong(fmt::format("{} {} is not a date and time", printable(column), quoted_text(text)));
}

bool has_zone(std::string_view date_time) {
  constexpr std::size_t kDateBytes = 10;  // The hyphens of the date do not start a zone.
  return date_time.size() > kDateBytes && date_time.find_first_of("Zz+-", kDateBytes) != std::string_view::npos;
}

}  // namespace penstock::workload
