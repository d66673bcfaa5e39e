#include "planner/global/lagrange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace penstock::planner::global {
namespace {

constexpr int kBisections = 60;
constexpr int kSubgradientSteps = 120;
constexpr int kFeasibilitySteps = 60;
constexpr int kRepairSteps = 100;
constexpr double kLeastGone = 1e-9;  // Smaller reductions are rounding errors.
constexpr int kStepsToRound = 30;    // Steps between two attempts to make a selection fit.
constexpr double kClosed = 0.5;      // Scores are whole numbers, so a bound this close is reached.

// The best choice of each group at these prices; among equals the first one, which uses least.
Selection best_at(const Stage& stage, std::span<const double> prices, double* bound) {
  Selection selection{{}, 0.0, std::vector<double>(stage.resources, 0.0)};
  selection.choices.reserve(stage.groups());
  double sum = 0.0;
  for (std::size_t r = 0; r < stage.resources; ++r) sum += prices[r] * stage.limits[r];
  for (std::size_t group = 0; group < stage.groups(); ++group) {
    std::uint32_t best = stage.begin[group];
    double most = -std::numeric_limits<double>::infinity();
    for (std::uint32_t choice = stage.begin[group]; choice < stage.begin[group + 1]; ++choice) {
      const double value = stage.score[choice] - stage.priced(choice, prices);
      if (value > most) {
        most = value;
        best = choice;
      }
    }
    sum += most;
    selection.choices.push_back(best);
    selection.score += stage.score[best];
    for (std::size_t r = 0; r < stage.resources; ++r) selection.used[r] += stage.use[best * stage.columns + r];
  }
  *bound = sum;
  return selection;
}

bool replacement_fits(const Stage& stage, const Selection& selection, std::uint32_t from, std::uint32_t to) {
  for (std::size_t r = 0; r < stage.resources; ++r) {
    const double change = stage.use[to * stage.columns + r] - stage.use[from * stage.columns + r];
    if (selection.used[r] + change > stage.limits[r]) return false;
  }
  return true;
}

void replace(const Stage& stage, Selection& selection, std::size_t group, std::uint32_t to) {
  const std::uint32_t from = std::exchange(selection.choices[group], to);
  selection.score += stage.score[to] - stage.score[from];
  for (std::size_t r = 0; r < stage.resources; ++r)
    selection.used[r] += stage.use[to * stage.columns + r] - stage.use[from * stage.columns + r];
}

// Improves the choices of single groups while they fit: each round upgrades the group that gains most.
void fill(const Stage& stage, Selection& selection) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t group = 0; group < stage.groups(); ++group) {
      const std::uint32_t current = selection.choices[group];
      std::uint32_t best = current;
      for (std::uint32_t choice = stage.begin[group]; choice < stage.begin[group + 1]; ++choice)
        if (stage.score[choice] > stage.score[best] && replacement_fits(stage, selection, current, choice))
          best = choice;
      if (best == current) continue;
      replace(stage, selection, group, best);
      changed = true;
    }
  }
}

// The use beyond the limits, as shares of them.
class Excess {
 public:
  explicit Excess(const Stage& stage) : stage_(stage), over_(stage.resources), share_(stage.resources) {
    for (std::size_t r = 0; r < stage.resources; ++r) share_[r] = 1.0 / std::max(1.0, stage.limits[r]);
  }

  void look(const Selection& selection) {
    sum_ = 0.0;
    for (std::size_t r = 0; r < stage_.resources; ++r) {
      over_[r] = selection.used[r] - stage_.limits[r];
      sum_ += std::max(0.0, over_[r]) * share_[r];
    }
  }

  // The part of the excess that a replacement removes; 0 if none.
  [[nodiscard]] double gone(std::uint32_t from, std::uint32_t to) const {
    const double* const less = stage_.use.data() + from * stage_.columns;
    const double* const more = stage_.use.data() + to * stage_.columns;
    double left = sum_;
    for (std::size_t r = 0; r < stage_.resources; ++r) {
      left -= std::max(0.0, over_[r] + (more[r] - less[r])) * share_[r];
      if (left <= kLeastGone) return 0.0;
    }
    return left;
  }

 private:
  const Stage& stage_;
  std::vector<double> over_, share_;
  double sum_ = 0.0;
};

// Makes a selection fit, if possible: each step downgrades the group that loses least, at the prices, per excess
// removed.
void repair(const Stage& stage, Selection& selection, std::span<const double> prices) {
  Excess excess{stage};
  for (int step = 0; step < kRepairSteps && !selection.fits(stage); ++step) {
    excess.look(selection);
    double least = std::numeric_limits<double>::infinity();
    std::size_t group_of = stage.groups();
    std::uint32_t best = 0;
    for (std::size_t group = 0; group < stage.groups(); ++group) {
      const std::uint32_t current = selection.choices[group];
      const double value = stage.score[current] - stage.priced(current, prices);
      for (std::uint32_t choice = stage.begin[group]; choice < stage.begin[group + 1]; ++choice) {
        const double gone = excess.gone(current, choice);
        if (gone <= 0.0) continue;
        const double loss = (value - stage.score[choice] + stage.priced(choice, prices)) / gone;
        if (loss >= least) continue;
        least = loss;
        group_of = group;
        best = choice;
      }
    }
    if (group_of == stage.groups()) return;
    replace(stage, selection, group_of, best);
  }
}

class Descent {
 public:
  Descent(const Stage& stage, Selection start) : stage_(stage) {
    result_.best = std::move(start);
    result_.prices.assign(stage.resources, 0.0);
    result_.bound = std::numeric_limits<double>::infinity();
  }

  // Evaluates the selection at these prices and keeps the bound and the best selection.
  Selection look(const std::vector<double>& prices) {
    double bound = 0.0;
    Selection selection = best_at(stage_, prices, &bound);
    if (bound < result_.bound) {
      result_.bound = bound;
      result_.prices = prices;
    }
    if (selection.fits(stage_) && selection.score > result_.best.score) result_.best = selection;
    return selection;
  }
  [[nodiscard]] bool closed() const { return result_.bound < result_.best.score + kClosed; }
  [[nodiscard]] double bound() const { return result_.bound; }
  [[nodiscard]] double score() const { return result_.best.score; }
  [[nodiscard]] const std::vector<double>& prices() const { return result_.prices; }

  // Searches a good selection near the best prices.
  void round() {
    double bound = 0.0;
    Selection selection = best_at(stage_, result_.prices, &bound);
    repair(stage_, selection, result_.prices);
    if (!selection.fits(stage_)) return;
    fill(stage_, selection);
    if (selection.score > result_.best.score) result_.best = std::move(selection);
  }

  Relaxation finish() {
    if (!closed()) round();
    fill(stage_, result_.best);
    return std::move(result_);
  }

 private:
  const Stage& stage_;
  Relaxation result_;
};

void bisect(const Stage& stage, Descent& descent) {
  double low = 0.0, high = 1.0;
  while (!descent.look({high}).fits(stage) && high < 1e18) high *= 16.0;
  for (int i = 0; i < kBisections && !descent.closed() && high - low > 1e-9 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (descent.look({middle}).fits(stage) ? high : low) = middle;
  }
}

// Parameters of a descent. Each step follows the subgradient, deflected towards the previous step where the two
// diverge, so that it does not zigzag (Camerini, Fratta, Maffioli, Math. Programming Study 3, 1975).
struct Gait {
  double bend = 0.0;   // 0: the subgradient itself.
  double theta = 1.5;  // Initial factor of Polyak's step.
  int steps_without_gain = 8;
};
constexpr Gait kStraight{0.0, 1.5, 8};
constexpr Gait kBent{1.0, 1.0, 8};

void descend(const Stage& stage, Descent& descent, Selection selection, std::vector<double> prices, const Gait& gait) {
  const std::size_t resources = stage.resources;
  std::vector<double> scale(resources), slope(resources), direction(resources, 0.0);
  for (std::size_t r = 0; r < resources; ++r) scale[r] = std::max(1.0, stage.limits[r]);
  double theta = gait.theta;
  int idle = 0;
  for (int i = 0; i < kSubgradientSteps && !descent.closed(); ++i) {
    // Use in units of a resource's limit, so that GPUs and money weigh alike.
    double along = 0.0, square = 0.0;
    for (std::size_t r = 0; r < resources; ++r) {
      slope[r] = (selection.used[r] - stage.limits[r]) / scale[r];
      if (slope[r] < 0.0 && prices[r] <= 0.0) slope[r] = 0.0;
      along += slope[r] * direction[r];
      square += direction[r] * direction[r];
    }
    const double bend = along < 0.0 ? -gait.bend * along / square : 0.0;
    double norm = 0.0;
    for (std::size_t r = 0; r < resources; ++r) {
      direction[r] = slope[r] + bend * direction[r];
      norm += direction[r] * direction[r];
    }
    if (norm <= 0.0) return;
    const double step = theta * (descent.bound() - descent.score() + 1.0) / norm;
    for (std::size_t r = 0; r < resources; ++r) prices[r] = std::max(0.0, prices[r] + step * direction[r] / scale[r]);
    if (i % kStepsToRound == kStepsToRound - 1) descent.round();
    const double before = descent.bound();
    selection = descent.look(prices);
    idle = descent.bound() < before ? 0 : idle + 1;
    if (idle >= gait.steps_without_gain) {
      theta *= 0.5;
      idle = 0;
      prices = descent.prices();
      selection = descent.look(prices);
      std::fill(direction.begin(), direction.end(), 0.0);
    }
  }
}

}  // namespace

Relaxation relax(const Stage& stage, Selection start) {
  Descent descent(stage, std::move(start));
  Selection free = descent.look(std::vector<double>(stage.resources, 0.0));
  if (!free.fits(stage)) {
    if (stage.resources == 1) {
      bisect(stage, descent);
    } else {
      const std::vector<double> nothing(stage.resources, 0.0);
      descend(stage, descent, free, nothing, kStraight);
      if (!descent.closed()) descend(stage, descent, free, nothing, kBent);
    }
  }
  return descent.finish();
}

Feasibility find_feasible(const Stage& stage) {
  Feasibility result;
  result.prices.assign(stage.resources, 0.0);
  for (std::size_t group = 0; group < stage.groups(); ++group)
    if (stage.begin[group] == stage.begin[group + 1]) result.impossible = true;
  if (result.impossible) return result;
  std::vector<double> prices(stage.resources);
  for (std::size_t r = 0; r < stage.resources; ++r) prices[r] = 1.0 / std::max(1.0, stage.limits[r]);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kFeasibilitySteps; ++i) {
    double bound = 0.0;
    Selection selection = best_at(stage, prices, &bound);
    if (i % kStepsToRound == kStepsToRound - 1) repair(stage, selection, prices);
    if (selection.fits(stage)) {
      result.found = std::move(selection);
      return result;
    }
    if (bound < least) {
      least = bound;
      result.prices = prices;
    }
    // Σ min p·use > p·limits: the prices prove that nothing fits. The margin covers rounding.
    if (bound < -1e-9) {
      result.impossible = true;
      return result;
    }
    for (std::size_t r = 0; r < stage.resources; ++r) {
      const double scale = std::max(1.0, stage.limits[r]);
      const double over = (selection.used[r] - stage.limits[r]) / scale;
      prices[r] = std::max(0.0, prices[r] + over / scale / std::sqrt(1.0 + i));
    }
  }
  return result;
}

}  // namespace penstock::planner::global
