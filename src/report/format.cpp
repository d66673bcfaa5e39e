#include "report/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/utf8.h"

namespace penstock::report {

std::string format_milliseconds(double milliseconds) {
  if (!std::isfinite(milliseconds)) return "–";
  if (milliseconds < 9.995) return fmt::format("{:.2f} ms", milliseconds);
  if (milliseconds < 99.95) return fmt::format("{:.1f} ms", milliseconds);
  if (milliseconds < 999.5) return fmt::format("{:.0f} ms", milliseconds);
  const double seconds = milliseconds / 1000.0;
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  return format_count(static_cast<std::uint64_t>(std::llround(seconds))) + " s";
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0.0) return "–";
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1000.0);
  if (seconds < 59.95) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  const auto two = [](std::uint64_t large, const char* unit, std::uint64_t small, const char* small_unit) {
    return small == 0 ? fmt::format("{} {}", large, unit) : fmt::format("{} {} {} {}", large, unit, small, small_unit);
  };
  if (whole < 3600) return two(whole / 60, "min", whole % 60, "s");
  const std::uint64_t minutes = (whole + 30) / 60;
  if (minutes < 24 * 60) return two(minutes / 60, "h", minutes % 60, "min");
  const std::uint64_t hours = (whole + 1800) / 3600;
  return two(hours / 24, "d", hours % 24, "h");
}

std::string format_limits(const signals::SloTarget& target) {
  const std::string ttft = "TTFT " + format_seconds(core::to_seconds(target.ttft));
  const std::string itl = "ITL " + format_seconds(core::to_seconds(target.itl));
  if (!target.e2e) return ttft + " and " + itl;
  return ttft + ", " + itl + " and e2e " + format_seconds(core::to_seconds(*target.e2e));
}

std::string format_difference(double part, double whole) {
  if (!(whole > 0.0) || !std::isfinite(part)) return "–";
  const double percent = std::round((part / whole - 1.0) * 100.0);
  if (percent == 0.0) return "±0 %";
  return fmt::format("{}{:.0f} %", percent < 0.0 ? "−" : "+", std::abs(percent));
}

std::string printable(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = core::utf8_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(1, length));
    if (length == 0 || core::is_control(sequence)) {
      clean += '?';
    } else {
      clean += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return clean;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return width;
}

}  // namespace penstock::report
