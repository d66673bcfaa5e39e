#include "workload/time_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "workload/columns.h"

namespace penstock::workload {
namespace {

constexpr std::array<std::string_view, kTimeFormats> kTimeFormatNames = {"auto", "s",   "ms",         "us",
                                                                         "ns",   "iso", "dd/mm/yyyy", "mm/dd/yyyy"};

struct Unit {
  TimeFormat format;
  std::string_view name;
  double seconds;
  double low, high;  // Times since 1970 from 1973 to 2286.
};
constexpr Unit kUnits[] = {{TimeFormat::kSeconds, "seconds", 1.0, 1e8, 1e10},
                           {TimeFormat::kMilliseconds, "milliseconds", 1e-3, 1e11, 1e13},
                           {TimeFormat::kMicroseconds, "microseconds", 1e-6, 1e14, 1e16},
                           {TimeFormat::kNanoseconds, "nanoseconds", 1e-9, 1e17, 1e19}};

std::optional<double> number_in(std::string_view text) {
  double number = 0.0;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || after != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

// The first values, for a message.
std::string shown(std::span<const std::string_view> texts) {
  std::vector<std::string> some;
  for (const std::string_view text : texts.first(std::min<std::size_t>(texts.size(), 3)))
    some.push_back(printable(text));
  return fmt::format("{}", fmt::join(some, ", "));
}

struct Numbers {
  std::vector<double> all;
  bool has_fraction = false;
  double low = 0.0, high = 0.0;
};
Numbers numbers_in(std::span<const std::string_view> texts) {
  Numbers numbers;
  for (const std::string_view text : texts)
    if (const auto number = number_in(text); number && *number >= 0.0) {
      numbers.all.push_back(*number);
      numbers.has_fraction = numbers.has_fraction || *number != std::floor(*number);
    }
  if (numbers.all.empty()) return numbers;
  const auto [low, high] = std::minmax_element(numbers.all.begin(), numbers.all.end());
  numbers.low = *low;
  numbers.high = *high;
  return numbers;
}

// The unit of which the numbers have the magnitude of times since 1970; null for smaller numbers.
const Unit* unit_since_1970(const Numbers& numbers) {
  for (const Unit& unit : kUnits)
    if (numbers.low >= unit.low && numbers.high < unit.high) return &unit;
  return nullptr;
}

double rate_in(const Unit& unit, const Numbers& numbers) {
  const auto gaps = static_cast<double>(std::max<std::size_t>(numbers.all.size() - 1, 1));
  return gaps / (std::max(numbers.high - numbers.low, 1.0) * unit.seconds);
}

std::string rate_text(const Unit& unit, const Numbers& numbers) {
  const double rate = rate_in(unit, numbers);
  return rate < 1000.0 ? fmt::format("{:.3g}", rate) : fmt::format("{:.0f}", rate);
}

const Unit& likely_unit(const Numbers& numbers) {
  // Rates of services spread around a few requests per second.
  constexpr double kUsualRate = 3.0;
  const auto distance = [&](const Unit& unit) { return std::abs(std::log(rate_in(unit, numbers) / kUsualRate)); };
  return *std::min_element(std::begin(kUnits), std::end(kUnits) - 1,
                           [&](const Unit& a, const Unit& b) { return distance(a) < distance(b); });
}

TimeGuess guess_unit(std::span<const std::string_view> texts) {
  const Numbers numbers = numbers_in(texts);
  if (numbers.all.empty()) return {};
  if (const Unit* unit = unit_since_1970(numbers)) return {unit->format, {}};
  if (numbers.has_fraction && numbers.high < 1e8) return {};
  const Unit& likely = likely_unit(numbers);
  return {likely.format, fmt::format("times {} have no unit; as {} they would be {} requests per second", shown(texts),
                                     likely.name, rate_text(likely, numbers))};
}

// The span of the times in that order of day and month; empty if one is not a date or the times decrease.
std::optional<core::Duration> span_as(TimeFormat format, std::span<const std::string_view> texts) {
  std::optional<core::Duration> first, last;
  for (const std::string_view text : texts) {
    const auto time = parse_trace_time({}, text, format);
    if (!time || (last && *time < *last)) return std::nullopt;
    if (!first) first = *time;
    last = *time;
  }
  return first ? std::optional{*last - *first} : std::nullopt;
}

TimeGuess guess_order(std::span<const std::string_view> texts) {
  bool day_first = true, month_first = true;
  for (const std::string_view text : texts) {
    if (parse_trace_time({}, text, TimeFormat::kIso)) return {TimeFormat::kIso, {}};
    const bool as_day = parse_trace_time({}, text, TimeFormat::kDayFirst).has_value();
    const bool as_month = parse_trace_time({}, text, TimeFormat::kMonthFirst).has_value();
    // Text that is no date in either order is a bad row.
    if (!as_day && !as_month) continue;
    day_first = day_first && as_day;
    month_first = month_first && as_month;
  }
  if (day_first != month_first) return {day_first ? TimeFormat::kDayFirst : TimeFormat::kMonthFirst, {}};
  if (!day_first) return {TimeFormat::kDayFirst, "dates have days above 12 in both places: " + shown(texts)};
  const bool any = std::any_of(texts.begin(), texts.end(), [](std::string_view text) {
    return parse_trace_time({}, text, TimeFormat::kDayFirst).has_value();
  });
  if (!any) return {TimeFormat::kIso, {}};
  const auto as_day = span_as(TimeFormat::kDayFirst, texts), as_month = span_as(TimeFormat::kMonthFirst, texts);
  const bool likely_month = as_month && (!as_day || *as_month < *as_day);
  return {likely_month ? TimeFormat::kMonthFirst : TimeFormat::kDayFirst,
          fmt::format("the order of day and month in {} is not known", shown(texts))};
}

}  // namespace

std::string_view to_string(TimeFormat format) { return kTimeFormatNames[static_cast<std::size_t>(format)]; }

Parsed<core::Duration> parse_trace_time(std::string_view column, std::string_view text, TimeFormat format) {
  switch (format) {
    case TimeFormat::kMilliseconds: return parse_time(column, text, TimeUnit::kMilliseconds);
    case TimeFormat::kMicroseconds: return parse_time(column, text, TimeUnit::kMicroseconds);
    case TimeFormat::kNanoseconds: return parse_time(column, text, TimeUnit::kNanoseconds);
    case TimeFormat::kIso: return parse_date_time(column, text, DateOrder::kYearFirst);
    case TimeFormat::kDayFirst: return parse_date_time(column, text, DateOrder::kDayFirst);
    case TimeFormat::kMonthFirst: return parse_date_time(column, text, DateOrder::kMonthFirst);
    case TimeFormat::kAuto:
    case TimeFormat::kSeconds: break;
  }
  return parse_time(column, text, TimeUnit::kSeconds);
}

TimeFormat unit_in_name(std::string_view column) {
  const std::string words = words_of(column);
  const std::string_view last = std::string_view{words}.substr(words.rfind('_') + 1);
  if (last.size() == words.size()) return TimeFormat::kAuto;
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), last) != names.end();
  };
  if (is({"s", "sec", "secs", "second", "seconds"})) return TimeFormat::kSeconds;
  if (is({"ms", "msec", "millis", "milliseconds"})) return TimeFormat::kMilliseconds;
  if (is({"us", "usec", "micros", "microseconds"})) return TimeFormat::kMicroseconds;
  if (is({"ns", "nanos", "nanoseconds"})) return TimeFormat::kNanoseconds;
  return TimeFormat::kAuto;
}

TimeGuess guess_time_format(std::span<const std::string_view> texts) {
  const auto is_date = [](std::string_view text) { return text.find_first_of(":/") != std::string_view::npos; };
  for (const std::string_view text : texts)
    if (is_date(text) || number_in(text)) return is_date(text) ? guess_order(texts) : guess_unit(texts);
  return {};
}

TimeGuess confirm_milliseconds(std::span<const std::string_view> texts) {
  constexpr const Unit& kDocumented = kUnits[1];
  // Whole seconds look like a rate that few services have. Fewer rows may be a burst.
  constexpr double kFewHave = 1000.0;
  constexpr std::size_t kBurst = 100;
  const Numbers numbers = numbers_in(texts);
  if (numbers.all.size() < 2) return {kDocumented.format, {}};
  const Unit* since_1970 = unit_since_1970(numbers);
  const Unit& likely = likely_unit(numbers);
  const bool is_usual = numbers.all.size() < kBurst || rate_in(kDocumented, numbers) < kFewHave;
  const bool is_plain = since_1970 == nullptr ? !numbers.has_fraction && is_usual : since_1970 == &kDocumented;
  if (is_plain || &likely == &kDocumented) return {kDocumented.format, {}};
  return {likely.format,
          fmt::format("times {} would be {} requests per second as {}, and {} as {}", shown(texts),
                      rate_text(kDocumented, numbers), kDocumented.name, rate_text(likely, numbers), likely.name)};
}

core::Error doubtful_times(const std::string& place, std::string_view what, const TimeGuess& guess) {
  const bool is_date = guess.format >= TimeFormat::kIso;
  return {core::ErrorCode::kInvalidInput, place, fmt::format("{}: {}", what, guess.doubt),
          fmt::format("the guess is {0}: confirm it with --time-format {0}, or give {1}", to_string(guess.format),
                      is_date ? "dd/mm/yyyy or mm/dd/yyyy" : "s, ms, us or ns")};
}

}  // namespace penstock::workload
