#include "actuation/warm_up.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace penstock::actuation {
namespace {

TEST(WarmUpPlan, TakesLengthsFromAcrossTheRecentTraffic) {
  std::vector<std::uint32_t> recent(100);
  std::iota(recent.rbegin(), recent.rend(), 1U);  // 100 … 1; the order does not matter.
  const auto prompts = plan_warm_up(recent, {}, {}).representative;
  ASSERT_EQ(prompts.size(), 4U);
  EXPECT_EQ(prompts[0].tokens, 13U);
  EXPECT_EQ(prompts[1].tokens, 38U);
  EXPECT_EQ(prompts[2].tokens, 63U);
  EXPECT_EQ(prompts[3].tokens, 88U);
  for (const auto& prompt : prompts) {
    EXPECT_EQ(prompt.text.size(), prompt.tokens * 4U);
    EXPECT_EQ(prompt.max_tokens, 8U);
  }
}

TEST(WarmUpPlan, SharesNoPrefixBetweenRepresentativePrompts) {
  const std::vector<std::uint32_t> recent{100, 200, 300, 400};
  std::set<char> first;
  for (const auto& prompt : plan_warm_up(recent, {}, {}).representative) first.insert(prompt.text.front());
  EXPECT_EQ(first.size(), 4U);
}

TEST(WarmUpPlan, HasOnePromptPerLengthAndOneWithoutTraffic) {
  const std::vector<std::uint32_t> same(50, 700);
  EXPECT_EQ(plan_warm_up(same, {}, {}).representative.size(), 1U);
  const auto blind = plan_warm_up({}, {}, {}).representative;
  ASSERT_EQ(blind.size(), 1U);
  EXPECT_EQ(blind[0].tokens, 256U);
}

HotPrefix prefix(std::string body, std::uint32_t tokens, std::uint64_t hits) {
  return {"/v1/completions", std::move(body), tokens, hits};
}

TEST(WarmUpPlan, OrdersPrefixesBySavingsUpToTheLimit) {
  WarmUpOptions options;
  options.prefixes_max = 2;
  const std::vector<HotPrefix> prefixes{prefix("seldom", 1000, 1), prefix("short", 10, 50), prefix("hot", 500, 40)};
  const auto plan = plan_warm_up({}, prefixes, options);
  EXPECT_EQ(plan.representative.size(), 1U);
  ASSERT_EQ(plan.prefixes.size(), 2U);
  EXPECT_EQ(plan.prefixes[0].body, "hot");
  EXPECT_EQ(plan.prefixes[0].path, "/v1/completions");
  EXPECT_EQ(plan.prefixes[1].body, "seldom");
}

TEST(WarmUpPlan, StaysWithinTokensAndBytesButTakesWhatStillFits) {
  WarmUpOptions options;
  options.representative = 0;
  options.tokens_max = 100;
  options.bytes_max = 20;
  const std::vector<HotPrefix> prefixes{prefix("far too many tokens", 101, 100),
                                        prefix("many bytes, many bytes", 50, 90), prefix("fits", 60, 9),
                                        prefix("also fits", 40, 8), prefix("x", 1, 1)};
  const auto plan = plan_warm_up({}, prefixes, options);
  ASSERT_EQ(plan.prefixes.size(), 2U);
  EXPECT_EQ(plan.prefixes[0].body, "fits");
  EXPECT_EQ(plan.prefixes[1].body, "also fits");
}

}  // namespace
}  // namespace penstock::actuation
