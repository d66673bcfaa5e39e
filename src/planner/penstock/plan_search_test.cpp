#include "planner/penstock/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "core/random.h"

namespace penstock::planner {
namespace {

// Outcomes by a formula, as many new ones a tick as there is time for.
class FormulaOutcomes final : public FleetOutcomes {
 public:
  using Formula = std::function<TrialOutcome(const Fleet&)>;
  explicit FormulaOutcomes(Formula formula) : formula_(std::move(formula)) {}

  // Of less than a replica, as much as one keeps.
  std::optional<TrialOutcome> outcome_at(const Fleet& fleet, double load) override {
    loads.push_back(load);
    return outcome(fleet);
  }
  std::optional<TrialOutcome> outcome(const Fleet& fleet) override {
    if (!known_.contains(fleet)) {
      if (left == 0) return std::nullopt;
      --left;
    }
    known_.insert(fleet);
    return formula_(fleet);
  }
  [[nodiscard]] TrialOutcome at(const Fleet& fleet) const { return formula_(fleet); }
  [[nodiscard]] std::size_t asked() const { return known_.size(); }
  [[nodiscard]] bool asked(const Fleet& fleet) const { return known_.contains(fleet); }

  int left = 1'000'000;
  std::vector<double> loads;  // Load multiples for which less than one replica was tried.

 private:
  Formula formula_;
  std::set<Fleet> known_;
};

TrialOutcome of_all(double requests, double share) {
  const TrialCounts counts{requests, std::floor(requests * std::clamp(share, 0.0, 1.0) + 1e-9)};
  return {counts, counts, counts, {}};
}
// A replica of each pool carries one of `need` parts; what does not fit is missed.
FormulaOutcomes needing(double need, double requests = 1e6) {
  return FormulaOutcomes{
      [=](const Fleet& fleet) { return of_all(requests, *std::min_element(fleet.begin(), fleet.end()) / need); }};
}

std::vector<signals::PoolObservation> pools_of(std::uint32_t count, std::uint32_t least, std::uint32_t most) {
  std::vector<signals::PoolObservation> pools(count);
  for (signals::PoolObservation& pool : pools) {
    pool.min_replicas = least;
    pool.max_replicas = most;
  }
  return pools;
}

FleetPlan plan_of(FormulaOutcomes outcomes, const Fleet& from, const PlanGoal& goal = {}, std::uint32_t least = 1,
                  std::uint32_t most = 100) {
  return search_plan(outcomes, pools_of(static_cast<std::uint32_t>(from.size()), least, most), from, goal).value();
}

TEST(PlanSearch, FindsTheSmallestFleetFromAnyStart) {
  for (const std::uint32_t from : {1U, 5U, 15U, 16U, 17U, 40U, 100U})
    EXPECT_EQ(plan_of(needing(16), {from}).fleet, Fleet{16}) << from;
}

TEST(PlanSearch, LighterFuturesAreNotTriedIfTheHeaviestDecides) {
  PlanGoal goal;
  for (const double multiple : {0.8, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5}) goal.futures.push_back(multiple);
  FormulaOutcomes outcomes = needing(16);
  const auto plan = search_plan(outcomes, pools_of(1, 1, 100), {16}, goal);
  ASSERT_TRUE(plan.has_value());
  EXPECT_TRUE(outcomes.asked({32}));  // The large fleet keeps all at 1.5 times the load, as 21 replicas show.
  EXPECT_TRUE(outcomes.asked({21}));
  for (const std::uint32_t lighter : {26U, 27U, 29U, 30U}) EXPECT_FALSE(outcomes.asked({lighter})) << lighter;
}

TEST(PlanSearch, UnavoidableMissesCountInTheGoal) {
  const FormulaOutcomes outcomes{[](const Fleet& fleet) { return of_all(1e6, std::min(0.95, fleet[0] / 20.0)); }};
  EXPECT_EQ(plan_of(outcomes, {10}, {{0.90}}).fleet, Fleet{18});
  EXPECT_EQ(plan_of(outcomes, {10}, {{0.80}}).fleet, Fleet{16});
}

TEST(PlanSearch, AFleetMayMissHalfAsMuchAsTheGoalAllowsWhereNoneReachesIt) {
  const FormulaOutcomes outcomes{[](const Fleet& fleet) { return of_all(1e6, 0.6 * std::min(1.0, fleet[0] / 20.0)); }};
  const FleetPlan plan = plan_of(outcomes, {10}, {{0.90}});
  EXPECT_EQ(plan.fleet, Fleet{19});
  EXPECT_NEAR(plan.best, 0.6, 1e-6);
  EXPECT_NEAR(plan.attainment, 0.57, 1e-6);
  EXPECT_NEAR(plan.bounds.back().attainment, 0.54, 1e-6);
  EXPECT_GT(plan.bounds.back().needed, 0.54);
  EXPECT_FALSE(plan.bounds.back().is_future());
  EXPECT_EQ(plan.requests, 1e6);
}

TEST(PlanSearch, TheExpectedTrafficMayMissAMultipleOfWhatTheGoalAllows) {
  const FleetPlan plan = plan_of(needing(20), {20}, {.goals = {0.94}, .misses = 2.0});
  EXPECT_EQ(plan.fleet, Fleet{18});
  EXPECT_EQ(plan_of(needing(20), {20}, {.goals = {0.94}}).fleet, Fleet{19});
  EXPECT_EQ(plan_of(needing(20), {20}, {.goals = {0.5}, .misses = 3.0}).fleet, Fleet{1});
  // The futures may miss no more than before.
  EXPECT_EQ(plan_of(needing(20), {20}, {.goals = {0.95}, .futures = {1.0}, .allowance = 0.01, .misses = 2.0}).fleet,
            Fleet{20});
}

TEST(PlanSearch, AnOverloadedFleetGrowsEvenIfDoublingGainsNothing) {
  // Of what a fleet far too small is asked for, nearly nothing is on time, and nor is it with twice the fleet.
  const FormulaOutcomes outcomes{[](const Fleet& fleet) { return of_all(1e6, fleet[0] < 30 ? 0.001 : 1.0); }};
  const FleetPlan plan = plan_of(outcomes, {1});
  EXPECT_EQ(plan.fleet, Fleet{30});
  EXPECT_EQ(plan.best, 1.0);
}

TEST(PlanSearch, AGainOfASmallSegmentIsAGain) {
  const FormulaOutcomes outcomes{[](const Fleet& fleet) {
    TrialOutcome outcome;
    outcome.targets = {{9970, 9970}, {30, std::min(30.0, static_cast<double>(fleet[0]))}};
    outcome.all = {10000, outcome.targets[0].met + outcome.targets[1].met};
    return outcome;
  }};
  EXPECT_EQ(plan_of(outcomes, {5}, {{0.99, 0.90}}).fleet, Fleet{27});
}

TEST(PlanSearch, EachTargetKeepsItsOwnGoal) {
  const auto two = [](const Fleet& fleet) {
    TrialOutcome outcome;
    outcome.targets = {{1e6, 1e6 * std::min(1.0, fleet[0] / 10.0)}, {1e6, 1e6 * std::min(1.0, fleet[0] / 20.0)}};
    outcome.all = {2e6, outcome.targets[0].met + outcome.targets[1].met};
    return outcome;
  };
  EXPECT_EQ(plan_of(FormulaOutcomes{two}, {15}, {{0.99, 0.45}}).fleet, Fleet{10});
  EXPECT_EQ(plan_of(FormulaOutcomes{two}, {15}, {{0.50, 0.90}}).fleet, Fleet{18});
  EXPECT_EQ(plan_of(FormulaOutcomes{two}, {15}, {{0.90}}).fleet, Fleet{18});  // the last goal is that of the rest
}

TEST(PlanSearch, ASegmentWithoutRequestsBlocksNothing) {
  for (const double few : {0.0, 3.0, 20.0}) {
    const FormulaOutcomes outcomes{[=](const Fleet& fleet) {
      TrialOutcome outcome = of_all(1e6, fleet[0] / 8.0);
      outcome.targets = {outcome.all, {few, fleet[0] < 6 ? 0.0 : few}};
      return outcome;
    }};
    EXPECT_EQ(plan_of(outcomes, {30}, {{0.99, 0.99}}).fleet, Fleet{8}) << few;
  }
}

TEST(PlanSearch, UncertaintyFavoursTheCurrentFleet) {
  // Of 10000 requests 9900 are to be kept, give or take half of √(10000 · 0.99 · 0.01) = 5.
  const auto steps = [](double at_8, double at_9) {
    return FormulaOutcomes{[=](const Fleet& fleet) {
      return of_all(10000, fleet[0] < 8 ? 0.1 : fleet[0] == 8 ? at_8 : fleet[0] == 9 ? at_9 : 1.0);
    }};
  };
  EXPECT_EQ(plan_of(steps(0.9903, 1.0), {9}).fleet, Fleet{9});  // 8 would do, but perhaps not
  EXPECT_EQ(plan_of(steps(0.9903, 1.0), {8}).fleet, Fleet{8});  // … and stays where it is the fleet
  EXPECT_EQ(plan_of(steps(0.9897, 1.0), {8}).fleet, Fleet{8});  // as well as where it falls a little short
  EXPECT_EQ(plan_of(steps(0.9890, 1.0), {8}).fleet, Fleet{9});  // beyond doubt it does not
  EXPECT_EQ(plan_of(steps(0.9910, 1.0), {9}).fleet, Fleet{8});  // beyond doubt it does
}

TEST(PlanSearch, GrowthMultipliesTheFleet) {
  EXPECT_EQ(plan_of(needing(16), {16}, {.growth = 1.5}).fleet, Fleet{24});
  EXPECT_EQ(plan_of(needing(16), {16}, {.growth = 0.5}).fleet, Fleet{8});
  // Between the trials of whole fleets: 7 / 1.25 = 5.6 is as much as 6 of 10 and 5 of 10 make in proportion.
  EXPECT_NEAR(plan_of(needing(10), {7}, {.growth = 1.25}, 7, 7).attainment, 0.56, 1e-6);
}

TEST(PlanSearch, PoolsOfWholeReplicasDoNotCountInProportions) {
  // At twice the load (2, 3) is (1, 1.5), halfway from (1, 1) to (1, 2).
  FormulaOutcomes outcomes{[](const Fleet& fleet) { return of_all(1e6, (fleet[0] + 2.0 * fleet[1]) / 10.0); }};
  std::vector<signals::PoolObservation> pools = pools_of(2, 2, 2);
  pools[1].min_replicas = pools[1].max_replicas = 3;
  EXPECT_NEAR(search_plan(outcomes, pools, {2, 3}, {.growth = 2.0}).value().attainment, 0.4, 1e-6);
}

TEST(PlanSearch, MissesOverTheFuturesStayWithinTheAllowance) {
  // 90 % of 16 · 1.5 replicas are 21.6.
  for (const std::uint32_t from : {1U, 8U, 16U, 22U}) {
    const FleetPlan plan = plan_of(needing(16), {from}, {.futures = {1.5}});
    EXPECT_EQ(plan.fleet, Fleet{22}) << from;
    EXPECT_NEAR(plan.over_futures, 22 / 1.5 / 16, 1e-3);
    EXPECT_TRUE(plan.bounds.front().is_future());
  }
  EXPECT_EQ(plan_of(needing(16), {16}, {.futures = {1.5}, .allowance = 0.5}).fleet, Fleet{16});
  // Two of three futures are like now; the third may miss 15 % alone, which 20.4 replicas do.
  EXPECT_EQ(plan_of(needing(16), {16}, {.futures = {0.5, 1.0, 1.5}, .allowance = 0.05}).fleet, Fleet{21});
}

TEST(PlanSearch, ASmallerFleetMayMissHalfTheAllowance) {
  // 95 % of 16 · 1.5 replicas are 22.8; 22 suffice for a fleet that has no more.
  const FleetPlan plan = plan_of(needing(16), {60}, {.futures = {1.5}});
  EXPECT_EQ(plan.fleet, Fleet{23});
  EXPECT_NEAR(plan.bounds.front().needed_over_futures, 0.95, 1e-6);
  EXPECT_EQ(plan_of(needing(16), {23}, {.futures = {1.5}}).fleet, Fleet{23});
  EXPECT_EQ(plan_of(needing(16), {22}, {.futures = {1.5}}).fleet, Fleet{22});
  EXPECT_EQ(plan_of(needing(16), {21}, {.futures = {1.5}}).fleet, Fleet{22});
}

TEST(PlanSearch, AnObjectiveWithAStricterGoalHasASmallerAllowance) {
  const FormulaOutcomes outcomes{[](const Fleet& fleet) {
    const double share = std::min(1.0, fleet[0] / 16.0);
    TrialOutcome outcome;
    outcome.targets = {{1e6, 1e6 * share}, {1e6, 1e6 * share}};
    outcome.all = {2e6, 2e6 * share};
    return outcome;
  }};
  // 10 % of misses for the goal of 80 % are 1 % for a goal of 98 %.
  EXPECT_EQ(plan_of(outcomes, {16}, {.goals = {0.8, 0.98}, .futures = {1.5}}).fleet, Fleet{24});
  EXPECT_EQ(plan_of(outcomes, {16}, {.goals = {0.8, 0.8}, .futures = {1.5}}).fleet, Fleet{22});
}

TEST(PlanSearch, APoolAtItsBoundDoesNotInflateOthers) {
  FormulaOutcomes outcomes{[](const Fleet& fleet) { return of_all(1e6, std::min(fleet[0] / 6.0, fleet[1] / 10.0)); }};
  std::vector<signals::PoolObservation> pools = pools_of(2, 1, 100);
  pools[1].max_replicas = 10;
  const FleetPlan plan = search_plan(outcomes, pools, {6, 10}, {.futures = {1.5}}).value();
  EXPECT_LE(plan.fleet[0], 9U);
  EXPECT_EQ(plan.fleet[1], 10U);
}

TEST(PlanSearch, StaysWithinBounds) {
  EXPECT_EQ(plan_of(needing(50), {10}, {}, 1, 20).fleet, Fleet{20});
  EXPECT_EQ(plan_of(needing(2), {10}, {}, 5, 20).fleet, Fleet{5});
  EXPECT_EQ(plan_of(needing(2), {40}, {}, 5, 20).fleet, Fleet{5});
  EXPECT_EQ(plan_of(needing(2), {1}, {}, 5, 20).fleet, Fleet{5});
  EXPECT_EQ(plan_of(needing(2), {7}, {}, 7, 7).fleet, Fleet{7});
  EXPECT_EQ(plan_of(needing(0.5), {1}, {}, 0, 0).fleet, Fleet{1});  // a fleet of none cannot be tried
}

TEST(PlanSearch, TriesFewFleets) {
  for (const std::uint32_t from : {1U, 300U, 997U, 1000U}) {
    FormulaOutcomes outcomes = needing(700);
    EXPECT_EQ(search_plan(outcomes, pools_of(1, 1, 1000), {from}, {{0.9905}}).value().fleet, Fleet{694});
    EXPECT_LE(outcomes.asked(), 32U) << from;
  }
  FormulaOutcomes near = needing(20);
  EXPECT_EQ(search_plan(near, pools_of(1, 1, 1000), {20}, {}).value().fleet, Fleet{20});
  EXPECT_LE(near.asked(), 3U);  // twice as many, as many, and one less
}

TEST(PlanSearch, ContinuesInTheNextTick) {
  const PlanGoal goal{.growth = 1.2, .futures = {0.8, 1.0, 1.3}, .allowance = 0.02};
  FormulaOutcomes once = needing(31), bit_by_bit = needing(31);
  const FleetPlan expected = search_plan(once, pools_of(2, 1, 100), {3, 70}, goal).value();
  std::optional<FleetPlan> found;
  int ticks = 0;
  while (!found) {
    bit_by_bit.left = 1;
    found = search_plan(bit_by_bit, pools_of(2, 1, 100), {3, 70}, goal);
    ASSERT_LT(++ticks, 200);
  }
  EXPECT_EQ(found->fleet, expected.fleet);
  EXPECT_EQ(found->attainment, expected.attainment);
  EXPECT_EQ(found->bounds.back().attainment, expected.bounds.back().attainment);
  EXPECT_EQ(bit_by_bit.asked(), once.asked());
  EXPECT_EQ(static_cast<std::size_t>(ticks), once.asked());
}

TEST(PlanSearch, ReportsTheCandidatesAndTheChoice) {
  for (const double growth : {1.0, 1.5}) {
    const FleetPlan plan = plan_of(needing(16), {10}, {.growth = growth});
    int chosen = 0;
    for (const Candidate& candidate : plan.tried) {
      EXPECT_NEAR(candidate.slo_attainment, std::min(1.0, candidate.replicas[0] / growth / 16), 1e-5);
      chosen += candidate.chosen ? 1 : 0;
      EXPECT_EQ(candidate.chosen, candidate.replicas == plan.fleet);
    }
    EXPECT_EQ(chosen, 1);
  }
}

// ---- against trying every fleet -------------------------------------------------------------------------------------

// Rising outcomes of random shape: of each target a share that no fleet can keep, a size from which all the rest is
// kept, and how the share rises up to it; the pool that is shortest of it counts.
struct Shape {
  struct Target {
    double requests, most, power;
    std::vector<double> needs;  // by pool
  };
  std::vector<Target> targets;

  static Shape drawn(core::RandomStream& random, std::size_t pools) {
    Shape shape;
    for (std::uint64_t i = 1 + random.below(3); i > 0; --i) {
      Target target{std::floor(random.uniform(1500, 5000)), random.uniform(0.7, 1.0), random.uniform(0.7, 5.0), {}};
      for (std::size_t pool = 0; pool < pools; ++pool) target.needs.push_back(random.uniform(1, 60));
      shape.targets.push_back(target);
    }
    return shape;
  }
  [[nodiscard]] TrialOutcome outcome(const Fleet& fleet) const {
    TrialOutcome outcome;
    for (const Target& target : targets) {
      double share = 1.0;
      for (std::size_t pool = 0; pool < fleet.size(); ++pool) share = std::min(share, fleet[pool] / target.needs[pool]);
      // In steps, so that twice a fleet that is too small is clearly a gain.
      const double steps = std::floor(40.0 * target.most * std::pow(share, target.power));
      outcome.targets.push_back({target.requests, target.requests * steps / 40.0});
      outcome.all.requests += target.requests;
      outcome.all.met += outcome.targets.back().met;
    }
    return outcome;
  }
};

// What the header promises, by trying one fleet after the other.
class BruteForce {
 public:
  BruteForce(const Shape& shape, const std::vector<signals::PoolObservation>& pools, const Fleet& from,
             const PlanGoal& goal)
      : shape_(shape), pools_(pools), from_(from), goal_(goal) {
    fleet_ = doubled(from);
    while (doubled(fleet_) != fleet_ && !is_large(fleet_)) fleet_ = doubled(fleet_);
    best_ = at(fleet_, goal.growth);
    Fleet most;
    for (const auto& pool : pools) most.push_back(pool.max_replicas);
    rises_ = at(most, goal.growth).all.attainment() - best_.all.attainment() < 1e-3;
    reachable_ = over_futures(fleet_);
  }
  [[nodiscard]] const TrialOutcome& best() const { return best_; }
  // Until the most is kept: no target that keeps nothing at some size and nothing at twice that, while others do well.
  [[nodiscard]] bool rises() const { return rises_; }

  Fleet least() {
    for (std::size_t pool = 0; pool < fleet_.size(); ++pool) {
      Fleet tried = fleet_;
      for (tried[pool] = pools_[pool].min_replicas; tried[pool] < fleet_[pool] && !keeps(tried, pool);) ++tried[pool];
      fleet_ = tried;
    }
    return fleet_;
  }

 private:
  static constexpr double kSame = 0.02;  // Loads that differ by less are tried as one.

  [[nodiscard]] TrialOutcome at(const Fleet& fleet, double load) const {
    return at(fleet, std::vector<double>(fleet.size(), std::abs(load - 1.0) < kSame ? 1.0 : load));
  }
  [[nodiscard]] TrialOutcome at(const Fleet& fleet, const std::vector<double>& loads) const {
    for (std::size_t i = 0; i < fleet.size(); ++i)
      if (fleet[i] < loads[i]) return shape_.outcome(fleet);
    // Σ over all pools' thresholds: the fleet rounded up where its part is above the threshold.
    std::vector<double> thresholds = {0.0};
    for (std::size_t i = 0; i < fleet.size(); ++i) {
      const double replicas = fleet[i] / loads[i];
      thresholds.push_back(replicas - std::floor(replicas));
    }
    std::sort(thresholds.begin(), thresholds.end());
    thresholds.push_back(1.0);
    TrialOutcome outcome;
    for (std::size_t i = 0; i + 1 < thresholds.size(); ++i) {
      Fleet rounded;
      for (std::size_t pool = 0; pool < fleet.size(); ++pool) {
        const double replicas = fleet[pool] / loads[pool], part = replicas - std::floor(replicas);
        rounded.push_back(static_cast<std::uint32_t>(replicas) + (part > thresholds[i] ? 1 : 0));
      }
      outcome += shape_.outcome(rounded).times(thresholds[i + 1] - thresholds[i]);
    }
    return outcome;
  }
  [[nodiscard]] TrialOutcome over_futures(const Fleet& fleet) const {
    TrialOutcome mean;
    for (const double multiple : goal_.futures) {
      std::vector<double> loads;
      for (const std::uint32_t count : fleet)
        loads.push_back(goal_.growth * (is_growth(multiple) ? load_of_future(multiple, count) : 1.0));
      mean += at(fleet, loads).times(1.0 / static_cast<double>(goal_.futures.size()));
    }
    return mean;
  }
  // `reachable`: what bounds leave; empty if they do not matter.
  [[nodiscard]] bool covers(const Fleet& fleet, const TrialOutcome& best, const TrialOutcome* reachable,
                            double part = 1.0, double doubts = 0.0) const {
    if (goal_.futures.empty()) return true;
    const TrialOutcome mean = over_futures(fleet);
    for (std::size_t i = 0; i < mean.targets.size(); ++i) {
      const double allowed = std::min(1.0, part * goal_.allowance * (1.0 - goal_.goals[i]) / (1.0 - goal_.goals[0]));
      double least = best.targets[i].attainment() * (1.0 - allowed);
      least -= doubts * std::sqrt(least * (1.0 - least) / best.targets[i].requests);
      if (reachable != nullptr) least = std::min(least, reachable->targets[i].attainment());
      if (mean.targets[i].attainment() < least - 1e-9) return false;
    }
    return true;
  }
  [[nodiscard]] Fleet doubled(Fleet fleet) const {
    for (std::size_t i = 0; i < fleet.size(); ++i)
      fleet[i] = std::clamp(2 * fleet[i], pools_[i].min_replicas, pools_[i].max_replicas);
    return fleet;
  }
  // Covers the futures, and more of it would keep no more.
  [[nodiscard]] bool is_large(const Fleet& fleet) const {
    const TrialOutcome outcome = at(fleet, goal_.growth);
    const double kept = outcome.all.attainment();
    const double by_more = at(doubled(fleet), goal_.growth).all.attainment();
    return kept >= 0.5 && covers(fleet, outcome, nullptr) && by_more - kept < 1e-3;
  }
  [[nodiscard]] bool keeps(const Fleet& fleet, std::size_t pool) const {
    const double misses = (static_cast<double>(pool) + 1.0) / static_cast<double>(fleet.size());
    const TrialOutcome outcome = at(fleet, goal_.growth);
    for (std::size_t i = 0; i < outcome.targets.size(); ++i) {
      const double best = best_.targets[i].attainment();
      const double goal = goal_.goals[i];
      const double allowed = goal_.misses * std::max(best - goal, 0.5 * best * (1.0 - goal));
      const double least = std::max(0.0, best - misses * allowed);
      const double doubt = 0.5 * std::sqrt(least * (1.0 - least) / outcome.targets[i].requests);
      const double needed = fleet[pool] < from_[pool] ? std::min(best, least + doubt) : least - doubt;
      if (outcome.targets[i].attainment() < needed - 1e-12) return false;
    }
    const bool shrinks = fleet[pool] < from_[pool];
    return covers(fleet, best_, &reachable_, shrinks ? 0.5 : 1.0, shrinks ? 0.0 : 0.5);
  }

  const Shape& shape_;
  const std::vector<signals::PoolObservation>& pools_;
  Fleet from_;
  PlanGoal goal_;
  Fleet fleet_;
  TrialOutcome best_, reachable_;
  bool rises_ = true;
};

void compare_with_every_fleet(std::size_t pool_count, bool grows) {
  core::RandomStream random{20260214 + pool_count};
  int compared = 0, by_futures = 0, at_bound = 0;
  for (int round = 0; round < 600; ++round) {
    const Shape shape = Shape::drawn(random, pool_count);
    const bool with_futures = round % 2 == 1;
    std::vector<signals::PoolObservation> pools(pool_count);
    Fleet from;
    for (signals::PoolObservation& pool : pools) {
      // A pool of less than one replica at the largest load is tried at that load, which this formula does not know.
      pool.min_replicas = static_cast<std::uint32_t>((with_futures ? 5 : 1) + random.below(5));
      pool.max_replicas = pool.min_replicas + static_cast<std::uint32_t>(random.below(150));
      from.push_back(static_cast<std::uint32_t>(1 + random.below(120)));
    }
    PlanGoal goal;
    goal.goals.clear();
    for (std::size_t i = 0; i < shape.targets.size(); ++i) goal.goals.push_back(random.uniform(0.5, 0.999));
    goal.misses = random.below(2) == 0 ? 1.0 : random.uniform(1.0, 3.0);
    if (grows) goal.growth = random.below(2) == 0 ? 0.5 : 2.0;
    if (with_futures) {
      for (int i = 0; i < 8; ++i)
        goal.futures.push_back(i % 2 == 0 ? random.uniform(0.5, 0.9) : random.uniform(1.1, 1.9));
      std::sort(goal.futures.begin(), goal.futures.end());
      goal.allowance = random.uniform(0.001, 0.4);
    }
    BruteForce every{shape, pools, from, goal};
    if (!every.rises()) continue;
    ++compared;
    FormulaOutcomes outcomes{[&](const Fleet& fleet) { return shape.outcome(fleet); }};
    const auto plan = search_plan(outcomes, pools, from, goal);
    ASSERT_TRUE(plan.has_value());
    ASSERT_NEAR(plan->best, every.best().all.attainment(), 1e-9) << "round " << round;
    ASSERT_EQ(plan->fleet, every.least()) << "round " << round;
    ASSERT_LE(outcomes.asked(), 300 * pool_count);
    for (std::size_t i = 0; i < pool_count; ++i) {
      ASSERT_GE(plan->fleet[i], pools[i].min_replicas);
      ASSERT_LE(plan->fleet[i], pools[i].max_replicas);
      at_bound += plan->fleet[i] == pools[i].max_replicas ? 1 : 0;
    }
    if (!goal.futures.empty()) {
      goal.futures.clear();
      by_futures += BruteForce{shape, pools, from, goal}.least() != plan->fleet ? 1 : 0;
    }
  }
  EXPECT_GT(compared, 580);
  EXPECT_GT(by_futures, 30);
  EXPECT_GT(at_bound, 30);
}

TEST(PlanSearchProperty, OnePoolGetsTheSmallestFleetThatMeetsTheGoals) { compare_with_every_fleet(1, false); }
TEST(PlanSearchProperty, OnePoolGetsTheSmallestFleetForChangingTraffic) { compare_with_every_fleet(1, true); }
TEST(PlanSearchProperty, TwoPoolsAreMinimisedOneAfterTheOther) { compare_with_every_fleet(2, false); }
TEST(PlanSearchProperty, TwoPoolsAreMinimisedForChangingTraffic) { compare_with_every_fleet(2, true); }

TEST(PlanSearch, LessThanAReplicaIsTriedAtTheRateItself) {
  FormulaOutcomes outcomes = needing(1.0);
  (void)search_plan(outcomes, pools_of(1, 1, 8), {1}, {.futures = {2.0}});
  ASSERT_FALSE(outcomes.loads.empty());
  for (const double load : outcomes.loads) EXPECT_GT(load, 2.0);
}

}  // namespace
}  // namespace penstock::planner
