#include "options/scalars.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/digits.h"

namespace penstock::options {
namespace {

constexpr std::size_t kQuotedMax = 60;
constexpr std::size_t kTextMax = 4096;
constexpr std::size_t kSuggestedMax = 64;  // Longer names are not compared.
constexpr double kLongestSeconds = 10.0 * 365.0 * 86400.0;

struct Unit {
  std::string_view name;
  double factor;
};
// If one name begins with another, the longer one comes first.
constexpr std::array<Unit, 7> kTimeUnits = {
    {{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}}};
constexpr std::array<Unit, 9> kByteUnits = {{{"KiB", 1024.0},
                                             {"MiB", 1048576.0},
                                             {"GiB", 1073741824.0},
                                             {"TiB", 1099511627776.0},
                                             {"kB", 1e3},
                                             {"MB", 1e6},
                                             {"GB", 1e9},
                                             {"TB", 1e12},
                                             {"B", 1.0}}};

tl::unexpected<core::Error> refuse(std::string what, std::string hint = {}) {
  return core::invalid_input({}, std::move(what), std::move(hint));
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Removes the unsigned decimal number at the start of `text`; returns false if there is none.
bool take_decimal(std::string_view& text, double& number) {
  if (text.empty() || !core::is_digit(text.front())) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number)) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::string_view take_unit(std::string_view& text, std::span<const Unit> units, double& factor) {
  std::size_t length = 0;
  while (length < text.size() && !core::is_digit(text[length])) ++length;
  const std::string_view name = text.substr(0, length);
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    factor = unit.factor;
    text.remove_prefix(length);
    return unit.name;
  }
  return {};
}

// Returns the number of edits (insertion, deletion, substitution, or swap of two neighbours) between two names.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::vector<std::string_view> sorted_words(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("._-"), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  std::sort(words.begin(), words.end());
  return words;
}

}  // namespace

core::Result<std::uint64_t> parse_count(std::string_view text, std::uint64_t low, std::uint64_t high) {
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), core::is_digit);
  if (!digits) return refuse(fmt::format("must be a whole number from {} to {}, is {}", low, high, quote(text)));
  if (text.size() > 1 && text.front() == '0')
    return refuse(fmt::format("must not begin with a zero, is {}", quote(text)), "some tools would read it as octal");
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || count < low || count > high)
    return refuse(fmt::format("must be from {} to {}, is {}", low, high, quote(text)));
  return count;
}

core::Result<double> parse_number(std::string_view text, double low, double high) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number))
    return refuse("must be a number, is " + quote(text));
  if (text.size() > 1 && text[0] == '0' && core::is_digit(text[1]))
    return refuse(fmt::format("must not begin with a zero, is {}", quote(text)), "some tools would read it as octal");
  if (number < low || number > high)
    return refuse(fmt::format("must be from {} to {}, is {}", format_number(low), format_number(high), quote(text)));
  return number;
}

core::Result<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  auto number = parse_number(percent ? text.substr(0, text.size() - 1) : text, 0.0, percent ? 100.0 : 1.0);
  if (!number) return refuse("must be a share from 0 to 1 or 0% to 100%, is " + quote(text));
  return percent ? *number / 100.0 : *number;
}

core::Result<core::Duration> parse_duration(std::string_view text) {
  if (text == "0") return core::Duration{};
  std::string_view rest = text;
  double nanoseconds = 0.0;
  double previous = 0.0;
  do {
    double number = 0.0;
    double factor = 0.0;
    if (!take_decimal(rest, number)) return refuse("must be a duration such as 120s, 50ms or 1h30m, is " + quote(text));
    if (take_unit(rest, kTimeUnits, factor).empty())
      return refuse("needs a unit (ns, us, ms, s, m, h or d), is " + quote(text));
    if (previous > 0.0 && factor >= previous)
      return refuse("must name each unit once, the largest first, is " + quote(text));
    previous = factor;
    nanoseconds += number * factor;
  } while (!rest.empty());
  if (nanoseconds > kLongestSeconds * 1e9) return refuse("must be at most 3650d, is " + quote(text));
  return core::Duration{std::llround(nanoseconds)};
}

core::Result<double> parse_bytes(std::string_view text, bool per_second) {
  const char* examples = per_second ? "50GB/s or 100MiB/s" : "131072, 128KiB or 2.5GB";
  std::string_view rest = text;
  double number = 0.0;
  double factor = 1.0;
  if (!take_decimal(rest, number))
    return refuse(fmt::format("must be a size such as {}, is {}", examples, quote(text)));
  if (per_second && rest.ends_with("/s")) rest.remove_suffix(2);
  if (!rest.empty() && (take_unit(rest, kByteUnits, factor).empty() || !rest.empty()))
    return refuse(fmt::format("must be a size such as {}, is {}", examples, quote(text)));
  if (number * factor < 1.0 || number * factor > 1e18)
    return refuse("must be at least 1 byte and at most 1e18, is " + quote(text));
  return number * factor;
}

core::Result<bool> parse_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return refuse("must be true or false, is " + quote(text));
}

core::Result<CountRange> parse_range(std::string_view text, std::uint32_t high) {
  const std::size_t dots = text.find("..");
  const std::string_view first = text.substr(0, dots);
  const std::string_view last = dots == std::string_view::npos ? first : text.substr(dots + 2);
  const auto low = parse_count(first, 1, high);
  const auto top = parse_count(last, 1, high);
  if (!low || !top)
    return refuse(fmt::format("must be a range such as 1..8, with bounds from 1 to {}, is {}", high, quote(text)));
  if (*low > *top) return refuse("must not be reversed, is " + quote(text), fmt::format("write {}..{}", *top, *low));
  return CountRange{static_cast<std::uint32_t>(*low), static_cast<std::uint32_t>(*top)};
}

core::Result<std::string> parse_word(std::string_view text, std::size_t bytes_max) {
  const bool visible = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (text.empty() || text.size() > bytes_max || !visible)
    return core::invalid_input({}, fmt::format("must be 1 to {} visible ASCII characters", bytes_max));
  return std::string{text};
}

core::Result<std::string> parse_text(std::string_view text) {
  if (text.empty()) return refuse("must not be empty");
  if (text.size() > kTextMax) return refuse(fmt::format("must have at most {} bytes", kTextMax));
  return std::string{text};
}

core::Result<std::vector<std::string>> parse_list(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = trimmed(text.substr(begin, end - begin));
    if (part.empty()) return refuse("must be a list such as a,b without empty parts, is " + quote(text));
    parts.emplace_back(part);
    begin = end + 1;
  }
  return parts;
}

std::string format_duration(core::Duration duration) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> kUnits = {
      {{"h", 3'600'000'000'000}, {"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}}};
  const std::int64_t count = duration.count();
  if (count == 0) return "0s";
  for (const auto& [name, size] : kUnits)
    if (count % size == 0) return fmt::format("{}{}", count / size, name);
  return fmt::format("{}ns", count);
}

std::string format_number(double number) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::string{text.data(), end} : fmt::format("{}", number);
}

std::string format_bytes(double bytes) {
  if (bytes == 0.0) return "0B";
  const Unit* largest = &kByteUnits.back();
  for (const Unit& unit : kByteUnits)
    if (unit.factor > largest->factor && std::fmod(bytes, unit.factor) == 0.0) largest = &unit;
  return format_number(bytes / largest->factor) + std::string{largest->name};
}

bool has_same_words(std::string_view a, std::string_view b) { return sorted_words(a) == sorted_words(b); }

std::string suggestion(std::string_view written, std::span<const std::string_view> names) {
  if (written.size() > kSuggestedMax) return {};
  std::string_view best;
  std::size_t least = std::max<std::size_t>(1, written.size() / 3) + 1;
  for (const std::string_view name : names) {
    if (name.size() > kSuggestedMax) continue;
    const std::size_t edits = has_same_words(written, name) ? 0 : distance(written, name);
    if (edits < least) {
      least = edits;
      best = name;
    }
  }
  return best.empty() ? std::string{} : fmt::format("did you mean {}?", best);
}

std::string choices(std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string quote(std::string_view text) {
  std::string shown{text.substr(0, kQuotedMax)};
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return "'" + shown + (text.size() > kQuotedMax ? "…'" : "'");
}

}  // namespace penstock::options
