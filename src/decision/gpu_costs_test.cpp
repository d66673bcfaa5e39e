#include "decision/gpu_costs.h"

#include <gtest/gtest.h>

namespace penstock::decision {
namespace {

using namespace std::chrono_literals;

TEST(GpuCosts, SumsOfAnotherTimeAreAddedRowByRow) {
  GpuCosts costs{
      2000, false, {0.5, 0.0}, {{"chat", 3h, 6.0}}, {{{"shop", "m", {10, 20}, {5, 6}}, {1.0, 2.0}, 3.0, 4.0}}};
  const GpuCosts more{1000,
                      true,
                      {0.25, 1.0},
                      {{"batch", 1h, 1.0}, {"chat", 2h, 4.0}},
                      {{{"lab", "m", {1, 1}, {1, 1}}, {0.5, 0.5}, 1.0, 1.0},
                       {{"shop", "m", {100, 200}, {50, 60}}, {10.0, 20.0}, 30.0, 40.0}}};
  add_costs(costs, more, 500, "other");
  EXPECT_EQ(costs.since_unix_ms, 1000);
  EXPECT_TRUE(costs.is_divided);
  EXPECT_EQ(costs.undivided.input, 0.75);
  EXPECT_EQ(costs.undivided.output, 1.0);
  ASSERT_EQ(costs.pools.size(), 2U);
  EXPECT_EQ(costs.pools[0].gpu_time, core::Duration{5h});
  EXPECT_EQ(costs.pools[0].usd, 10.0);
  EXPECT_EQ(costs.pools[1].pool, "batch");
  EXPECT_EQ(costs.pools[1].gpu_time, core::Duration{1h});
  ASSERT_EQ(costs.tenants.size(), 2U);
  const TenantGpuCost& shop = costs.tenants[0];
  EXPECT_EQ(shop.completed.input, 110U);
  EXPECT_EQ(shop.completed.output, 220U);
  EXPECT_EQ(shop.within_slo.input, 55U);
  EXPECT_EQ(shop.within_slo.output, 66U);
  EXPECT_EQ(shop.usd.input, 11.0);
  EXPECT_EQ(shop.usd.output, 22.0);
  EXPECT_EQ(shop.recent_input, 33.0);
  EXPECT_EQ(shop.recent_output, 44.0);
  EXPECT_EQ(costs.tenants[1].tenant, "lab");
  EXPECT_EQ(costs.tenants[1].usd.output, 0.5);
}

TEST(GpuCosts, FurtherTenantsShareOneRow) {
  GpuCosts costs, more;
  const auto row = [](const char* tenant) { return TenantGpuCost{{tenant, "m", {1, 1}, {}}, {1.0, 0.0}, 0.0, 0.0}; };
  costs.tenants = {row("a"), row("b")};
  more.tenants = {row("b"), row("c"), row("d")};
  add_costs(costs, more, 2, "other");
  ASSERT_EQ(costs.tenants.size(), 3U);
  EXPECT_EQ(costs.tenants[1].completed.input, 2U);
  EXPECT_EQ(costs.tenants[2].tenant, "other");
  EXPECT_EQ(costs.tenants[2].model, "other");
  EXPECT_EQ(costs.tenants[2].usd.input, 2.0);
}

}  // namespace
}  // namespace penstock::decision
