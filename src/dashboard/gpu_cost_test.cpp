#include "dashboard/gpu_cost.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::dashboard {
namespace {

using namespace std::chrono_literals;

decision::GpuCosts sums() {
  decision::GpuCosts costs;
  costs.is_divided = true;
  costs.tenants = {{{"shop", "m", {4'000'000, 100'000}, {3'000'000, 100'000}}, {1.0, 1.5}},
                   {{"lab", "m", {4'000'000, 300'000}, {}}, {1.0, 4.5}}};
  return costs;
}

TEST(GpuCost, RowsAreOfATenantAndAModel) {
  const auto json = gpu_cost_json(sums(), 60s);
  EXPECT_EQ(json["for_s"], 60.0);
  const auto &all = json["all"], &shop = json["tenants"][0], &lab = json["tenants"][1];
  EXPECT_EQ(all["prompt_tokens"], 8'000'000);
  EXPECT_EQ(all["gpu_cost"], 8.0);
  EXPECT_EQ(all["gpu_usd_per_1m_tokens"]["input"], 0.25);
  EXPECT_EQ(all["gpu_usd_per_1m_tokens"]["output"], 15.0);
  EXPECT_EQ(shop["tenant"], "shop");
  EXPECT_EQ(shop["model"], "m");
  EXPECT_EQ(shop["gpu_cost"], 2.5);
  EXPECT_EQ(lab["gpu_cost"], 5.5);
  EXPECT_EQ(shop["gpu_usd_per_1m_tokens"]["input"], 0.25);
}

TEST(GpuCost, TheWholeContainsWhatIsNotDividedYet) {
  decision::GpuCosts costs = sums();
  costs.undivided = {0.5, 1.0};
  EXPECT_EQ(gpu_cost_json(costs, 60s)["all"]["gpu_cost"], 9.5);
}

TEST(GpuCost, WithinTheSloFewerTokensBearTheSameCost) {
  const auto json = gpu_cost_json(sums(), 60s);
  EXPECT_DOUBLE_EQ(json["all"]["gpu_usd_per_1m_tokens"]["input_at_slo"].get<double>(), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(json["tenants"][0]["gpu_usd_per_1m_tokens"]["input_at_slo"].get<double>(), 1.0 / 3.0);
  EXPECT_TRUE(json["tenants"][1]["gpu_usd_per_1m_tokens"]["input_at_slo"].is_null()) << "no token is within the SLO";
}

TEST(GpuCost, AnUnknownCostIsNull) {
  decision::GpuCosts costs = sums();
  costs.is_divided = false;
  const auto json = gpu_cost_json(costs, 60s);
  for (const auto& row : {json["all"], json["tenants"][0]}) {
    EXPECT_TRUE(row["gpu_cost"].is_null());
    EXPECT_TRUE(row["gpu_usd_per_1m_tokens"]["output"].is_null());
    EXPECT_GT(row["prompt_tokens"], 0);
  }
  EXPECT_EQ(gpu_cost_json({}, 60s)["tenants"].size(), 0U);
}

}  // namespace
}  // namespace penstock::dashboard
