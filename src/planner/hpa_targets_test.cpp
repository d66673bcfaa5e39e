#include "planner/hpa_targets.h"

#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

constexpr ReplicaCapacity kCapacity{2.0, 1000.0, 100.0, 10.0};

TEST(HpaTargets, AreSharesOfTheLoadTestedCapacity) {
  const auto rate = hpa_targets("hpa-rate", kCapacity, signals::Role::kAggregated);
  ASSERT_TRUE(rate && rate->size() == 1);
  EXPECT_EQ(rate->front().metric, PoolMetric::kRequestRate);
  EXPECT_DOUBLE_EQ(rate->front().per_replica, 1.6);
  const auto concurrency = hpa_targets("hpa-concurrency", kCapacity, signals::Role::kAggregated);
  ASSERT_TRUE(concurrency && concurrency->size() == 1);
  EXPECT_DOUBLE_EQ(concurrency->front().per_replica, 8.0);
}

TEST(HpaTargets, OfTokensDependOnTheRole) {
  const auto metrics = [](signals::Role role) {
    std::vector<PoolMetric> found;
    const auto targets = hpa_targets("keda-tokens", kCapacity, role).value();
    for (const MetricTarget& target : targets) found.push_back(target.metric);
    return found;
  };
  using enum PoolMetric;
  EXPECT_EQ(metrics(signals::Role::kAggregated), (std::vector{kInputTokenRate, kOutputTokenRate, kKvUsage}));
  EXPECT_EQ(metrics(signals::Role::kPrefill), std::vector{kInputTokenRate});
  EXPECT_EQ(metrics(signals::Role::kDecode), (std::vector{kOutputTokenRate, kKvUsage}));
  EXPECT_DOUBLE_EQ(hpa_targets("keda-tokens", kCapacity, signals::Role::kPrefill)->front().per_replica, 750.0);
}

TEST(HpaTargets, EveryOtherPolicyHasAReasonOfItsOwn) {
  for (const std::string_view policy : policy_names()) {
    const auto targets = hpa_targets(policy, kCapacity, signals::Role::kAggregated);
    EXPECT_EQ(targets.has_value(), has_hpa_targets(policy)) << policy;
    if (targets) continue;
    EXPECT_NE(targets.error().what, "it is no rule of an HPA") << policy;
  }
}

}  // namespace
}  // namespace penstock::planner
