// GPU-hours at equal attainment, from runs of one policy with several settings.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace penstock::evaluation {

struct Point {
  double attainment = 0.0;  // From 0 to 1.
  double gpu_hours = 0.0;
};

// The points that no other one beats in both attainment and GPU-hours, by ascending attainment and GPU-hours.
[[nodiscard]] std::vector<Point> efficient(std::vector<Point> points);

struct Cost {
  double gpu_hours = 0.0;
  bool at_most = false;  // No run came close from below: a setting that reaches less may cost less.
};

// Between two points GPU-hours are linear in the logarithm of the share of misses; a point below 90 % is too far away
// for that. Empty if no point reaches the attainment. `efficient` is the result of efficient().
[[nodiscard]] std::optional<Cost> cost_at(std::span<const Point> efficient, double attainment);

[[nodiscard]] inline std::optional<double> hours_of(const std::optional<Cost>& cost) {
  return cost ? std::optional{cost->gpu_hours} : std::nullopt;
}

// The logarithm of the share of misses, which is limited to one in 100,000.
[[nodiscard]] double log_misses(double attainment);

}  // namespace penstock::evaluation
