// Plans for small random fleets against every fleet there is, and what holds for all plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/random.h"
#include "planner/global/global_testing.h"

namespace penstock::planner::global {
namespace {

using core::RandomStream;
using testing::error_of;
using testing::planned;

constexpr double kNear = 1e-5;  // the planner counts traffic in millionths

struct Fleet {
  std::vector<Deployment> deployments;
  std::vector<Hardware> hardware;
  Budget budget;
};

// Figures on a grid, so that ties are common.
Offer random_offer(RandomStream& random, const std::string& pool, const std::string& hardware) {
  Offer offer{{{pool, hardware, static_cast<std::uint32_t>(1 + random.below(3))}}, {}};
  const std::uint64_t steps = 1 + random.below(4);
  std::uint32_t replicas = static_cast<std::uint32_t>(random.below(2));
  double carried = static_cast<double>(random.below(3));
  for (std::uint64_t s = 0; s < steps; ++s) {
    offer.steps.push_back({{replicas}, carried});
    replicas += 1;
    carried += 0.5 * static_cast<double>(random.below(6));
  }
  return offer;
}

Fleet random_fleet(std::uint64_t seed) {
  RandomStream random{seed};
  Fleet fleet;
  const std::string kinds[] = {"a", "b", "c"};
  for (const std::string& kind : kinds) {
    Hardware line{kind, 0.5 * static_cast<double>(random.below(8)), std::nullopt};
    if (random.below(2) == 0) line.gpus = 3 + random.below(8);
    fleet.hardware.push_back(line);
  }
  const std::uint64_t deployments = 1 + random.below(4);
  for (std::uint64_t d = 0; d < deployments; ++d) {
    Deployment deployment;
    deployment.name = "d" + std::to_string(d);
    deployment.priority = static_cast<int>(random.below(3));
    deployment.weight = 1.0 + static_cast<double>(random.below(3));
    deployment.demand_rps = 0.5 * static_cast<double>(random.below(16));
    const std::uint64_t offers = 1 + random.below(2);
    for (std::uint64_t o = 0; o < offers; ++o)
      deployment.offers.push_back(random_offer(random, "p" + std::to_string(o), kinds[random.below(3)]));
    fleet.deployments.push_back(deployment);
  }
  if (random.below(3) != 0) fleet.budget.gpus = 4 + random.below(14);
  if (random.below(3) == 0) fleet.budget.money_per_hour = 4.0 + 0.5 * static_cast<double>(random.below(60));
  return fleet;
}

// Numbers that are compared one after the other, higher is better: for each class the level and the value, then -cost.
std::vector<double> worth(const Fleet& fleet, const std::vector<std::vector<std::size_t>>& steps,
                          const std::vector<double>& kept_max, Objective objective, bool* fits) {
  double gpus = 0.0, cost = 0.0;
  std::vector<double> by_kind(fleet.hardware.size(), 0.0), level(3, std::numeric_limits<double>::infinity()),
      value(3, 0.0);
  for (std::size_t d = 0; d < fleet.deployments.size(); ++d) {
    const Deployment& deployment = fleet.deployments[d];
    double carried = 0.0;
    for (std::size_t o = 0; o < deployment.offers.size(); ++o) {
      const Offer& offer = deployment.offers[o];
      const Step& step = offer.steps[steps[d][o]];
      carried += step.carried_rps;
      for (std::size_t k = 0; k < fleet.hardware.size(); ++k) {
        if (fleet.hardware[k].name != offer.pools[0].hardware) continue;
        const double here = static_cast<double>(step.replicas[0]) * offer.pools[0].gpus_per_replica;
        gpus += here;
        by_kind[k] += here;
        cost += here * fleet.hardware[k].price_per_gpu_hour;
      }
    }
    const double kept = std::min(carried, deployment.demand_rps);
    const auto c = static_cast<std::size_t>(2 - deployment.priority);
    value[c] += (objective == Objective::kMostTraffic ? deployment.weight : 1.0) * kept;
    if (kept < kept_max[d]) level[c] = std::min(level[c], kept / deployment.demand_rps / deployment.weight);
  }
  *fits = !fleet.budget.gpus || gpus <= static_cast<double>(*fleet.budget.gpus);
  *fits = *fits && (!fleet.budget.money_per_hour || cost <= *fleet.budget.money_per_hour);
  for (std::size_t k = 0; k < by_kind.size(); ++k)
    *fits = *fits && (!fleet.hardware[k].gpus || by_kind[k] <= static_cast<double>(*fleet.hardware[k].gpus));
  std::vector<double> result;
  for (std::size_t c = 0; c < 3; ++c) {
    if (objective == Objective::kMaxMin) result.push_back(level[c]);
    result.push_back(value[c]);
  }
  result.push_back(-cost);
  return result;
}

bool above(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::abs(a[i] - b[i]) < kNear)) return a[i] > b[i];
  return false;
}

void every_fleet(const Fleet& fleet, const std::function<void(const std::vector<std::vector<std::size_t>>&)>& see) {
  std::vector<std::vector<std::size_t>> steps;
  std::vector<std::pair<std::size_t, std::size_t>> digits;
  for (std::size_t d = 0; d < fleet.deployments.size(); ++d) {
    steps.emplace_back(fleet.deployments[d].offers.size(), 0);
    for (std::size_t o = 0; o < steps[d].size(); ++o) digits.emplace_back(d, o);
  }
  while (true) {
    see(steps);
    std::size_t i = 0;
    for (; i < digits.size(); ++i) {
      auto& digit = steps[digits[i].first][digits[i].second];
      if (++digit < fleet.deployments[digits[i].first].offers[digits[i].second].steps.size()) break;
      digit = 0;
    }
    if (i == digits.size()) return;
  }
}

std::vector<double> most_of_each(const Fleet& fleet) {
  std::vector<double> most;
  for (const Deployment& deployment : fleet.deployments) {
    double all = 0.0;
    for (const Offer& offer : deployment.offers) all += offer.steps.back().carried_rps;
    most.push_back(std::min(all, deployment.demand_rps));
  }
  return most;
}

// What the best fleet is worth; empty: none fits.
std::vector<double> best_by_trying(const Fleet& fleet, Objective objective) {
  const std::vector<double> most = most_of_each(fleet);
  std::vector<double> best;
  every_fleet(fleet, [&](const auto& steps) {
    bool fits = false;
    std::vector<double> here = worth(fleet, steps, most, objective, &fits);
    if (fits && (best.empty() || above(here, best))) best = std::move(here);
  });
  return best;
}

std::vector<double> worth_of(const Fleet& fleet, const GlobalPlan& plan, Objective objective, bool* fits) {
  std::vector<std::vector<std::size_t>> steps;
  std::size_t at = 0;
  for (const Deployment& deployment : fleet.deployments) {
    steps.emplace_back();
    for (const Offer& offer : deployment.offers) {
      std::size_t s = 0;
      while (offer.steps[s].replicas[0] != plan.pools[at].replicas) ++s;
      steps.back().push_back(s);
      ++at;
    }
  }
  return worth(fleet, steps, most_of_each(fleet), objective, fits);
}

void expect_best(Objective objective, const Options& limits, std::uint64_t fleets) {
  std::uint64_t solved = 0, proven = 0;
  for (std::uint64_t seed = 0; seed < fleets; ++seed) {
    SCOPED_TRACE(seed);
    const Fleet fleet = random_fleet(seed);
    const std::vector<double> best = best_by_trying(fleet, objective);
    Options options = limits;
    options.objective = objective;
    const auto result = plan(fleet.deployments, fleet.hardware, fleet.budget, options);
    ASSERT_EQ(result.has_value(), !best.empty());
    if (!result) continue;
    ++solved;
    bool fits = false;
    const std::vector<double> found = worth_of(fleet, *result, objective, &fits);
    ASSERT_TRUE(fits) << "over a budget";
    ASSERT_FALSE(above(found, best)) << "better than the best: the trial is wrong";
    if (result->gap == 0.0) {
      ++proven;
      ASSERT_FALSE(above(best, found)) << "reported as optimal";
    }
    // Bounds of the first class that there is hold without a condition.
    const std::size_t c = static_cast<std::size_t>(2 - result->classes[0].priority);
    const std::size_t width = objective == Objective::kMaxMin ? 2 : 1;
    const ClassPlan& first = result->classes[0];
    const double bound = objective == Objective::kMaxMin ? first.level_bound : first.value_bound;
    ASSERT_GE(bound, best[c * width] - kNear);
  }
  EXPECT_GT(solved, fleets / 2);
  if (limits.states_max > 1) {
    EXPECT_EQ(proven, solved);
  }
}

TEST(GlobalPlanner, FindsWhatTryingEveryFleetFinds) { expect_best(Objective::kMostTraffic, {}, 400); }

TEST(GlobalPlanner, FindsTheFairestOfAllFleets) { expect_best(Objective::kMaxMin, {}, 400); }

TEST(GlobalPlanner, StatesItsGapWhenTheSearchIsCutShort) {
  Options limits;
  limits.states_max = 1;
  limits.work_max = 1;
  expect_best(Objective::kMostTraffic, limits, 400);
  expect_best(Objective::kMaxMin, limits, 200);
}

TEST(GlobalPlanner, GivesTheSamePlanForEveryOrderOfTheInput) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Fleet fleet = random_fleet(seed);
    if (!error_of(fleet.deployments, fleet.hardware, fleet.budget).empty()) continue;
    const GlobalPlan straight = planned(fleet.deployments, fleet.hardware, fleet.budget);
    Fleet turned = fleet;
    std::reverse(turned.deployments.begin(), turned.deployments.end());
    std::rotate(turned.hardware.begin(), turned.hardware.begin() + 1, turned.hardware.end());
    for (Deployment& deployment : turned.deployments) std::reverse(deployment.offers.begin(), deployment.offers.end());
    const GlobalPlan other = planned(turned.deployments, turned.hardware, turned.budget);
    for (const PoolPlan& pool : straight.pools) {
      EXPECT_EQ(testing::replicas_in(other, pool.deployment, pool.pool), pool.replicas);
      EXPECT_EQ(testing::limit_in(other, pool.deployment, pool.pool), to_string(pool.limited_by));
    }
    EXPECT_EQ(other.cost_per_hour, straight.cost_per_hour);
    EXPECT_EQ(other.gap, straight.gap);
  }
}

TEST(GlobalPlanner, NeverServesTheHighestClassWorseWithMoreGpus) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Fleet fleet = random_fleet(seed);
    std::vector<double> before;
    for (std::uint64_t gpus = 0; gpus < 24; gpus += 2) {
      fleet.budget.gpus = gpus;
      const auto result = plan(fleet.deployments, fleet.hardware, fleet.budget);
      if (!result) {
        EXPECT_TRUE(before.empty()) << "what fitted " << gpus - 2 << " GPUs must fit more";
        continue;
      }
      std::vector<double> values;
      for (const ClassPlan& of : result->classes) values.push_back(of.value);
      if (!before.empty()) {
        EXPECT_FALSE(above(before, values)) << gpus;
      }
      before = values;
    }
  }
}

TEST(GlobalPlanner, KeepsEveryPoolAtItsFloorAtLeast) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Fleet fleet = random_fleet(seed);
    const auto result = plan(fleet.deployments, fleet.hardware, fleet.budget);
    if (!result) continue;
    std::size_t at = 0;
    for (const Deployment& deployment : fleet.deployments)
      for (const Offer& offer : deployment.offers) {
        EXPECT_GE(result->pools[at].replicas, offer.steps.front().replicas[0]);
        EXPECT_LE(result->pools[at].replicas, offer.steps.back().replicas[0]);
        ++at;
      }
  }
}

TEST(GlobalPlanner, KeepsItsOwnPlanForTheSameInput) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Fleet fleet = random_fleet(seed);
    const auto first = plan(fleet.deployments, fleet.hardware, fleet.budget);
    if (!first) continue;
    Options options;
    options.previous = testing::in_force(*first);
    const GlobalPlan second = planned(fleet.deployments, fleet.hardware, fleet.budget, options);
    for (std::size_t i = 0; i < first->pools.size(); ++i) EXPECT_EQ(second.pools[i].replicas, first->pools[i].replicas);
  }
}

}  // namespace
}  // namespace penstock::planner::global
