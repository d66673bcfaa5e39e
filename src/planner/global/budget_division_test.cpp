// A budget that several policies share: cases computed by hand, and what holds for every division.
#include "planner/global/budget_division.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/random.h"

namespace penstock::planner::global {
namespace {

using signals::Role;

Options by(Objective objective) {
  Options options;
  options.objective = objective;
  return options;
}
const Options kFair = by(Objective::kMaxMin);

// A pool that has `now` replicas and wants `proposed`.
PoolClaim claim(std::uint32_t now, std::uint32_t proposed, std::uint32_t gpus = 1) {
  PoolClaim made;
  made.name = "default";
  made.gpus_per_replica = gpus;
  made.max_replicas = 64;
  made.target = made.running = now;
  made.proposed = proposed;
  return made;
}

PoolClaim with_role(Role role, PoolClaim pool) {
  pool.role = role;
  pool.name = to_string(role);
  return pool;
}

DivisionLimits gpus(std::uint64_t all) { return {{all, std::nullopt}, {}}; }

std::vector<std::vector<std::uint32_t>> targets_of(const Division& division) {
  std::vector<std::vector<std::uint32_t>> targets;
  for (const auto& grants : division.grants) {
    targets.emplace_back();
    for (const PoolGrant& grant : grants) targets.back().push_back(grant.target);
  }
  return targets;
}

Shares shares_in(const Division& division) {
  Shares shares;
  for (const auto& grants : division.grants) {
    shares.emplace_back();
    for (const PoolGrant& grant : grants) shares.back().push_back(grant.share);
  }
  return shares;
}

TEST(BudgetDivision, GrantsEveryProposalWhereAllFit) {
  const std::vector<DeploymentClaim> claims = {{"chat", 1, 1.0, {claim(2, 5, 2)}}, {"mail", 0, 1.0, {claim(3, 4)}}};
  const Division division = divide(claims, gpus(14), kFair, {});
  EXPECT_EQ(targets_of(division), (Shares{{5}, {4}}));
  EXPECT_EQ(explain(division, claims, 0, 0), "");
  EXPECT_EQ(targets_of(divide(claims, {}, kFair, {})), (Shares{{5}, {4}})) << "no limit";
}

TEST(BudgetDivision, ServesTheHigherClassFirst) {
  std::vector<DeploymentClaim> claims = {{"chat", 1, 1.0, {claim(2, 6, 2)}}, {"mail", 0, 1.0, {claim(4, 8)}}};
  // 12 GPUs for chat, 4 for mail. Those of chat that are free now: 16 - 4 - 4 = 8.
  const Division division = divide(claims, gpus(16), kFair, {});
  EXPECT_EQ(targets_of(division), (Shares{{6}, {4}}));
  EXPECT_EQ(explain(division, claims, 0, 0), "");
  EXPECT_EQ(explain(division, claims, 1, 0),
            "limited by gpu_budget: 4 of 8 replicas; 16 of 16 GPUs used: chat 12 (priority 1), mail 4");
}

TEST(BudgetDivision, LetsAPoolGrowOnlyByGpusThatAreFree) {
  std::vector<DeploymentClaim> claims = {{"chat", 1, 1.0, {claim(2, 6)}}, {"mail", 0, 1.0, {claim(6, 6)}}};
  const Division first = divide(claims, gpus(8), kFair, {});
  EXPECT_EQ(shares_in(first), (Shares{{6}, {2}}));
  EXPECT_EQ(targets_of(first), (Shares{{2}, {2}})) << "mail's GPUs are still in use";
  EXPECT_EQ(explain(first, claims, 0, 0),
            "limited by gpu_budget: 2 of 6 replicas; 8 of 8 GPUs used: chat 2 (priority 1), mail 6 (4 draining)");
}

TEST(BudgetDivision, GivesGpusOnAsTheyDrain) {
  std::vector<DeploymentClaim> claims = {{"chat", 1, 1.0, {claim(2, 6)}}, {"mail", 0, 1.0, {claim(2, 6)}}};
  claims[1].pools[0].draining = 3;  // One of four has stopped.
  const Shares previous = {{6}, {2}};
  EXPECT_EQ(targets_of(divide(claims, gpus(8), kFair, previous)), (Shares{{3}, {2}}));
  claims[0].pools[0].target = 3;
  claims[0].pools[0].running = 3;
  EXPECT_EQ(targets_of(divide(claims, gpus(8), kFair, previous)), (Shares{{3}, {2}}));
  claims[1].pools[0].draining = 0;
  EXPECT_EQ(targets_of(divide(claims, gpus(8), kFair, previous)), (Shares{{6}, {2}}));
}

TEST(BudgetDivision, CountsReplicasThatStart) {
  std::vector<DeploymentClaim> claims = {{"chat", 0, 1.0, {claim(3, 3)}}, {"mail", 0, 1.0, {claim(1, 4)}}};
  claims[0].pools[0].target = 1;  // Two of three replicas are about to drain.
  claims[0].pools[0].proposed = 1;
  EXPECT_EQ(targets_of(divide(claims, gpus(5), kFair, {})), (Shares{{1}, {2}}));
}

TEST(BudgetDivision, SharesEquallyWithinAClass) {
  const std::vector<DeploymentClaim> claims = {{"chat", 0, 1.0, {claim(0, 8)}}, {"mail", 0, 1.0, {claim(0, 4)}}};
  EXPECT_EQ(targets_of(divide(claims, gpus(6), kFair, {})), (Shares{{4}, {2}}));
  std::vector<DeploymentClaim> weighted = claims;
  weighted[1].weight = 2.0;
  EXPECT_EQ(targets_of(divide(weighted, gpus(6), kFair, {})), (Shares{{3}, {3}})) << "3/8 and 3/4 of the demand";
}

TEST(BudgetDivision, ServesTheMostDemandPerGpuOnRequest) {
  // Of equal weight, each GPU serves the same demand. A weight of 3 decides.
  const std::vector<DeploymentClaim> claims = {{"chat", 0, 1.0, {claim(0, 8)}}, {"mail", 0, 3.0, {claim(0, 4)}}};
  EXPECT_EQ(targets_of(divide(claims, gpus(6), by(Objective::kMostTraffic), {})), (Shares{{2}, {4}}));
}

TEST(BudgetDivision, ScalesPrefillAndDecodeTogether) {
  const std::vector<DeploymentClaim> claims = {
      {"chat", 0, 1.0, {with_role(Role::kPrefill, claim(1, 4)), with_role(Role::kDecode, claim(1, 8))}}};
  EXPECT_EQ(targets_of(divide(claims, gpus(9), kFair, {})), (Shares{{3, 6}}));
  EXPECT_EQ(targets_of(divide(claims, gpus(8), kFair, {})), (Shares{{3, 5}})) << "5 of 8 need 3 of 4 for prefill";
}

TEST(BudgetDivision, KeepsMinimumsWhateverTheBudgetIs) {
  std::vector<DeploymentClaim> claims = {{"chat", 0, 1.0, {claim(1, 4)}}, {"mail", 0, 1.0, {claim(1, 4)}}};
  for (DeploymentClaim& each : claims) each.pools[0].min_replicas = 2;
  EXPECT_EQ(targets_of(divide(claims, gpus(3), kFair, {})), (Shares{{2}, {2}}));
}

TEST(BudgetDivision, HoldsTheStockOfEachKindAndTheMoney) {
  std::vector<DeploymentClaim> claims = {{"chat", 0, 1.0, {claim(0, 6, 2)}}, {"mail", 0, 1.0, {claim(0, 6)}}};
  claims[0].pools[0].hardware = "h100";
  claims[1].pools[0].hardware = "l40s";
  DivisionLimits limits;
  limits.hardware = {{"h100", 0.0, 8}, {"l40s", 0.0, 4}};
  Division division = divide(claims, limits, kFair, {});
  EXPECT_EQ(targets_of(division), (Shares{{4}, {4}}));
  EXPECT_EQ(explain(division, claims, 0, 0), "limited by gpu_budget: 4 of 6 replicas; 8 of 8 h100 GPUs used: chat 8");

  claims[0].pools[0].price_per_gpu_hour = 3.0;
  claims[1].pools[0].price_per_gpu_hour = 0.5;
  limits.budget.money_per_hour = 14.5;
  division = divide(claims, limits, kFair, {});
  EXPECT_EQ(targets_of(division), (Shares{{2}, {4}})) << "12 + 2 USD per hour";
  EXPECT_EQ(explain(division, claims, 0, 0),
            "limited by gpu_budget: 2 of 6 replicas; 14 of 14.50 USD per hour used: chat 12, mail 2");
}

TEST(BudgetDivision, KeepsThePreviousSharesUnlessAChangeIsWorthIt) {
  // 100 of 200 each; one proposal grows a little.
  std::vector<DeploymentClaim> claims = {{"chat", 0, 1.0, {claim(100, 200)}}, {"mail", 0, 1.0, {claim(100, 200)}}};
  for (DeploymentClaim& each : claims) each.pools[0].max_replicas = 1000;
  const Division before = divide(claims, gpus(200), kFair, {});
  ASSERT_EQ(shares_in(before), (Shares{{100}, {100}}));
  claims[0].pools[0].proposed = 202;
  EXPECT_EQ(shares_in(divide(claims, gpus(200), kFair, shares_in(before))), (Shares{{100}, {100}}));
  claims[0].pools[0].proposed = 300;
  EXPECT_EQ(shares_in(divide(claims, gpus(200), kFair, shares_in(before))), (Shares{{120}, {80}}));
}

TEST(BudgetDivision, DividesLargeFleetsOfSeveralPools) {
  std::vector<DeploymentClaim> claims = {{"chat", 0, 1.0, {claim(0, 1000), claim(0, 1000)}}};
  claims[0].pools[1].name = "other";
  for (PoolClaim& pool : claims[0].pools) pool.max_replicas = 1000;
  const auto targets = targets_of(divide(claims, gpus(1500), kFair, {}));
  const std::uint32_t all = targets[0][0] + targets[0][1];
  EXPECT_LE(all, 1500U);
  EXPECT_GE(all, 1400U) << "steps are of several replicas";
}

// ---- properties -----------------------------------------------------------------------------------------------------

struct RandomFleet {
  std::vector<DeploymentClaim> claims;
  DivisionLimits limits;
};

PoolClaim random_pool(core::RandomStream& random, const std::string& name, Role role) {
  const std::string kinds[] = {"", "a", "b"};
  PoolClaim pool =
      claim(0, static_cast<std::uint32_t>(random.below(9)), 1 + static_cast<std::uint32_t>(random.below(3)));
  pool.name = name;
  pool.role = role;
  pool.hardware = kinds[random.below(3)];
  pool.price_per_gpu_hour = pool.hardware == "a" ? 3.0 : 0.5;
  pool.min_replicas = static_cast<std::uint32_t>(random.below(2));
  pool.max_replicas = pool.min_replicas + static_cast<std::uint32_t>(random.below(8));
  pool.target = static_cast<std::uint32_t>(random.below(5));
  pool.running = pool.target;
  if (random.below(4) == 0) pool.running = static_cast<std::uint32_t>(random.below(6));
  if (random.below(4) == 0) pool.draining = static_cast<std::uint32_t>(random.below(4));
  return pool;
}

RandomFleet random_claims(std::uint64_t seed) {
  core::RandomStream random{seed};
  RandomFleet made;
  const std::uint64_t deployments = 1 + random.below(4);
  for (std::uint64_t d = 0; d < deployments; ++d) {
    DeploymentClaim of{
        "d" + std::to_string(d), static_cast<int>(random.below(3)), 1.0 + static_cast<double>(random.below(2)), {}};
    if (random.below(2) == 0) {
      of.pools.push_back(random_pool(random, "only", Role::kAggregated));
    } else {
      of.pools.push_back(random_pool(random, "prefill", Role::kPrefill));
      of.pools.push_back(random_pool(random, "decode", Role::kDecode));
    }
    made.claims.push_back(std::move(of));
  }
  if (random.below(3) != 0) made.limits.budget.gpus = 2 + random.below(24);
  if (random.below(3) == 0) made.limits.budget.money_per_hour = 2.0 + 0.5 * static_cast<double>(random.below(60));
  if (random.below(3) == 0) made.limits.hardware.push_back({"a", 0.0, 1 + random.below(12)});
  return made;
}

Options random_objective(std::uint64_t seed) {
  return by(seed % 2 == 0 ? Objective::kMaxMin : Objective::kMostTraffic);
}

// What the targets take of a limit, with replicas that are left or drain; `counts` names the pools that count.
template <class Replicas>
std::vector<std::pair<double, double>> used_and_available(const RandomFleet& fleet, Replicas replicas) {
  double all = 0.0, money = 0.0, of_a = 0.0;
  for (std::size_t d = 0; d < fleet.claims.size(); ++d)
    for (std::size_t p = 0; p < fleet.claims[d].pools.size(); ++p) {
      const PoolClaim& pool = fleet.claims[d].pools[p];
      const double taken = static_cast<double>(replicas(pool, d, p)) * pool.gpus_per_replica;
      all += taken;
      money += taken * pool.price_per_gpu_hour;
      if (pool.hardware == "a") of_a += taken;
    }
  std::vector<std::pair<double, double>> made;
  if (fleet.limits.budget.gpus) made.emplace_back(all, static_cast<double>(*fleet.limits.budget.gpus));
  if (fleet.limits.budget.money_per_hour) made.emplace_back(money, *fleet.limits.budget.money_per_hour);
  if (!fleet.limits.hardware.empty()) made.emplace_back(of_a, static_cast<double>(*fleet.limits.hardware[0].gpus));
  return made;
}

template <class Replicas>
bool fits(const RandomFleet& fleet, Replicas replicas) {
  for (const auto& [used, available] : used_and_available(fleet, replicas))
    if (used > available + 1e-6) return false;
  return true;
}

TEST(BudgetDivisionProperties, TargetsStayWithinProposalsAndMinimums) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    const RandomFleet fleet = random_claims(seed);
    const Division division = divide(fleet.claims, fleet.limits, random_objective(seed), {});
    for (std::size_t d = 0; d < fleet.claims.size(); ++d)
      for (std::size_t p = 0; p < fleet.claims[d].pools.size(); ++p) {
        const PoolClaim& pool = fleet.claims[d].pools[p];
        const PoolGrant& grant = division.grants[d][p];
        ASSERT_LE(grant.target, grant.share);
        ASSERT_LE(grant.share, pool.wanted());
        ASSERT_GE(grant.target, pool.min_replicas);
        ASSERT_GE(grant.target, std::min(pool.target, grant.share)) << "no pool loses more than its share";
      }
  }
}

TEST(BudgetDivisionProperties, NeverRequestsGpusThatAreNotThere) {
  std::uint64_t limited = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    const RandomFleet fleet = random_claims(seed);
    const Division division = divide(fleet.claims, fleet.limits, random_objective(seed), {});
    const auto at_least = [](const PoolClaim& pool, std::size_t, std::size_t) { return pool.min_replicas; };
    if (fits(fleet, at_least)) {
      ASSERT_TRUE(
          fits(fleet, [&](const PoolClaim&, std::size_t d, std::size_t p) { return division.grants[d][p].share; }));
    }
    // What is there before anything grows, with minimums: growth beyond it fits every limit.
    const auto before = used_and_available(fleet, [](const PoolClaim& pool, std::size_t, std::size_t) {
      return std::max({pool.min_replicas, pool.target, pool.running}) + pool.draining;
    });
    const auto after = used_and_available(fleet, [&](const PoolClaim& pool, std::size_t d, std::size_t p) {
      return std::max({division.grants[d][p].target, pool.target, pool.running}) + pool.draining;
    });
    for (std::size_t r = 0; r < before.size(); ++r) {
      ASSERT_LE(after[r].first, std::max(before[r].first, after[r].second) + 1e-6);
      limited += after[r].first > before[r].first ? 1 : 0;
    }
  }
  EXPECT_GT(limited, 500U);
}

TEST(BudgetDivisionProperties, GrantsTheProposalsIfAllFitTogetherWithWhatIsThere) {
  std::uint64_t fitting = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    const RandomFleet fleet = random_claims(seed);
    if (!fits(fleet, [](const PoolClaim& pool, std::size_t, std::size_t) {
          return std::max(pool.running, pool.target) + pool.wanted() + pool.draining;
        }))
      continue;
    ++fitting;
    const Division division = divide(fleet.claims, fleet.limits, random_objective(seed), {});
    for (std::size_t d = 0; d < fleet.claims.size(); ++d)
      for (std::size_t p = 0; p < fleet.claims[d].pools.size(); ++p) {
        ASSERT_EQ(division.grants[d][p].target, fleet.claims[d].pools[p].wanted());
        ASSERT_EQ(explain(division, fleet.claims, d, p), "");
      }
  }
  EXPECT_GT(fitting, 300U);
}

// The fleet follows the targets: replicas drain for two ticks, and new ones take the place of those that stopped.
void follow(std::vector<DeploymentClaim>& claims, const Division& division, std::uint64_t tick) {
  for (std::size_t d = 0; d < claims.size(); ++d)
    for (std::size_t p = 0; p < claims[d].pools.size(); ++p) {
      PoolClaim& pool = claims[d].pools[p];
      if (tick % 2 == 0) pool.draining = 0;
      pool.target = division.grants[d][p].target;
      if (pool.running > pool.target) pool.draining += pool.running - pool.target;
      pool.running = pool.target;
    }
}

TEST(BudgetDivisionProperties, SettlesWhileProposalsStay) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    RandomFleet fleet = random_claims(seed);
    const Options options = random_objective(seed);
    Shares previous;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::uint32_t>> history;
    Division division;
    for (std::uint64_t tick = 0; tick < 12; ++tick) {
      division = divide(fleet.claims, fleet.limits, options, previous);
      if (tick > 0) {
        ASSERT_EQ(shares_in(division), previous) << "shares do not change at tick " << tick;
      }
      previous = shares_in(division);
      for (std::size_t d = 0; d < fleet.claims.size(); ++d)
        for (std::size_t p = 0; p < fleet.claims[d].pools.size(); ++p)
          history[{d, p}].push_back(division.grants[d][p].target);
      follow(fleet.claims, division, tick);
    }
    for (const auto& [place, targets] : history) {
      EXPECT_EQ(targets.back(), previous[place.first][place.second]) << "every pool has its share in the end";
      for (std::size_t i = 2; i < targets.size(); ++i)
        EXPECT_GE(targets[i], targets[i - 1]) << "after the first tick nothing shrinks";
    }
  }
}

// The level of the highest class, or its weighted sum; then that of the next class.
TEST(BudgetDivisionProperties, ServesTheHighestClassNoWorseWithALargerBudget) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomFleet fleet = random_claims(seed);
    int highest = 0;
    for (const DeploymentClaim& each : fleet.claims) highest = std::max(highest, each.priority);
    double before = 0.0;
    for (std::uint64_t all = 0; all < 30; ++all) {
      fleet.limits = gpus(all);
      const Division division = divide(fleet.claims, fleet.limits, by(Objective::kMostTraffic), {});
      double served = 0.0;
      for (std::size_t d = 0; d < fleet.claims.size(); ++d) {
        if (fleet.claims[d].priority != highest) continue;
        double level = 1.0, demand = 0.0;
        for (std::size_t p = 0; p < fleet.claims[d].pools.size(); ++p) {
          const PoolClaim& pool = fleet.claims[d].pools[p];
          demand += static_cast<double>(pool.wanted()) * pool.gpus_per_replica;
          if (pool.wanted() > 0)
            level = std::min(level, static_cast<double>(division.grants[d][p].share) / pool.wanted());
        }
        served += fleet.claims[d].weight * level * demand;
      }
      ASSERT_GE(served, before - 0.02 * std::max(1.0, before)) << all;  // The previous plan may be kept.
      before = std::max(before, served);
    }
  }
}

TEST(BudgetDivisionProperties, DoesNotDependOnTheOrderOfDeployments) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const RandomFleet fleet = random_claims(seed);
    std::vector<DeploymentClaim> turned = fleet.claims;
    std::reverse(turned.begin(), turned.end());
    const Division straight = divide(fleet.claims, fleet.limits, random_objective(seed), {});
    const Division other = divide(turned, fleet.limits, random_objective(seed), {});
    Shares back = targets_of(other);
    std::reverse(back.begin(), back.end());
    EXPECT_EQ(targets_of(straight), back);
  }
}

TEST(BudgetDivision, RunningUseCountsReplicasThatRunAndDrain) {
  std::vector<DeploymentClaim> claims = {{"chat", 1, 1.0, {claim(2, 6, 4)}}, {"mail", 0, 1.0, {claim(3, 3)}}};
  claims[0].pools[0].hardware = "h100";
  claims[0].pools[0].price_per_gpu_hour = 2.0;
  claims[0].pools[0].draining = 1;
  claims[0].pools[0].target = 9;  // What is only ordered uses nothing.
  claims[1].pools[0].price_per_gpu_hour = 1.0;
  DivisionLimits limits{{20, 40.0}, {}};
  limits.hardware.push_back({"h100", 0.0, 16});
  const std::vector<ResourceUse> uses = running_use(claims, limits);
  ASSERT_EQ(uses.size(), 3U);
  EXPECT_EQ(uses[0].name, "h100 GPUs");
  EXPECT_EQ(uses[0].used, 12.0);
  EXPECT_EQ(uses[0].available, 16.0);
  EXPECT_EQ(uses[1].name, "GPUs");
  EXPECT_EQ(uses[1].used, 15.0);
  ASSERT_EQ(uses[1].deployments.size(), 2U);
  EXPECT_EQ(uses[1].deployments[0].draining, 4.0);
  EXPECT_EQ(uses[2].name, "USD per hour");
  EXPECT_EQ(uses[2].used, 27.0);
  EXPECT_TRUE(running_use(claims, {}).empty());
}

}  // namespace
}  // namespace penstock::planner::global
