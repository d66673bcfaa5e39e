#include "evaluation/equal_attainment.h"

#include <algorithm>
#include <cmath>

namespace penstock::evaluation {
namespace {

constexpr double kMissesMin = 1e-5;
constexpr double kUsable = 0.9;

}  // namespace

double log_misses(double attainment) { return std::log(std::max(kMissesMin, 1.0 - attainment)); }

std::vector<Point> efficient(std::vector<Point> points) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.gpu_hours != b.gpu_hours ? a.gpu_hours < b.gpu_hours : a.attainment > b.attainment;
  });
  std::vector<Point> kept;
  for (const Point& point : points)
    if (kept.empty() || point.attainment > kept.back().attainment) kept.push_back(point);
  return kept;
}

std::optional<Cost> cost_at(std::span<const Point> efficient, double attainment) {
  const auto above = std::find_if(efficient.begin(), efficient.end(),
                                  [&](const Point& point) { return point.attainment >= attainment; });
  if (above == efficient.end()) return std::nullopt;
  if (above == efficient.begin() || (above - 1)->attainment < kUsable)
    return Cost{above->gpu_hours, above->attainment > attainment};
  const Point& below = *(above - 1);
  const double whole = log_misses(above->attainment) - log_misses(below.attainment);
  const double part = log_misses(attainment) - log_misses(below.attainment);
  const double share = whole < 0.0 ? std::clamp(part / whole, 0.0, 1.0) : 1.0;
  return Cost{below.gpu_hours + share * (above->gpu_hours - below.gpu_hours)};
}

}  // namespace penstock::evaluation
