#include "controller/gpu_cost_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using decision::TenantTokens;

// One GPU at 2 USD an hour, of which prompts take a half.
struct Scene {
  void pass(core::Duration time, const std::vector<TenantTokens>& completed = {}) {
    now += time;
    signals::Observation seen;
    seen.now = now;
    seen.pools.emplace_back().name = "chat";
    seen.pools[0].ready = 1;
    decision::Decision decided;
    decided.pools.emplace_back();
    if (has_share) decided.pools[0].evidence = {{"input_time_share", 0.5, "share"}};
    totals.count(seen, decided);
    meter.count(now, totals, std::vector<std::string>{"chat"}, completed);
  }
  [[nodiscard]] double usd(const std::string& tenant, const std::string& model = "m") const {
    for (const decision::TenantGpuCost& row : meter.costs().tenants)
      if (row.tenant == tenant && row.model == model) return row.usd.input + row.usd.output;
    return -1.0;
  }
  [[nodiscard]] double divided() const {
    double sum = 0.0;
    for (const report::TenantGpuCostTotal& each : meter.counted()) sum += each.usd;
    return sum;
  }

  core::Instant now = core::kStart;
  bool has_share = true;
  decision::DecisionTotals totals{{2.0}};
  GpuCostMeter meter{core::kStart, 1'000'000'000};
};

TEST(GpuCostMeter, TenantsAndModelsShareTheCostByTheirTokens) {
  Scene scene;
  scene.pass(0s, {{"shop", "m", {300, 30}}, {"shop", "n", {100, 10}}, {"lab", "m", {0, 40}}});
  scene.pass(1h);
  EXPECT_DOUBLE_EQ(scene.usd("shop"), 0.75 + 0.375);
  EXPECT_DOUBLE_EQ(scene.usd("shop", "n"), 0.25 + 0.125);
  EXPECT_DOUBLE_EQ(scene.usd("lab"), 0.5);
  EXPECT_DOUBLE_EQ(scene.divided(), 2.0);
}

TEST(GpuCostMeter, TheCostBeforeTheFirstTokensIsDividedByThem) {
  Scene scene;
  scene.pass(0s);
  scene.pass(1h);
  EXPECT_TRUE(scene.meter.counted().empty());
  EXPECT_DOUBLE_EQ(scene.meter.costs().undivided.input, 1.0);
  scene.pass(1h, {{"shop", "m", {10, 10}}});
  EXPECT_DOUBLE_EQ(scene.usd("shop"), 4.0);
  EXPECT_DOUBLE_EQ(scene.meter.costs().undivided.input, 0.0);
}

TEST(GpuCostMeter, OneRequestAtNightDoesNotBearTheIdleTimeAlone) {
  Scene scene;
  scene.pass(0s, {{"shop", "m", {1'000'000, 1'000'000}}});
  scene.pass(8h);
  const double shop = scene.usd("shop");
  scene.pass(0s, {{"lab", "m", {1'000, 1'000}}});
  scene.pass(1h);
  EXPECT_GT(scene.usd("shop") - shop, scene.usd("lab"));
  EXPECT_GT(scene.usd("lab"), 0.0);
  // Those who have left bear less each hour.
  for (int hour = 0; hour < 12; ++hour) scene.pass(1h, {{"lab", "m", {1'000, 1'000}}});
  const double before = scene.usd("lab");
  scene.pass(1h, {{"lab", "m", {1'000, 1'000}}});
  EXPECT_GT(scene.usd("lab") - before, 1.9);
}

TEST(GpuCostMeter, NoSumEverFallsAndNothingIsLost) {
  Scene scene;
  std::vector<double> before;
  for (int minute = 0; minute < 300; ++minute) {
    scene.has_share = minute % 7 != 0;
    std::vector<TenantTokens> completed;
    if (minute % 5 == 0) completed.push_back({"shop", "m", {100, 10}});
    if (minute > 100 && minute % 3 == 0) completed.push_back({"lab", "n", {5, 500}});
    scene.pass(1min, completed);
    const auto& counted = scene.meter.counted();
    for (std::size_t i = 0; i < before.size(); ++i) ASSERT_GE(counted[i].usd, before[i]);
    before.clear();
    for (const auto& each : counted) before.push_back(each.usd);
  }
  EXPECT_NEAR(scene.divided(), *scene.totals.cost(0), 1e-9);
  EXPECT_NEAR(scene.meter.usd("chat"), *scene.totals.cost(0), 1e-9);
}

TEST(GpuCostMeter, AnotherProcessContinuesTheSumsAndCountsFromZero) {
  Scene first, second;
  first.pass(0s, {{"shop", "m", {10, 10}}});
  first.pass(1h);
  second.meter.restore(first.meter.costs());
  second.pass(0s);
  second.pass(30min);
  EXPECT_DOUBLE_EQ(second.usd("shop"), 3.0);
  EXPECT_DOUBLE_EQ(second.divided(), 1.0) << "Prometheus adds what each process has counted";
  EXPECT_EQ(second.meter.gpu_time("chat"), core::Duration{90min});
  EXPECT_DOUBLE_EQ(second.meter.usd("chat"), 3.0);
}

TEST(GpuCostMeter, ThePeriodBeginsWithTheFirstProcess) {
  GpuCostMeter meter{core::kStart + 5s, 1'000'000};
  EXPECT_EQ(meter.period(core::kStart + 15s), 10s);
  decision::GpuCosts saved;
  saved.since_unix_ms = 400'000;
  meter.restore(saved);
  EXPECT_EQ(meter.period(core::kStart + 15s), 610s);
  saved.since_unix_ms = 2'000'000;  // The clock was set back.
  meter.restore(saved);
  EXPECT_EQ(meter.period(core::kStart + 15s), 10s);
}

TEST(GpuCostMeter, FurtherTenantsShareOneRow) {
  Scene scene;
  std::vector<TenantTokens> many;
  many.reserve(1000);
  for (int i = 0; i < 1000; ++i) many.push_back({"tenant-" + std::to_string(i), "m", {1, 1}});
  scene.pass(0s, many);
  scene.pass(1h);
  EXPECT_EQ(scene.meter.costs().tenants.size(), GpuCostMeter::kTenantsMax + 1);
  EXPECT_EQ(scene.meter.counted().size(), GpuCostMeter::kTenantsMax + 1);
  EXPECT_NEAR(scene.usd("other", "other"), 1.0, 1e-9);
}

}  // namespace
}  // namespace penstock::controller
