#include "workload/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "workload/workload_testing.h"

namespace penstock::workload {
namespace {

using testing::workload_of;

TEST(Statistics, AnEmptyWorkloadIsAllZero) {
  const Statistics statistics = describe(Workload{});
  EXPECT_EQ(statistics.requests, 0U);
  EXPECT_EQ(statistics.requests_per_s, 0.0);
  EXPECT_EQ(statistics.prefix_reuse, 0.0);
  EXPECT_EQ(statistics.tenants, 0U);
}

TEST(Statistics, OneRequestHasNoRateAndNoSpread) {
  const Statistics statistics = describe(workload_of({{0.0, 7, 3}}));
  EXPECT_EQ(statistics.requests, 1U);
  EXPECT_EQ(statistics.requests_per_s, 0.0);
  EXPECT_EQ(statistics.gap_cv, 0.0);
  EXPECT_EQ(statistics.peak_10s, 1.0);
  EXPECT_EQ(statistics.input_tokens.max, 7.0);
}

TEST(Statistics, RatesAndLengthsByHand) {
  const Statistics statistics = describe(workload_of({{1.0, 100, 10}, {2.0, 200, 20}, {5.0, 300, 30}, {8.0, 400, 40}}));
  EXPECT_EQ(statistics.span, std::chrono::seconds{8});
  EXPECT_DOUBLE_EQ(statistics.requests_per_s, 0.5);
  EXPECT_DOUBLE_EQ(statistics.input_tokens_per_s, 125.0);
  EXPECT_DOUBLE_EQ(statistics.output_tokens_per_s, 12.5);
  EXPECT_DOUBLE_EQ(statistics.input_tokens.mean, 250.0);
  EXPECT_DOUBLE_EQ(statistics.input_tokens.p50, 250.0);
  EXPECT_DOUBLE_EQ(statistics.output_tokens.max, 40.0);
  // Gaps 1, 3, 3 s: mean 7/3, variance 8/9.
  EXPECT_NEAR(statistics.gap_cv, std::sqrt(8.0 / 9.0) / (7.0 / 3.0), 1e-12);
}

TEST(Statistics, PeaksAreTheFullestWindowOverTheMean) {
  // 12 requests in 120 s: one per ten seconds, but five of them in the window from 50 s and the last at 120 s.
  const Workload workload =
      workload_of({{0.0}, {10.0}, {20.0}, {30.0}, {50.0}, {51.0}, {52.0}, {53.0}, {59.9}, {70.0}, {80.0}, {120.0}});
  const Statistics statistics = describe(workload);
  EXPECT_NEAR(statistics.peak_10s, 5.0, 1e-12);
  EXPECT_NEAR(statistics.peak_60s, 9.0 / 6.0, 1e-12);
  // Where most requests come in the last two of twelve seconds, no whole window is above the mean.
  EXPECT_EQ(describe(workload_of({{0.0}, {11.0}, {11.5}, {12.0}})).peak_10s, 1.0);
}

TEST(Statistics, PrefixReuseCountsLeadingFullBlocksSeenBefore) {
  const Workload workload = workload_of({{0.0, 30, 1, {0, 1, 2}},   // nothing seen; names 0, 1 and 2
                                         {1.0, 30, 1, {0, 1, 3}},   // 20 tokens
                                         {2.0, 25, 1, {0, 1, 2}},   // 20: the third is not full
                                         {3.0, 30, 1, {9, 1, 2}}},  // none: the first is new
                                        10);
  EXPECT_DOUBLE_EQ(describe(workload).prefix_reuse, 40.0 / 115.0);
}

TEST(Statistics, PrefixReuseFindsTheAnswerOfTheTurnBefore) {
  const Workload workload = workload_of({{0.0, 15, 20, {0, 1, 2, 3}},  // 35 tokens: names 0, 1 and 2
                                         {1.0, 45, 1, {0, 1, 2, 3}}},
                                        10);  // 30 of 45
  EXPECT_DOUBLE_EQ(describe(workload).prefix_reuse, 30.0 / 60.0);
}

TEST(Statistics, TenantsAreThoseThatSendSomething) {
  Workload workload = workload_of({{0.0, 1, 1, {}, kNoSession, 2},
                                   {1.0, 1, 1, {}, kNoSession, 0},
                                   {2.0, 1, 1, {}, kNoSession, 2},
                                   {3.0, 1, 1, {}, kNoSession, 2}});
  workload.tenants = {"a", "b", "c"};
  const Statistics statistics = describe(workload);
  EXPECT_EQ(statistics.tenants, 2U);
  EXPECT_DOUBLE_EQ(statistics.largest_tenant, 0.75);
}

}  // namespace
}  // namespace penstock::workload
