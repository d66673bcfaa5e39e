// Fleets whose best plan can be found by hand.
#include "planner/global/global_planner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "planner/global/global_testing.h"

namespace penstock::planner::global {
namespace {

using testing::by_curve;
using testing::deployment;
using testing::error_of;
using testing::kept_in;
using testing::limit_in;
using testing::on;
using testing::planned;
using testing::replicas_in;
using testing::resource_in;

const std::vector<Hardware> kPrices = {{"h100", 3.0, {}}, {"a100", 2.0, {}}, {"l40s", 1.0, {}}};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Budget gpus(std::uint64_t count) { return {count, std::nullopt}; }
Budget money(double per_hour) { return {std::nullopt, per_hour}; }

TEST(GlobalPlanner, GivesGpusToTheDeploymentThatGainsMost) {
  // chat: 10 requests/s for 2 GPUs; code: 6 for 1. Of 5 GPUs the best use is 3 for code and 2 for chat.
  const GlobalPlan plan = planned({deployment("chat", 100.0, {on("h100", 2, {0, 9}, 10.0)}),
                                   deployment("code", 18.0, {on("h100", 1, {0, 9}, 6.0)})},
                                  kPrices, gpus(5));
  EXPECT_EQ(replicas_in(plan, "chat", "h100"), 1U);
  EXPECT_EQ(replicas_in(plan, "code", "h100"), 3U);
  EXPECT_DOUBLE_EQ(plan.classes[0].value, 28.0);
  EXPECT_DOUBLE_EQ(plan.cost_per_hour, 15.0);
  EXPECT_EQ(plan.gap, 0.0);
  EXPECT_EQ(limit_in(plan, "chat", "h100"), "gpu_budget");
  EXPECT_EQ(limit_in(plan, "code", "h100"), "");
}

TEST(GlobalPlanner, LooksBeyondAStepWithoutGain) {
  // b's first replica carries nothing (the model does not fit the SLO on one); its second carries more than all of a.
  const GlobalPlan plan = planned({deployment("a", 100.0, {by_curve("h100", {0.0, 3.0, 6.0})}),
                                   deployment("b", 100.0, {by_curve("h100", {0.0, 0.0, 20.0})})},
                                  kPrices, gpus(2));
  EXPECT_EQ(replicas_in(plan, "a", "h100"), 0U);
  EXPECT_EQ(replicas_in(plan, "b", "h100"), 2U);
}

TEST(GlobalPlanner, ServesAHigherClassFirstWhateverItsGain) {
  const GlobalPlan plan = planned({deployment("batch", 100.0, {on("h100", 1, {1, 9}, 50.0)}, 0),
                                   deployment("chat", 4.0, {on("h100", 1, {0, 9}, 1.0)}, 10)},
                                  kPrices, gpus(4));
  EXPECT_EQ(replicas_in(plan, "batch", "h100"), 1U) << "floors come before classes";
  EXPECT_EQ(replicas_in(plan, "chat", "h100"), 3U);
  ASSERT_EQ(plan.classes.size(), 2U);
  EXPECT_EQ(plan.classes[0].priority, 10);
  EXPECT_DOUBLE_EQ(plan.classes[0].value, 3.0);
  EXPECT_DOUBLE_EQ(plan.classes[1].value, 50.0);
}

TEST(GlobalPlanner, TakesTheCheapestMixThatCarriesTheDemand) {
  // h100: 10 requests/s for 3; l40s: 3 for 1 (0.30 and 0.33 a request). 22 requests/s: 2 h100 + 1 l40s carry 23 for 7,
  // 1 + 4 carry 22 for 7, 0 + 8 carry 24 for 8, 3 + 0 carry 30 for 9.
  const GlobalPlan plan =
      planned({deployment("chat", 22.0, {on("h100", 1, {0, 9}, 10.0), on("l40s", 1, {0, 9}, 3.0)})}, kPrices, {});
  EXPECT_DOUBLE_EQ(kept_in(plan, "chat"), 22.0);
  EXPECT_DOUBLE_EQ(plan.cost_per_hour, 7.0);
  EXPECT_EQ(plan.gap, 0.0);
}

TEST(GlobalPlanner, FallsBackOnAnotherKindWhereOneIsScarce) {
  std::vector<Hardware> prices = kPrices;
  prices[2].gpus = 3;
  const GlobalPlan plan =
      planned({deployment("chat", 20.0, {on("h100", 1, {0, 9}, 5.0), on("l40s", 1, {0, 9}, 5.0)})}, prices, {});
  EXPECT_EQ(replicas_in(plan, "chat", "l40s"), 3U);
  EXPECT_EQ(replicas_in(plan, "chat", "h100"), 1U);
  EXPECT_NEAR(resource_in(plan, "l40s").saving_per_unit, 2.0, 1e-3) << "one l40s more would save an h100";
}

TEST(GlobalPlanner, LeavesACheapKindToTheDeploymentThatHasNoOther) {
  std::vector<Hardware> prices = kPrices;
  prices[2].gpus = 2;
  const GlobalPlan plan =
      planned({deployment("both", 10.0, {on("h100", 1, {0, 9}, 5.0), on("l40s", 1, {0, 9}, 5.0)}, 1),
               deployment("only-l40s", 10.0, {on("l40s", 1, {0, 9}, 5.0)}, 0)},
              prices, {});
  EXPECT_EQ(replicas_in(plan, "both", "h100"), 2U) << "traffic of every class comes before cost";
  EXPECT_EQ(replicas_in(plan, "only-l40s", "l40s"), 2U);
}

TEST(GlobalPlanner, PlansTheExampleOfItsPage) {  // docs/global-planner.md
  std::vector<Hardware> prices = kPrices;
  prices[2].gpus = 2;
  const GlobalPlan plan =
      planned({deployment("chat", 20.0, {on("h100", 1, {0, 9}, 5.0), on("l40s", 1, {0, 9}, 5.0)}, 1),
               deployment("mail", 10.0, {on("l40s", 1, {0, 9}, 4.5)}, 0),
               deployment("batch", 100.0, {on("h100", 1, {0, 9}, 4.0)}, 0)},
              prices, gpus(8));
  EXPECT_EQ(replicas_in(plan, "chat", "h100"), 4U);
  EXPECT_EQ(replicas_in(plan, "mail", "l40s"), 2U);
  EXPECT_EQ(replicas_in(plan, "batch", "h100"), 2U);
  EXPECT_EQ(limit_in(plan, "mail", "l40s"), "hardware_gpus");
  EXPECT_EQ(limit_in(plan, "batch", "h100"), "gpu_budget");
  EXPECT_DOUBLE_EQ(plan.cost_per_hour, 20.0);
  EXPECT_NEAR(resource_in(plan, "gpu_budget").value_per_unit, 4.0, 0.05);
  EXPECT_EQ(plan.gap, 0.0);
}

TEST(GlobalPlanner, ScalesPrefillAndDecodeTogether) {
  const auto offer = disaggregated_offer({{"prefill", "h100", 1}, {1, 9}, 6.0}, {{"decode", "h100", 2}, {1, 9}, 4.0});
  ASSERT_TRUE(offer.has_value());
  const GlobalPlan plan = planned({deployment("chat", 100.0, {*offer})}, kPrices, gpus(9));
  EXPECT_EQ(replicas_in(plan, "chat", "prefill"), 2U);
  EXPECT_EQ(replicas_in(plan, "chat", "decode"), 3U) << "a third prefill replica would wait for decode";
  EXPECT_DOUBLE_EQ(kept_in(plan, "chat"), 12.0);
  EXPECT_EQ(limit_in(plan, "chat", "prefill"), "gpu_budget");
}

TEST(GlobalPlanner, WeighsDeploymentsOfAClass) {
  const std::vector<Deployment> two = {deployment("light", 10.0, {on("h100", 1, {0, 9}, 3.0)}, 0, 1.0),
                                       deployment("heavy", 10.0, {on("h100", 1, {0, 9}, 2.0)}, 0, 2.0)};
  const GlobalPlan plan = planned(two, kPrices, gpus(2));
  EXPECT_EQ(replicas_in(plan, "heavy", "h100"), 2U);
  EXPECT_DOUBLE_EQ(plan.classes[0].value, 8.0);
}

TEST(GlobalPlanner, MaxMinDoesNotStarveADeployment) {
  // Each GPU carries 4 of big's 40 requests/s, or 1 of small's 10: a tenth either way.
  const std::vector<Deployment> two = {deployment("big", 40.0, {on("h100", 1, {0, 10}, 4.0)}),
                                       deployment("small", 10.0, {on("h100", 1, {0, 10}, 1.0)})};
  EXPECT_EQ(replicas_in(planned(two, kPrices, gpus(10)), "small", "h100"), 0U);
  Options fair;
  fair.objective = Objective::kMaxMin;
  const GlobalPlan plan = planned(two, kPrices, gpus(10), fair);
  EXPECT_EQ(replicas_in(plan, "small", "h100"), 5U);
  EXPECT_EQ(replicas_in(plan, "big", "h100"), 5U);
  EXPECT_DOUBLE_EQ(plan.classes[0].level, 0.5);
  EXPECT_DOUBLE_EQ(plan.classes[0].level_bound, 0.5);
}

TEST(GlobalPlanner, GivesSharesInTheRatioOfWeights) {
  Options fair;
  fair.objective = Objective::kMaxMin;
  const GlobalPlan plan = planned({deployment("a", 12.0, {on("h100", 1, {0, 12}, 1.0)}, 0, 1.0),
                                   deployment("b", 12.0, {on("h100", 1, {0, 12}, 1.0)}, 0, 2.0)},
                                  kPrices, gpus(9), fair);
  EXPECT_EQ(replicas_in(plan, "a", "h100"), 3U);
  EXPECT_EQ(replicas_in(plan, "b", "h100"), 6U);
}

TEST(GlobalPlanner, MaxMinIgnoresDeploymentsThatCannotGrow) {
  Options fair;
  fair.objective = Objective::kMaxMin;
  const GlobalPlan plan = planned({deployment("capped", 100.0, {on("h100", 1, {0, 1}, 1.0)}),
                                   deployment("free", 10.0, {on("h100", 1, {0, 9}, 1.0)})},
                                  kPrices, gpus(8), fair);
  EXPECT_EQ(replicas_in(plan, "capped", "h100"), 1U);
  EXPECT_EQ(limit_in(plan, "capped", "h100"), "max_replicas");
  EXPECT_DOUBLE_EQ(plan.classes[0].level, 0.7);
}

TEST(GlobalPlanner, NamesWhatLimitsAPool) {
  std::vector<Hardware> prices = kPrices;
  prices[0].gpus = 2;
  const std::vector<Deployment> one = {deployment("chat", 100.0, {on("h100", 1, {0, 9}, 1.0)})};
  EXPECT_EQ(limit_in(planned(one, prices, {}), "chat", "h100"), "hardware_gpus");
  EXPECT_EQ(limit_in(planned(one, kPrices, gpus(3)), "chat", "h100"), "gpu_budget");
  EXPECT_EQ(limit_in(planned(one, kPrices, money(10.0)), "chat", "h100"), "money_budget");
  EXPECT_EQ(limit_in(planned(one, kPrices, {}), "chat", "h100"), "max_replicas");
  EXPECT_EQ(
      limit_in(planned({deployment("flat", 9.0, {by_curve("h100", {0.0, 2.0, 2.0})})}, kPrices, {}), "flat", "h100"),
      "no_gain");
}

TEST(GlobalPlanner, UsesABudgetExactly) {
  const std::vector<Hardware> prices = {{"h100", 2.3, {}}};
  const std::vector<Deployment> one = {deployment("chat", 100.0, {on("h100", 1, {0, 9}, 1.0)})};
  EXPECT_EQ(replicas_in(planned(one, prices, money(6.9)), "chat", "h100"), 3U) << "3 · 2.3 in doubles is above 6.9";
  EXPECT_EQ(replicas_in(planned(one, prices, money(6.89)), "chat", "h100"), 2U);
}

TEST(GlobalPlanner, ReportsTheMarginalValueOfAScarceGpu) {
  const GlobalPlan plan = planned({deployment("chat", 100.0, {on("h100", 2, {0, 99}, 10.0)})}, kPrices, gpus(8));
  EXPECT_NEAR(resource_in(plan, "gpu_budget").value_per_unit, 5.0, 1e-3) << "10 requests/s for two";
  EXPECT_EQ(resource_in(plan, "gpu_budget").used, 8.0);
  const GlobalPlan enough = planned({deployment("chat", 10.0, {on("h100", 2, {0, 99}, 10.0)})}, kPrices, gpus(8));
  EXPECT_EQ(resource_in(enough, "gpu_budget").value_per_unit, 0.0);
}

TEST(GlobalPlanner, KeepsThePlanInForceWhereTheNewOneGainsLittle) {
  std::vector<Deployment> two = {deployment("a", 100.0, {on("h100", 1, {0, 9}, 10.0)}),
                                 deployment("b", 100.0, {on("h100", 1, {0, 9}, 10.0)})};
  Options options;
  options.previous = {{"a", "h100", 1}, {"b", "h100", 3}};
  two[0].offers[0] = on("h100", 1, {0, 9}, 10.3);  // a gained a little: three of four to a would carry 0.6 more
  const GlobalPlan kept = planned(two, kPrices, gpus(4), options);
  EXPECT_TRUE(kept.kept_previous);
  EXPECT_EQ(replicas_in(kept, "b", "h100"), 3U);
  EXPECT_GT(kept.gap, 0.0);
  options.gain_min = 0.001;
  const GlobalPlan changed = planned(two, kPrices, gpus(4), options);
  EXPECT_FALSE(changed.kept_previous);
  EXPECT_EQ(replicas_in(changed, "a", "h100"), 4U);
}

TEST(GlobalPlanner, ChangesAsFewDeploymentsAsItCan) {
  std::vector<Deployment> three;
  for (const char* name : {"a", "b", "c"}) three.push_back(deployment(name, 100.0, {on("h100", 1, {0, 9}, 10.0)}));
  Options options;
  options.previous = {{"a", "h100", 1}, {"b", "h100", 3}, {"c", "h100", 2}};
  const GlobalPlan plan = planned(three, kPrices, gpus(7), options);
  int changes = 0;
  for (const PoolReplicas& before : options.previous)
    changes += replicas_in(plan, before.deployment, before.pool) != before.replicas ? 1 : 0;
  EXPECT_EQ(changes, 1) << "one replica more, and no other deployment changes";
}

TEST(GlobalPlanner, LeavesAPlanInForceThatNoLongerFits) {
  Options options;
  options.previous = {{"a", "h100", 8}};
  const GlobalPlan plan = planned({deployment("a", 100.0, {on("h100", 1, {0, 9}, 10.0)})}, kPrices, gpus(4), options);
  EXPECT_FALSE(plan.kept_previous);
  EXPECT_EQ(replicas_in(plan, "a", "h100"), 4U);
}

TEST(GlobalPlanner, RefusesFloorsThatDoNotFit) {
  const std::vector<Deployment> one = {deployment("a", 1.0, {on("h100", 4, {3, 9}, 1.0)})};
  EXPECT_EQ(error_of(one, kPrices, gpus(8)),
            "budget.gpus: must hold all floors, which take 12, is 8; raise it, or lower the first steps of the offers");
  EXPECT_EQ(error_of(one, kPrices, money(20.5)),
            "budget.money_per_hour: must hold all floors, which take 36, is 20.5; raise it, or lower the first steps "
            "of the offers");
  std::vector<Hardware> prices = kPrices;
  prices[0].gpus = 8;
  EXPECT_EQ(error_of(one, prices, {}).substr(0, 20), "hardware.h100.gpus: ");
}

TEST(GlobalPlanner, ErrorsNameTheInput) {
  const std::vector<Deployment> good = {deployment("a", 1.0, {on("h100", 1, {0, 2}, 1.0)})};
  const auto changed = [&](auto change) {
    std::vector<Deployment> bad = good;
    change(bad[0]);
    return error_of(bad, kPrices, {});
  };
  EXPECT_EQ(changed([](Deployment& d) { d.offers[0].pools[0].hardware = "tpu"; }),
            "deployments[0].offers[0].pools[0].hardware: 'tpu' is not in the price list");
  EXPECT_EQ(changed([](Deployment& d) { d.demand_rps = kNan; }),
            "deployments[0].demand_rps: must be a number from 0 to 1e+12, is nan");
  EXPECT_EQ(changed([](Deployment& d) { d.weight = 0.0; }), "deployments[0].weight: must be above 0, is 0");
  EXPECT_EQ(changed([](Deployment& d) { d.offers[0].steps[1].carried_rps = 9.0; }),
            "deployments[0].offers[0].steps[2].carried_rps: must not fall, is 2 after 9");
  EXPECT_EQ(changed([](Deployment& d) { d.offers[0].steps[1].carried_rps = -1.0; }),
            "deployments[0].offers[0].steps[1].carried_rps: must be a number from 0 to 1e+12, is -1");
  EXPECT_EQ(changed([](Deployment& d) { d.offers[0].steps.clear(); }),
            "deployments[0].offers[0].steps: is empty; give at least the floor, and max at least min");
  EXPECT_EQ(changed([](Deployment& d) { d.offers.push_back(d.offers[0]); }),
            "deployments[0].offers[1].pools[0].name: 'h100' is there twice");
  EXPECT_EQ(error_of({good[0], good[0]}, kPrices, {}), "deployments[1].name: 'a' is there twice");
  EXPECT_EQ(error_of(good, {{"h100", -1.0, {}}}, {}),
            "hardware[0].price_per_gpu_hour: must be a number from 0 to 1e+12, is -1");
  EXPECT_EQ(error_of(good, kPrices, money(kNan)), "budget.money_per_hour: must be a number from 0 to 1e+12, is nan");
}

TEST(GlobalPlanner, RefusesTooManyCombinations) {
  std::vector<Offer> offers;
  std::vector<Hardware> prices;
  for (const char* kind : {"a", "b", "c", "d"}) {
    offers.push_back(on(kind, 1, {0, 60}, 1.0));
    prices.push_back({kind, 1.0, {}});
  }
  EXPECT_EQ(error_of({deployment("wide", 1e6, offers)}, prices, {}),
            "wide.offers: more than 20000 combinations of their steps; declare fewer kinds of hardware for it, or "
            "larger steps");
}

TEST(GlobalPlanner, WithoutDeploymentsThePlanIsEmpty) {
  const GlobalPlan plan = planned({}, kPrices, gpus(4));
  EXPECT_TRUE(plan.pools.empty());
  EXPECT_EQ(plan.gap, 0.0);
}

}  // namespace
}  // namespace penstock::planner::global
