#include "profiling/measurement_grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/format.h"

namespace penstock::profiling {
namespace {

struct AxisValue {
  std::uint32_t value = 0;
  bool is_required = false;
};

// Returns low, low·factor, … high. A value close to the last one is left out.
std::vector<AxisValue> axis(std::uint32_t low, std::uint32_t high, std::uint32_t factor) {
  std::vector<AxisValue> values;
  for (std::uint64_t value = low; value * 5 < std::uint64_t{high} * 4; value *= factor)
    values.push_back({static_cast<std::uint32_t>(value), values.size() % 2 == 0});
  values.push_back({high, true});
  return values;
}

}  // namespace

std::string to_string(const GridPoint& point) {
  if (point.is_prompt()) return fmt::format("prompt of {} tokens", core::format_count(point.tokens));
  return fmt::format("decode step of {} sequence{} of {} tokens", core::format_count(point.sequences),
                     point.sequences == 1 ? "" : "s", core::format_count(point.tokens));
}

std::vector<GridPoint> measurement_grid(const GridLimits& limits) {
  std::vector<GridPoint> points;
  for (const AxisValue& length : axis(std::min(kShortestPrompt, limits.prompt_tokens), limits.prompt_tokens, 2))
    points.push_back({length.value, 0, length.is_required});
  for (const AxisValue& context : axis(std::min(kShortestContext, limits.prompt_tokens), limits.prompt_tokens, 4))
    for (const AxisValue& sequences : axis(1, limits.sequences, 2))
      points.push_back({context.value, sequences.value, context.is_required && sequences.is_required});
  std::stable_partition(points.begin(), points.end(), [](const GridPoint& point) { return point.is_required; });
  return points;
}

}  // namespace penstock::profiling
