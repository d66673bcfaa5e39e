#include "planner/penstock/plan_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "planner/penstock/kept.h"

namespace penstock::planner {
namespace {

constexpr double kGain = 0.005;  // Gain of a doubled fleet below which it counts as none.
constexpr double kDoubt = 0.5;   // Standard deviations.
constexpr double kSameLoad = 0.02;
constexpr double kMoreForOne = 1.5;  // Added to futures of a pool of one replica (docs/decisions/0037).
constexpr double kRounding = 1e-9;

// How much a fleet may miss over the futures: a part of the allowance, and standard deviations of the misses more.
struct FuturesCare {
  double allowance = 1.0;
  double doubts = 0.0;
};
constexpr FuturesCare kToStay{1.0, kDoubt};
constexpr FuturesCare kToShrink{kShrinkAllowance, 0.0};

// Standard deviation of the attainment of this many requests.
double deviation(double attainment, double requests) {
  return std::sqrt(attainment * (1.0 - attainment) / std::max(1.0, requests));
}

class FleetSearch {
 public:
  FleetSearch(FleetOutcomes& outcomes, const std::vector<signals::PoolObservation>& pools, const PlanGoal& goal)
      : outcomes_(outcomes), pools_(pools), goal_(goal) {}

  std::optional<FleetPlan> run(const Fleet& from) {
    FleetPlan plan;
    plan.fleet = large_enough(from);
    measure_by(plan.fleet);
    plan.best = best_.all.attainment();
    plan.requests = best_.all.requests;
    // If the bounds leave no room for the futures, as much of it as fits is used.
    if (!covers_futures(plan.fleet, kToShrink)) reachable_ = over_futures(plan.fleet);
    plan.bounds.resize(from.size());
    for (std::size_t pool = 0; pool < from.size() && !exhausted_; ++pool)
      smallest(plan, pool, from[pool], static_cast<double>(pool + 1) / static_cast<double>(from.size()));
    plan.attainment = judge(plan.fleet).all.attainment();
    plan.over_futures = over_futures(plan.fleet).all.attainment();
    if (exhausted_) return std::nullopt;
    for (const auto& [fleet, outcome] : judged_)
      plan.tried.push_back(
          {fleet, outcome.all.attainment(), outcome.ttft.attainment(), outcome.itl.attainment(), fleet == plan.fleet});
    return plan;
  }

 private:
  [[nodiscard]] std::uint32_t least(std::size_t pool) const { return std::max(1U, pools_[pool].min_replicas); }
  [[nodiscard]] std::uint32_t most(std::size_t pool) const { return std::max(1U, pools_[pool].max_replicas); }

  TrialOutcome attempt(const Fleet& fleet) {
    return attempt(tried_, fleet, [&] { return outcomes_.outcome(fleet); });
  }

  template <class Key, class Trial>
  TrialOutcome attempt(std::map<Key, TrialOutcome>& tried, const Key& key, const Trial& trial) {
    const auto known = tried.find(key);
    if (known != tried.end()) return known->second;
    if (exhausted_) return {};
    const std::optional<TrialOutcome> outcome = trial();
    exhausted_ = !outcome;
    return outcome ? tried.emplace(key, *outcome).first->second : TrialOutcome{};
  }

  TrialOutcome attempt_at(const Fleet& fleet, double load) {
    return attempt(tried_at_, std::pair{fleet, load}, [&] { return outcomes_.outcome_at(fleet, load); });
  }

  // Attainment of the fleet at a multiple of the traffic in each pool, computed as the attainment of a fleet smaller by
  // that factor. Fractions of replicas are rounded pool by pool, the largest first, so that outcomes increase with
  // fleets. Less than one replica cannot represent a pool; the rate of the traffic is then raised instead.
  TrialOutcome attempt(const Fleet& fleet, const std::vector<double>& loads) {
    Fleet corner = fleet;
    std::vector<std::pair<double, std::size_t>> parts;  // Fraction of a replica, and the index of its pool.
    for (std::size_t i = 0; i < fleet.size(); ++i) {
      if (std::abs(loads[i] - 1.0) < kSameLoad) continue;
      if (fleet[i] < loads[i]) return attempt_at(fleet, *std::max_element(loads.begin(), loads.end()));
      const double replicas = fleet[i] / loads[i];
      corner[i] = static_cast<std::uint32_t>(replicas);
      if (replicas > corner[i]) parts.emplace_back(replicas - corner[i], i);
    }
    std::sort(parts.rbegin(), parts.rend());
    parts.emplace_back(0.0, 0);
    TrialOutcome between = attempt(corner).times(1.0 - parts.front().first);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      ++corner[parts[i].second];
      between += attempt(corner).times(parts[i].first - parts[i + 1].first);
    }
    return between;
  }

  // Attainment of the fleet on the planned traffic.
  TrialOutcome judge(const Fleet& fleet) {
    return judged_.insert_or_assign(fleet, attempt(fleet, std::vector<double>(fleet.size(), goal_.growth)))
        .first->second;
  }

  // Doubles the fleet until doubling gains nothing and the futures are covered.
  Fleet large_enough(const Fleet& from) {
    const auto grown = [&](const Fleet& fleet) {
      Fleet more = fleet;
      for (std::size_t i = 0; i < more.size(); ++i) more[i] = std::clamp(2 * more[i], least(i), most(i));
      return more;
    };
    Fleet large = grown(from);
    for (Fleet more = grown(large); more != large && !exhausted_ && gains(large, more); more = grown(large))
      large = more;
    return large;
  }

  // What this fleet keeps is the best that goals are measured by. Over the futures, all requests count as reachable.
  void measure_by(const Fleet& large) {
    best_ = judge(large);
    reachable_ = all_of(best_);
  }

  [[nodiscard]] bool gains(const Fleet& large, const Fleet& more) {
    measure_by(large);
    const TrialOutcome& kept = best_;
    if (kept.all.attainment() < kHardlyHalf || !covers_futures(large)) return true;
    if (kept.all.attainment() > kAllKept) return false;
    const TrialOutcome kept_by_more = judge(more);
    if (kept_by_more.all.attainment() - kept.all.attainment() >= kGain) return true;
    for (std::size_t i = 0; i < std::min(kept.targets.size(), kept_by_more.targets.size()); ++i)
      if (kept_by_more.targets[i].attainment() - kept.targets[i].attainment() >= kGain) return true;
    return false;
  }

  // Mean over the futures.
  TrialOutcome over_futures(const Fleet& fleet) {
    if (!has_futures()) return judge(fleet);
    TrialOutcome mean;
    for (const double multiple : goal_.futures) mean += in_future(fleet, multiple).times(part_of_future());
    return mean;
  }

  [[nodiscard]] bool has_futures() const { return !goal_.futures.empty() && goal_.allowance < 1.0; }
  [[nodiscard]] double part_of_future() const { return 1.0 / static_cast<double>(goal_.futures.size()); }

  // A future without growth is taken to be like the expected traffic, which saves trials of large fleets.
  TrialOutcome in_future(const Fleet& fleet, double multiple) {
    return is_growth(multiple) ? attempt(fleet, loads_at(fleet, multiple)) : judge(fleet);
  }

  [[nodiscard]] std::vector<double> loads_at(const Fleet& fleet, double multiple) const {
    std::vector<double> loads;
    for (const std::uint32_t replicas : fleet) loads.push_back(goal_.growth * load_of_future(multiple, replicas));
    return loads;
  }

  // Returns true if no objective misses more than is allowed over the futures. The heaviest future comes first: a fleet
  // keeps in each lighter one at least as much, and at most as much as of the expected traffic, which mostly decides
  // before all futures are tried.
  [[nodiscard]] bool covers_futures(const Fleet& fleet, const FuturesCare& care = {}) {
    if (!has_futures()) return true;
    const TrialOutcome expected = judge(fleet);
    TrialOutcome sum;
    double left = 1.0;
    for (auto multiple = goal_.futures.rbegin(); multiple != goal_.futures.rend() && !exhausted_; ++multiple) {
      const TrialOutcome outcome = in_future(fleet, *multiple);
      const auto with_rest = [&](TrialOutcome mean, const TrialOutcome& rest) { return mean += rest.times(left); };
      if (keeps_over_futures(with_rest(sum, outcome), care)) return true;
      sum += outcome.times(part_of_future());
      left -= part_of_future();
      if (!keeps_over_futures(with_rest(sum, expected), care)) return false;
    }
    return keeps_over_futures(sum, care);
  }

  [[nodiscard]] bool keeps_over_futures(const TrialOutcome& mean, const FuturesCare& care) const {
    if (mean.targets.empty()) return mean.all.attainment() >= needed_over_futures(best_.all, reachable_.all, 0, care);
    for (std::size_t i = 0; i < mean.targets.size(); ++i)
      if (mean.targets[i].attainment() < needed_over_futures(best_.targets[i], reachable_.targets[i], i, care))
        return false;
    return true;
  }

  [[nodiscard]] double needed_over_futures(const TrialCounts& best, const TrialCounts& reachable, std::size_t objective,
                                           const FuturesCare& care) const {
    const double scale = (1.0 - goal_at(objective)) / std::max(kRounding, 1.0 - goal_at(0));
    const double least = best.attainment() * (1.0 - std::min(1.0, care.allowance * goal_.allowance * scale));
    return std::min(least - care.doubts * deviation(least, best.requests), reachable.attainment()) - kRounding;
  }

  // As if every request met its objective.
  [[nodiscard]] static TrialOutcome all_of(TrialOutcome outcome) {
    outcome.all.met = outcome.all.requests;
    for (TrialCounts& counts : outcome.targets) counts.met = counts.requests;
    return outcome;
  }

  [[nodiscard]] double goal_at(std::size_t objective) const {
    return goal_.goals[std::min(objective, goal_.goals.size() - 1)];
  }

  // Returns true if the misses are within the allowed share, for each objective. `doubts`: the standard deviations by
  // which it must be better. A result equal to the best one always suffices, however few the requests.
  [[nodiscard]] bool keeps_goals(const TrialOutcome& outcome, double share_of_misses, double doubts) const {
    const auto keeps = [&](const TrialCounts& counts, const TrialCounts& best, double goal) {
      return counts.attainment() >= needed(best, goal, share_of_misses, doubts);
    };
    if (outcome.targets.empty()) return keeps(outcome.all, best_.all, goal_.goals.front());
    for (std::size_t i = 0; i < outcome.targets.size(); ++i)
      if (!keeps(outcome.targets[i], best_.targets[i], goal_at(i))) return false;
    return true;
  }

  [[nodiscard]] double needed(const TrialCounts& best, double goal, double share_of_misses, double doubts) const {
    const double misses = share_of_misses * goal_.misses * allowed_misses(best.attainment(), goal);
    const double least = std::max(0.0, best.attainment() - misses);
    return std::min(best.attainment(), least + doubts * deviation(least, best.requests)) - kRounding;
  }

  // The objective that the outcome misses most.
  [[nodiscard]] PlanBound bound_of(const TrialOutcome& outcome, double share_of_misses, double doubts) const {
    PlanBound bound{false, outcome.all.attainment(), needed(best_.all, goal_.goals.front(), share_of_misses, doubts)};
    for (std::size_t i = 0; i < outcome.targets.size(); ++i) {
      const double goal = goal_at(i);
      const double least = needed(best_.targets[i], goal, share_of_misses, doubts);
      const double attainment = outcome.targets[i].attainment();
      if (i == 0 || attainment - least < bound.attainment - bound.needed) {
        bound.attainment = attainment;
        bound.needed = least;
      }
    }
    return bound;
  }

  [[nodiscard]] bool keeps(FleetPlan& plan, std::size_t pool, std::uint32_t replicas, std::uint32_t there_is,
                           double share_of_misses) {
    Fleet tried = plan.fleet;
    tried[pool] = replicas;
    const bool shrinks = replicas < there_is;
    const double doubts = shrinks ? kDoubt : -kDoubt;
    const TrialOutcome outcome = judge(tried);
    const bool good = keeps_goals(outcome, share_of_misses, doubts);
    const FuturesCare& care = shrinks ? kToShrink : kToStay;
    const bool both = good && covers_futures(tried, care);
    if (!both && !exhausted_) {
      // The last failed trial is the one with one replica less.
      plan.bounds[pool] = bound_of(outcome, share_of_misses, doubts);
      if (good) plan.bounds[pool].needed_over_futures = needed_over_futures(best_.all, reachable_.all, 0, care);
    }
    return both;
  }

  // Lowers the pool to the minimum that meets the goal.
  void smallest(FleetPlan& plan, std::size_t pool, std::uint32_t there_is, double share_of_misses) {
    // `enough` meets the goal; `short_of` does not, or is not allowed.
    std::uint32_t enough = plan.fleet[pool], short_of = least(pool) - 1;
    if (enough <= least(pool)) return;
    const auto holds = [&](std::uint32_t replicas) { return keeps(plan, pool, replicas, there_is, share_of_misses); };
    const std::uint32_t guess = std::clamp(there_is, least(pool), enough - 1);
    if (holds(guess)) {
      enough = guess;
      for (std::uint32_t step = 1; enough > least(pool) && !exhausted_; step *= 2) {
        const std::uint32_t next = enough > least(pool) + step ? enough - step : least(pool);
        if (!holds(next)) {
          short_of = next;
          break;
        }
        enough = next;
      }
    } else {
      short_of = guess;
      for (std::uint32_t step = 1; short_of + step < enough && !exhausted_; step *= 2) {
        if (holds(short_of + step)) {
          enough = short_of + step;
          break;
        }
        short_of += step;
      }
    }
    while (enough - short_of > 1 && !exhausted_) {
      const std::uint32_t middle = short_of + (enough - short_of) / 2;
      (holds(middle) ? enough : short_of) = middle;
    }
    plan.fleet[pool] = enough;
    if (enough <= least(pool)) {
      plan.bounds[pool] = {};
    } else if (plan.bounds[pool].is_future()) {
      Fleet fewer = plan.fleet;
      --fewer[pool];
      plan.bounds[pool].over_futures = over_futures(fewer).all.attainment();
    }
  }

  FleetOutcomes& outcomes_;
  const std::vector<signals::PoolObservation>& pools_;
  PlanGoal goal_;
  std::map<Fleet, TrialOutcome> tried_;                        // At the rate of the traffic.
  std::map<std::pair<Fleet, double>, TrialOutcome> tried_at_;  // At other rates.
  std::map<Fleet, TrialOutcome> judged_;                       // At the planned rate.
  TrialOutcome best_;                                          // Of a fleet of any size, on the planned traffic.
  TrialOutcome reachable_;                                     // And over the futures.
  bool exhausted_ = false;
};

}  // namespace

bool is_growth(double multiple) { return multiple > 1.0 + kSameLoad; }

double load_of_future(double multiple, std::uint32_t replicas) {
  if (!is_growth(multiple)) return multiple;
  return multiple + kMoreForOne / (static_cast<double>(replicas) * replicas * replicas);
}

std::optional<FleetPlan> search_plan(FleetOutcomes& outcomes, const std::vector<signals::PoolObservation>& pools,
                                     const Fleet& from, const PlanGoal& goal) {
  return FleetSearch{outcomes, pools, goal}.run(from);
}

}  // namespace penstock::planner
