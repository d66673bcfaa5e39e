#include "planner/global/over_time.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "planner/global/budget_shares.h"
#include "planner/global/global_testing.h"

namespace penstock::planner::global {
namespace {

using testing::deployment;
using testing::on;
using testing::replicas_in;

constexpr core::Duration kMinute = std::chrono::minutes{1};

ChangingDeployment changing(std::string name, std::vector<double> rps_by_minute, core::Duration start_up = {},
                            ReplicaRange range = {0, 8}) {
  return {deployment(std::move(name), 0.0, {on("h100", 1, range, 1.0)}), std::move(rps_by_minute), {start_up}};
}

const std::vector<Hardware> kPrices = {{"h100", 3.0, {}}};

OverTimeOptions every(std::size_t minutes) {
  OverTimeOptions options;
  options.minutes_each = minutes;
  return options;
}

OverTime over(const core::Result<OverTime>& result) {
  if (result) return *result;
  ADD_FAILURE() << result.error().message();
  return {};
}

TEST(OverTime, PlansForThePeakMinuteOfTheIntervalBefore) {
  const OverTime run = over(plan_over_time({changing("chat", {1, 2, 5, 3, 4, 4})}, kPrices, {}, every(2)));
  ASSERT_EQ(run.intervals.size(), 2U);
  EXPECT_EQ(run.intervals[0].first_minute, 2U);
  EXPECT_EQ(run.intervals[0].planned_rps, std::vector<double>{2.0});
  EXPECT_EQ(run.intervals[1].planned_rps, std::vector<double>{5.0});
  EXPECT_EQ(replicas_in(run.intervals[1].plan, "chat", "h100"), 5U);
}

TEST(OverTime, PlansDoNotDependOnTheFuture) {
  core::RandomStream random{7};
  std::vector<double> series;
  for (int i = 0; i < 24; ++i) series.push_back(static_cast<double>(random.below(8)));
  std::vector<double> other = series;
  for (std::size_t i = 12; i < other.size(); ++i) other[i] = 7.0 - other[i];
  const OverTime one = over(plan_over_time({changing("chat", series)}, kPrices, {}, every(3)));
  const OverTime two = over(plan_over_time({changing("chat", other)}, kPrices, {}, every(3)));
  for (const std::size_t i : {0U, 1U, 2U, 3U})  // the last of them is planned at minute 12
    EXPECT_EQ(replicas_in(one.intervals[i].plan, "chat", "h100"), replicas_in(two.intervals[i].plan, "chat", "h100"));
}

TEST(OverTime, AReplicaIsPaidFromItsOrderAndCarriesWhenItHasStarted) {
  const OverTime run = over(plan_over_time({changing("chat", {1, 1, 1, 3, 3, 3}, kMinute)}, kPrices, {}, every(2)));
  // Minutes 2 and 3 with one replica, 4 with one that is ready and two that start, 5 with three.
  EXPECT_EQ(run.minutes, 4U);
  EXPECT_DOUBLE_EQ(run.deployments[0].requests, (1 + 3 + 3 + 3) * 60.0);
  EXPECT_DOUBLE_EQ(run.deployments[0].kept, (1 + 1 + 1 + 3) * 60.0);
  EXPECT_DOUBLE_EQ(run.gpu_hours, (1 * 2 + 3 * 2) / 60.0);
  EXPECT_DOUBLE_EQ(run.cost, run.gpu_hours * 3.0);
}

TEST(OverTime, AStartUpLongerThanAnIntervalGoesOn) {
  const OverTime run =
      over(plan_over_time({changing("chat", {1, 3, 3, 3, 3}, 90 * std::chrono::seconds{1})}, kPrices, {}, every(1)));
  // One at minute 1; three ordered at minute 2 are ready at 4, since 90 s count as two minutes.
  EXPECT_DOUBLE_EQ(run.deployments[0].kept, (1 + 1 + 1 + 3) * 60.0);
}

TEST(OverTime, AReplicaThatIsStillStartingGoesFirst) {
  // Three more are ordered at minute 3 and taken back at minute 4, when only the one that was ready carries.
  const OverTime run = over(plan_over_time({changing("chat", {1, 1, 4, 1, 5, 1}, 5 * kMinute)}, kPrices, {}, every(1)));
  EXPECT_DOUBLE_EQ(run.deployments[0].kept, (1 + 1 + 1 + 1 + 1) * 60.0);
}

TEST(OverTime, ThePlanInForceIsThePreviousOne) {
  OverTimeOptions options = every(1);
  options.plan.gain_min = 0.5;
  options.plan.saving_min = 0.5;
  const OverTime run = over(plan_over_time({changing("chat", {4, 3, 3})}, kPrices, {}, options));
  EXPECT_TRUE(run.intervals[1].plan.kept_previous);
  EXPECT_EQ(replicas_in(run.intervals[1].plan, "chat", "h100"), 4U);
}

std::vector<ChangingDeployment> turn_about() {
  return {changing("day", {4, 4, 4, 4, 0, 0, 0, 0}), changing("night", {0, 0, 0, 0, 4, 4, 4, 4})};
}

TEST(OverTime, ASharedBudgetFollowsTheDemand) {
  Budget budget;
  budget.gpus = 4;
  const OverTime shared = over(plan_over_time(turn_about(), kPrices, budget, every(2)));
  // All of it to `day` until minute 6, then to `night`, whose rise is seen an interval late.
  EXPECT_DOUBLE_EQ(shared.deployments[0].kept, shared.deployments[0].requests);
  EXPECT_DOUBLE_EQ(shared.deployments[1].kept, 8 * 60.0);

  const OverTime apart = over(plan_apart_over_time(turn_about(), kPrices, budget, every(2)));
  ASSERT_EQ(apart.deployments.size(), 2U);
  EXPECT_EQ(apart.minutes, shared.minutes);
  // Mean demands over the six minutes that count are 8/6 and 16/6: one GPU and three.
  EXPECT_DOUBLE_EQ(apart.deployments[0].kept, 2 * 60.0);
  EXPECT_DOUBLE_EQ(apart.deployments[1].kept, 6 * 60.0);
  EXPECT_TRUE(apart.intervals.empty());
}

TEST(OverTime, OnePlanAtThePeakNeverChanges) {
  Budget budget;
  budget.gpus = 6;
  const OverTime fixed = over(plan_once_at_peak(turn_about(), kPrices, budget, every(2)));
  EXPECT_DOUBLE_EQ(fixed.gpu_hours, 6.0 * 6 / 60.0);
  EXPECT_DOUBLE_EQ(fixed.deployments[0].kept + fixed.deployments[1].kept, (4 * 2 + 2 * 4) * 60.0);
}

TEST(OverTime, ServedTrafficIsBoundedByArrivalsAndBudget) {
  core::RandomStream random{11};
  for (int round = 0; round < 60; ++round) {
    std::vector<ChangingDeployment> deployments;
    const std::size_t minutes = 4 + random.below(20);
    for (const char* name : {"a", "b", "c"}) {
      std::vector<double> series;
      for (std::size_t i = 0; i < minutes; ++i) series.push_back(random.uniform(0.0, 6.0));
      deployments.push_back(changing(name, std::move(series), kMinute * static_cast<int>(random.below(4)), {1, 6}));
    }
    Budget budget;
    budget.gpus = 3 + random.below(12);
    const OverTimeOptions options = every(1 + random.below(2));
    for (const auto& result : {plan_over_time(deployments, kPrices, budget, options),
                               plan_apart_over_time(deployments, kPrices, budget, options),
                               plan_once_at_peak(deployments, kPrices, budget, options)}) {
      const OverTime run = over(result);
      double kept = 0.0;
      for (const DeploymentTotal& total : run.deployments) {
        EXPECT_LE(total.kept, total.requests * (1.0 + 1e-12));
        kept += total.kept;
      }
      EXPECT_LE(kept, run.gpu_hours * 3600.0 * (1.0 + 1e-9));  // a GPU carries one request/s
      EXPECT_LE(run.gpu_hours, static_cast<double>(*budget.gpus * run.minutes) / 60.0 + 1e-9);
      EXPECT_NEAR(run.cost, run.gpu_hours * 3.0, 1e-9);
    }
  }
}

TEST(OverTime, MismatchedInputsAreRefused) {
  const auto error = [](const std::vector<ChangingDeployment>& deployments, std::size_t minutes) {
    const auto result = plan_over_time(deployments, kPrices, {}, every(minutes));
    return result ? std::string{} : result.error().message();
  };
  EXPECT_NE(error({changing("chat", {1, 2, 3})}, 2).find("must last two intervals (4 minutes), has 3"),
            std::string::npos);
  EXPECT_NE(error({changing("chat", {1, 2}), changing("mail", {1, 2, 3})}, 1).find("mail: must have as many minutes"),
            std::string::npos);
  EXPECT_NE(error({changing("chat", {1, 2})}, 0).find("must be at least 1"), std::string::npos);
  ChangingDeployment odd = changing("chat", {1, 2});
  odd.start_up.clear();
  EXPECT_NE(error({odd}, 1).find("has 0 start-up times for 1 pools"), std::string::npos);
}

TEST(BudgetShares, FloorsComeFirstAndTheRestByNeed) {
  // `big` needs 30 GPUs, `small` 10; floors take 4 and 0.
  const std::vector<Deployment> deployments = {deployment("big", 15.0, {on("h100", 2, {2, 20}, 1.0)}),
                                               deployment("small", 10.0, {on("h100", 1, {0, 20}, 1.0)})};
  Budget budget;
  budget.gpus = 24;
  budget.money_per_hour = 32.0;
  const auto shares = budget_shares(deployments, {{"h100", 3.0, 13}}, budget);
  ASSERT_TRUE(shares);
  EXPECT_EQ((*shares)[0].budget.gpus, 4U + 15U);
  EXPECT_EQ((*shares)[1].budget.gpus, 5U);
  EXPECT_DOUBLE_EQ(*(*shares)[0].budget.money_per_hour, 12.0 + 15.0);
  EXPECT_DOUBLE_EQ(*(*shares)[1].budget.money_per_hour, 5.0);
  EXPECT_EQ((*shares)[0].hardware[0].gpus, 4U + 7U);  // 6.75 of 9, the larger remainder
  EXPECT_EQ((*shares)[1].hardware[0].gpus, 2U);
}

TEST(BudgetShares, AKindIsSharedByItsUsers) {
  const std::vector<Deployment> deployments = {deployment("a", 10.0, {on("h100", 1, {0, 20}, 1.0)}),
                                               deployment("b", 90.0, {on("l40s", 1, {0, 20}, 1.0)})};
  const auto shares = budget_shares(deployments, {{"h100", 3.0, 8}, {"l40s", 1.0, {}}}, {});
  ASSERT_TRUE(shares);
  EXPECT_EQ((*shares)[0].hardware[0].gpus, 8U);
  EXPECT_EQ((*shares)[1].hardware[0].gpus, 0U);
  EXPECT_FALSE((*shares)[1].hardware[1].gpus);
  EXPECT_FALSE((*shares)[0].budget.gpus);
}

TEST(BudgetShares, SharesAddUpToTheWhole) {
  core::RandomStream random{3};
  for (int round = 0; round < 200; ++round) {
    std::vector<Deployment> deployments;
    const std::size_t count = 1 + random.below(5);
    for (std::size_t d = 0; d < count; ++d)
      deployments.push_back(deployment("d" + std::to_string(d), static_cast<double>(random.below(4)),
                                       {on("h100", 1, {static_cast<std::uint32_t>(random.below(3)), 9}, 1.0)}));
    Budget budget;
    budget.gpus = 10 + random.below(20);
    const auto shares = budget_shares(deployments, kPrices, budget);
    ASSERT_TRUE(shares);
    std::uint64_t sum = 0;
    for (std::size_t d = 0; d < count; ++d) {
      sum += *(*shares)[d].budget.gpus;
      EXPECT_GE(*(*shares)[d].budget.gpus, deployments[d].offers[0].steps[0].replicas[0]);
    }
    EXPECT_EQ(sum, *budget.gpus);
  }
}

TEST(BudgetShares, FloorsThatDoNotFitAreRefused) {
  Budget budget;
  budget.gpus = 1;
  const auto shares = budget_shares({deployment("a", 1.0, {on("h100", 1, {2, 4}, 1.0)})}, kPrices, budget);
  ASSERT_FALSE(shares);
  EXPECT_NE(shares.error().message().find("gpu_budget: must hold all floors, which take 2, is 1"), std::string::npos);
}

}  // namespace
}  // namespace penstock::planner::global
