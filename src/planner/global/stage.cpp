#include "planner/global/stage.h"

#include <algorithm>
#include <limits>

namespace penstock::planner::global {
namespace {

constexpr std::size_t kChoicesComparedMax = 32;  // Number of choices of a group that a new one is compared with.

template <class Keep>
Stage filtered(const Stage& stage, Keep keep) {
  Stage left;
  left.resources = stage.resources;
  left.columns = stage.columns;
  left.limits = stage.limits;
  left.begin = {0};
  left.begin.reserve(stage.begin.size());
  left.score.reserve(stage.score.size());
  left.id.reserve(stage.id.size());
  left.use.reserve(stage.use.size());
  for (std::size_t group = 0; group < stage.groups(); ++group) {
    for (std::uint32_t choice = stage.begin[group]; choice < stage.begin[group + 1]; ++choice) {
      if (!keep(group, choice)) continue;
      left.score.push_back(stage.score[choice]);
      left.id.push_back(stage.id[choice]);
      const auto uses = stage.uses(choice);
      left.use.insert(left.use.end(), uses.begin(), uses.end());
    }
    left.begin.push_back(static_cast<std::uint32_t>(left.score.size()));
  }
  return left;
}

bool dominates(const Stage& stage, std::uint32_t one, std::uint32_t other) {
  if (stage.score[one] < stage.score[other]) return false;
  for (std::size_t r = 0; r < stage.resources; ++r)
    if (stage.use[one * stage.columns + r] > stage.use[other * stage.columns + r]) return false;
  return true;
}

}  // namespace

bool Selection::fits(const Stage& stage) const {
  for (std::size_t r = 0; r < stage.resources; ++r)
    if (used[r] > stage.limits[r]) return false;
  return true;
}

Selection total_of(const Stage& stage, std::vector<std::uint32_t> choices) {
  Selection sum{std::move(choices), 0.0, std::vector<double>(stage.resources, 0.0)};
  for (const std::uint32_t choice : sum.choices) {
    sum.score += stage.score[choice];
    for (std::size_t r = 0; r < stage.resources; ++r) sum.used[r] += stage.use[choice * stage.columns + r];
  }
  return sum;
}

Stage undominated(const Stage& stage) {
  std::vector<std::uint32_t> kept;
  std::size_t kept_group = stage.groups();
  return filtered(stage, [&](std::size_t group, std::uint32_t choice) {
    if (group != kept_group) kept.clear();
    kept_group = group;
    const std::size_t from = kept.size() > kChoicesComparedMax ? kept.size() - kChoicesComparedMax : 0;
    for (std::size_t i = from; i < kept.size(); ++i)
      if (dominates(stage, kept[i], choice)) return false;
    kept.push_back(choice);
    return true;
  });
}

Stage reduced(const Stage& stage) {
  // The minimum use of each group, so that a choice is checked against the best case of the others.
  std::vector<double> least(stage.groups() * stage.columns, std::numeric_limits<double>::infinity());
  std::vector<double> sum(stage.columns, 0.0);
  for (std::size_t group = 0; group < stage.groups(); ++group) {
    double* const of = least.data() + group * stage.columns;
    for (std::uint32_t choice = stage.begin[group]; choice < stage.begin[group + 1]; ++choice)
      for (std::size_t c = 0; c < stage.columns; ++c) of[c] = std::min(of[c], stage.use[choice * stage.columns + c]);
    for (std::size_t c = 0; c < stage.columns; ++c) sum[c] += of[c];
  }
  return undominated(filtered(stage, [&](std::size_t group, std::uint32_t choice) {
    for (std::size_t c = 0; c < stage.columns; ++c) {
      const double others = sum[c] - least[group * stage.columns + c];
      const double slack = c < stage.resources ? 0.0 : kRounding;
      if (!(others + stage.use[choice * stage.columns + c] <= stage.limits[c] + slack)) return false;
    }
    return true;
  }));
}

Stage reduced(const Stage& stage, std::span<const double> prices, double at_least) {
  std::vector<double> value(stage.score.size());
  std::vector<double> most(stage.groups(), -std::numeric_limits<double>::infinity());
  double bound = 0.0;
  for (std::size_t r = 0; r < prices.size(); ++r) bound += prices[r] * stage.limits[r];
  for (std::size_t group = 0; group < stage.groups(); ++group) {
    for (std::uint32_t choice = stage.begin[group]; choice < stage.begin[group + 1]; ++choice) {
      value[choice] = stage.score[choice] - stage.priced(choice, prices);
      most[group] = std::max(most[group], value[choice]);
    }
    bound += most[group];
  }
  return filtered(stage, [&](std::size_t group, std::uint32_t choice) {
    return bound - most[group] + value[choice] >= at_least - kRounding;
  });
}

}  // namespace penstock::planner::global
