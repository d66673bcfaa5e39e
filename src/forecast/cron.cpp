#include "forecast/cron.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/digits.h"

namespace penstock::forecast {
namespace {

constexpr std::int64_t kDayS = 86'400;

struct Field {
  const char* name;
  int min, max;
  std::array<std::string_view, 12> names;  // Names of min, min + 1, …; unused ones are empty.
};
constexpr std::array<Field, 5> kFields = {{
    {"minute", 0, 59, {}},
    {"hour", 0, 23, {}},
    {"day of month", 1, 31, {}},
    {"month", 1, 12, {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
    {"day of week", 0, 7, {"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}};
constexpr std::size_t kTextMax = 256;

bool is_space(char c) { return c == ' ' || c == '\t'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_printable(char c) { return c >= ' ' && c <= '~'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::optional<std::int64_t> within_calendar(std::int64_t unix_s) {
  return unix_s >= CronSchedule::kUnixMin && unix_s <= CronSchedule::kUnixMax ? std::optional{unix_s} : std::nullopt;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// Parses one expression from left to right and stops at the first error.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  void skip_spaces() {
    while (!at_end() && is_space(text_[at_])) ++at_;
  }
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[at_]; }
  [[nodiscard]] std::size_t position() const { return at_; }

  // Returns the values of one field as bits.
  core::Result<std::uint64_t> field(const Field& field) {
    std::uint64_t bits = 0;
    do {
      auto part = item(field);
      if (!part) return part;
      bits |= *part;
    } while (take(','));
    if (!at_end() && !is_space(peek())) return unexpected(field);
    return bits;
  }

  [[nodiscard]] tl::unexpected<core::Error> error(std::size_t at, std::string what, std::string hint = {}) const {
    return core::invalid_input("schedule \"" + std::string(text_) + "\", column " + std::to_string(at + 1),
                               std::move(what), std::move(hint));
  }

 private:
  bool take(char c) {
    if (peek() != c || at_end()) return false;
    ++at_;
    return true;
  }

  [[nodiscard]] tl::unexpected<core::Error> unexpected(const Field& field) const {
    const std::string found = at_end() ? "the end" : is_space(peek()) ? "a space" : "'" + std::string(1, peek()) + "'";
    return error(at_, std::string(field.name) + ": unexpected " + found, "write *, 5, 1-5, */15 or a list of them");
  }

  core::Result<std::uint64_t> item(const Field& field) {
    int first = field.min;
    int last = field.max;
    bool open = true;  // The item runs to the end of the field.
    const std::size_t start = at_;
    if (!take('*')) {
      auto value = number_or_name(field);
      if (!value) return tl::make_unexpected(value.error());
      first = last = *value;
      open = false;
      if (take('-')) {
        value = number_or_name(field);
        if (!value) return tl::make_unexpected(value.error());
        last = *value;
        if (field.max == 7 && last == 0 && first > 0) last = 7;  // For example "fri-sun".
        if (last < first)
          return error(
              start,
              std::string(field.name) + ": a range must ascend, is " + std::string(text_.substr(start, at_ - start)),
              "write two ranges, one to the end and one from the beginning");
      } else if (peek() == '/') {
        open = true;
        last = field.max;
      }
    }
    int step = 1;
    if (take('/')) {
      const std::size_t at = at_;
      if (!core::is_digit(peek())) return unexpected(field);
      step = digits();
      if (step < 1 || step > field.max)
        return error(at, std::string(field.name) + ": a step must be 1-" + std::to_string(field.max));
    }
    // 7 means Sunday. An open item has already covered it as 0, unless it starts at 7.
    if (open && field.max == 7) last = std::max(first, 6);
    std::uint64_t bits = 0;
    for (int value = first; value <= last; value += step) bits |= std::uint64_t{1} << value;
    return bits;
  }

  core::Result<int> number_or_name(const Field& field) {
    const std::size_t start = at_;
    if (core::is_digit(peek())) {
      const int value = digits();
      if (value < field.min || value > field.max)
        return error(start, std::string(field.name) + " must be " + std::to_string(field.min) + "-" +
                                std::to_string(field.max) + ", is " + std::string(text_.substr(start, at_ - start)));
      return value;
    }
    if (!is_letter(peek()) || field.names.front().empty()) return unexpected(field);
    std::string name;
    while (is_letter(peek())) name += lower(text_[at_++]);
    for (std::size_t i = 0; i < field.names.size() && !field.names[i].empty(); ++i)
      if (field.names[i] == name) return field.min + static_cast<int>(i);
    return error(start, std::string(field.name) + ": unknown name \"" + name + "\"",
                 "use the first three letters in English");
  }

  int digits() {
    int value = 0;
    while (core::is_digit(peek())) value = std::min(10'000, value * 10 + (text_[at_++] - '0'));
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

core::Result<CronSchedule> CronSchedule::parse(std::string_view text, core::Duration utc_offset) {
  constexpr core::Duration kOffsetMax = std::chrono::hours{14};
  if (text.size() > kTextMax)
    return core::invalid_input("schedule", "must be at most " + std::to_string(kTextMax) + " characters");
  const auto odd = std::find_if(text.begin(), text.end(), [](char c) { return !is_printable(c) && !is_space(c); });
  if (odd != text.end())  // The text is not printed, because an error must be one line.
    return core::invalid_input("schedule, column " + std::to_string(odd - text.begin() + 1),
                               "a character that is not printable ASCII");
  if (utc_offset < -kOffsetMax || utc_offset > kOffsetMax || utc_offset % std::chrono::minutes{1} != core::Duration{})
    return core::invalid_input("schedule", "the UTC offset must be whole minutes between -14 h and 14 h");

  CronSchedule schedule;
  schedule.offset_s_ = utc_offset / std::chrono::seconds{1};
  Parser parser(text);
  std::array<std::uint64_t, kFields.size()> bits{};
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    parser.skip_spaces();
    if (parser.at_end())
      return parser.error(parser.position(), std::string("the field \"") + kFields[i].name + "\" is missing",
                          "five fields: minute, hour, day of month, month, day of week");
    if (i == 2) schedule.any_day_ = parser.peek() == '*';
    if (i == 4) schedule.any_weekday_ = parser.peek() == '*';
    const auto field = parser.field(kFields[i]);
    if (!field) return tl::make_unexpected(field.error());
    bits[i] = *field;
  }
  parser.skip_spaces();
  if (!parser.at_end())
    return parser.error(parser.position(), "more than five fields",
                        "minute, hour, day of month, month, day of week; there are no seconds");
  schedule.minutes_ = bits[0];
  schedule.hours_ = bits[1];
  schedule.days_ = bits[2];
  schedule.months_ = bits[3];
  schedule.weekdays_ = (bits[4] | bits[4] >> 7) & 0x7f;
  // An expression with a restricted day and a restricted weekday contains a star, which includes the first of the month
  // and Sunday; 29 February 1976 is a Sunday. So every valid expression occurs within the eight years after 1970.
  if (!schedule.next(0)) return parser.error(0, "never occurs", "check the day of month against the month");
  return schedule;
}

bool CronSchedule::matches_day(std::int64_t day) const {
  const std::chrono::sys_days date{std::chrono::days{day}};
  const std::chrono::year_month_day calendar{date};
  if ((months_ >> static_cast<unsigned>(calendar.month()) & 1U) == 0) return false;
  const bool by_day = (days_ >> static_cast<unsigned>(calendar.day()) & 1U) != 0;
  const bool by_weekday = (weekdays_ >> std::chrono::weekday{date}.c_encoding() & 1U) != 0;
  return any_day_ || any_weekday_ ? by_day && by_weekday : by_day || by_weekday;
}

bool CronSchedule::matches(std::int64_t unix_s) const {
  const std::int64_t local = std::clamp(unix_s, kUnixMin, kUnixMax) + offset_s_;
  const std::int64_t day = floor_divide(local, kDayS);
  const std::int64_t minute = (local - day * kDayS) / 60;
  return (hours_ >> (minute / 60) & 1U) != 0 && (minutes_ >> (minute % 60) & 1U) != 0 && matches_day(day);
}

std::optional<std::int64_t> CronSchedule::next(std::int64_t unix_s) const {
  const std::int64_t local = std::clamp(unix_s, kUnixMin, kUnixMax) + offset_s_;
  const std::int64_t today = floor_divide(local, kDayS);
  std::int64_t minute = (local - today * kDayS) / 60 + 1;  // The first later minute.
  for (std::int64_t day = today; day <= today + kDaysSearched; ++day, minute = 0) {
    if (!matches_day(day)) continue;
    for (; minute < kDayS / 60; ++minute)
      if ((hours_ >> (minute / 60) & 1U) != 0 && (minutes_ >> (minute % 60) & 1U) != 0)
        return within_calendar(day * kDayS + minute * 60 - offset_s_);
  }
  return std::nullopt;
}

std::optional<std::int64_t> CronSchedule::previous(std::int64_t unix_s) const {
  const std::int64_t local = std::clamp(unix_s, kUnixMin, kUnixMax) + offset_s_;
  const std::int64_t today = floor_divide(local, kDayS);
  std::int64_t minute = (local - today * kDayS) / 60;
  for (std::int64_t day = today; day >= today - kDaysSearched; --day, minute = kDayS / 60 - 1) {
    if (!matches_day(day)) continue;
    for (; minute >= 0; --minute)
      if ((hours_ >> (minute / 60) & 1U) != 0 && (minutes_ >> (minute % 60) & 1U) != 0)
        return within_calendar(day * kDayS + minute * 60 - offset_s_);
  }
  return std::nullopt;
}

bool ScheduledFloor::active(std::int64_t unix_s) const {
  const std::int64_t now = std::clamp(unix_s, CronSchedule::kUnixMin, CronSchedule::kUnixMax);
  const auto start = starts.previous(now);
  return start && now - *start < length / std::chrono::seconds{1};
}

bool is_floor_length(core::Duration length) {
  return length >= std::chrono::minutes{1} && length <= kFloorLengthMax &&
         length % std::chrono::seconds{1} == core::Duration{};
}

core::Result<ScheduledFloor> make_floor(std::string_view cron, core::Duration utc_offset, core::Duration length,
                                        std::uint32_t replicas) {
  auto starts = CronSchedule::parse(cron, utc_offset);
  if (!starts) return tl::make_unexpected(starts.error());
  const auto wrong = [&](const char* what) {
    return core::invalid_input("schedule \"" + std::string(cron) + "\"", what);
  };
  if (!is_floor_length(length)) return wrong("the length must be whole seconds between 1 minute and 366 days");
  if (replicas == 0) return wrong("the replicas must be at least 1");
  return ScheduledFloor{std::move(*starts), length, replicas};
}

std::uint32_t floor_at(std::span<const ScheduledFloor> floors, std::int64_t unix_s, core::Duration lead) {
  const std::int64_t now = std::clamp(unix_s, CronSchedule::kUnixMin, CronSchedule::kUnixMax);
  const std::int64_t lead_s = lead > core::Duration{} ? std::chrono::ceil<std::chrono::seconds>(lead).count() : 0;
  std::uint32_t greatest = 0;
  for (const ScheduledFloor& floor : floors) {
    if (floor.replicas <= greatest) continue;
    const auto start = floor.starts.next(now);
    const bool soon = start && *start - now <= lead_s;
    if (soon || floor.active(now)) greatest = floor.replicas;
  }
  return greatest;
}

}  // namespace penstock::forecast
