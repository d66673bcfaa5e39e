#include "core/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace penstock::core {

std::string format_count(std::uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, 1, ',');
  return digits;
}

std::string format_share(double share) {
  if (!std::isfinite(share)) return "–";
  if (share > 0.0 && share < 0.0005) return "<0.1 %";
  if (share < 1.0 && share >= 0.9995) return "99.9 %";
  // Nothing is shown as minus zero.
  return fmt::format("{:.1f} %", std::abs(share) < 0.0005 ? 0.0 : share * 100.0);
}

std::string format_goal(double share) {
  if (!std::isfinite(share)) return "–";
  // Ten digits leave out the rounding error of the product.
  std::string percent = fmt::format("{:.10g}", share * 100.0);
  if (percent.find_first_of(".e") == std::string::npos) percent += ".0";
  return percent + " %";
}

std::string format_quantity(double value) {
  if (!std::isfinite(value)) return "–";
  struct Scale {
    double from, divisor;
    const char* suffix;
  };
  // From 9,995 on, three digits and a suffix say as much as the digits would.
  static constexpr std::array<Scale, 3> kScales = {{{999.5e6, 1e9, "G"}, {999.5e3, 1e6, "M"}, {9995.0, 1e3, "k"}}};
  for (const Scale& scale : kScales) {
    if (std::abs(value) < scale.from) continue;
    const double scaled = value / scale.divisor;
    const int decimals = std::abs(scaled) < 9.995 ? 2 : std::abs(scaled) < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f}{}", scaled, decimals, scale.suffix);
  }
  if (std::abs(value) >= 999.5) return fmt::format("{:.0f}", value);
  const int decimals = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", std::abs(value) < 0.005 ? 0.0 : value, decimals);
}

std::string format_replicas(std::uint32_t count) {
  return fmt::format("{} {}", count, count == 1 ? "replica" : "replicas");
}

}  // namespace penstock::core
