#include "planner/global/dense.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace penstock::planner::global {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr std::size_t kChoicesMax = std::numeric_limits<std::uint16_t>::max();

// Amounts beyond the minimum of every group, in units of their greatest common divisor.
struct Scale {
  std::vector<double> least;  // Indexed by group.
  std::uint64_t unit = 0;
  std::size_t width = 0;  // The maximum that remains for all groups.
};

std::optional<Scale> scale_of(const Stage& stage) {
  if (stage.resources < 1 || stage.resources > kTableFiguresMax) return std::nullopt;
  Scale scale;
  double left = stage.limits[0], range = 0.0;
  for (std::size_t group = 0; group < stage.groups(); ++group) {
    const std::uint32_t first = stage.begin[group], last = stage.begin[group + 1];
    if (first == last || last - first > kChoicesMax) return std::nullopt;
    double least = stage.uses(first)[0], most = least;
    for (std::uint32_t choice = first; choice < last; ++choice) {
      least = std::min(least, stage.uses(choice)[0]);
      most = std::max(most, stage.uses(choice)[0]);
    }
    for (std::uint32_t choice = first; choice < last; ++choice)
      scale.unit = std::gcd(scale.unit, static_cast<std::uint64_t>(stage.uses(choice)[0] - least));
    scale.least.push_back(least);
    left -= least;
    range += most - least;
  }
  if (left < 0.0) return std::nullopt;
  scale.unit = std::max<std::uint64_t>(scale.unit, 1);
  const double width = std::floor(std::min(left, range) / static_cast<double>(scale.unit));
  const double work = (width + 1.0) * static_cast<double>(stage.score.size() * stage.resources);
  if (work > static_cast<double>(kTableWorkMax)) return std::nullopt;
  scale.width = static_cast<std::size_t>(width);
  return scale;
}

// Figures of a sum, the most important first; higher is better.
template <std::size_t N>
using Figures = std::array<double, N>;

template <std::size_t N>
bool above(const Figures<N>& a, const Figures<N>& b) {
  for (std::size_t i = 0; i + 1 < N; ++i)
    if (a[i] != b[i]) return a[i] > b[i];
  return a[N - 1] > b[N - 1];
}

template <std::size_t N>
Selection best_by(const Stage& stage, const Scale& scale) {
  const std::size_t amounts = scale.width + 1;
  const auto steps_of = [&](std::size_t group, std::uint32_t choice) {
    return static_cast<std::size_t>((stage.uses(choice)[0] - scale.least[group]) / static_cast<double>(scale.unit));
  };
  std::vector<std::uint16_t> taken(stage.groups() * amounts);
  std::vector<Figures<N>> best(amounts), next(amounts);
  Figures<N> never;
  never.fill(kNever);
  for (std::size_t group = 0; group < stage.groups(); ++group) {
    std::fill(next.begin(), next.end(), never);
    std::uint16_t* const row = taken.data() + group * amounts;
    for (std::uint32_t choice = stage.begin[group]; choice < stage.begin[group + 1]; ++choice) {
      const std::size_t steps = steps_of(group, choice);
      const auto number = static_cast<std::uint16_t>(choice - stage.begin[group]);
      Figures<N> gain;
      for (std::size_t i = 0; i + 1 < N; ++i) gain[i] = -stage.uses(choice)[i + 1];
      gain[N - 1] = stage.score[choice];
      for (std::size_t amount = steps; amount < amounts; ++amount) {
        Figures<N> sum = best[amount - steps];
        for (std::size_t i = 0; i < N; ++i) sum[i] += gain[i];
        const bool better = above(sum, next[amount]);
        next[amount] = better ? sum : next[amount];
        row[amount] = better ? number : row[amount];
      }
    }
    best.swap(next);
  }
  std::vector<std::uint32_t> choices(stage.groups());
  std::size_t amount = scale.width;
  for (std::size_t group = stage.groups(); group-- > 0;) {
    choices[group] = stage.begin[group] + taken[group * amounts + amount];
    amount -= steps_of(group, choices[group]);
  }
  return total_of(stage, std::move(choices));
}

}  // namespace

std::optional<Selection> best_by_table(const Stage& stage) {
  const auto scale = scale_of(stage);
  if (!scale) return std::nullopt;
  switch (stage.resources) {
    case 1: return best_by<1>(stage, *scale);
    case 2: return best_by<2>(stage, *scale);
    case 3: return best_by<3>(stage, *scale);
    case 4: return best_by<4>(stage, *scale);
    case 5: return best_by<5>(stage, *scale);
    case kTableFiguresMax: return best_by<kTableFiguresMax>(stage, *scale);
    default: return std::nullopt;
  }
}

}  // namespace penstock::planner::global
