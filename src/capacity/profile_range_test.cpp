#include "capacity/profile_range.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "engine/step_time_models.h"
#include "engine/table.h"

namespace penstock::capacity {
namespace {

bool says(const std::string& warning, std::string_view part) { return warning.find(part) != std::string::npos; }

ProfileRanges measured() { return {{128, 8192}, {256, 16'384}, 500'000}; }

TEST(ProfileRanges, AreTheEndsOfWhatWasMeasured) {
  engine::EngineProfile profile;
  profile.prefill = {{100, 20}, {1000, 50}, {2000, 110}};
  profile.decode = {{100, {{100, 4}, {9000, 6}}}, {300, {{300, 5}, {1500, 9}}}};
  const ProfileRanges ranges = ranges_of(profile);
  EXPECT_EQ(ranges.prompt.low, 100);
  EXPECT_EQ(ranges.prompt.high, 2000);
  EXPECT_EQ(ranges.context.low, 100);
  EXPECT_EQ(ranges.context.high, 300);
  EXPECT_EQ(ranges.kv_tokens_max, 9000);
}

TEST(ProfileRanges, ARoleHasOnlyThoseThatItUses) {
  engine::EngineProfile profile;
  profile.prefill = {{100, 20}, {1000, 50}};
  profile.decode = {{100, {{100, 4}, {9000, 6}}}, {3000, {{300, 5}, {1500, 9}}}};
  const engine::Table table{profile, "p"};
  const auto outside = [&](signals::Role role, std::uint32_t input, std::uint32_t output) {
    ProfileRangeCheck check{ranges_of(table, role).value()};
    check.add(input, output);
    return check.coverage().share_outside > 0.0;
  };
  EXPECT_FALSE(outside(signals::Role::kAggregated, 1000, 1000));
  EXPECT_TRUE(outside(signals::Role::kAggregated, 2000, 100));
  EXPECT_FALSE(outside(signals::Role::kDecode, 2000, 100));
  EXPECT_TRUE(outside(signals::Role::kDecode, 2000, 2000));
  EXPECT_TRUE(outside(signals::Role::kPrefill, 2000, 100));
  EXPECT_FALSE(outside(signals::Role::kPrefill, 1000, 9000));
  EXPECT_FALSE(ranges_of(**engine::make_step_time_model("polynomial"), signals::Role::kAggregated).has_value());
}

TEST(ProfileRangeCheck, ReportsNothingWithinTheMeasuredRange) {
  ProfileRangeCheck check{measured(), 500'000};
  for (std::uint32_t i = 0; i < 100; ++i) check.add(128 + 80 * i, 200);
  EXPECT_TRUE(check.coverage().warnings.empty());
  EXPECT_DOUBLE_EQ(check.coverage().share_outside, 0.0);
}

TEST(ProfileRangeCheck, ReportsHowFarPromptsAndContextsExceedTheRange) {
  ProfileRangeCheck check{measured()};
  for (int i = 0; i < 90; ++i) check.add(1000, 200);
  for (int i = 0; i < 10; ++i) check.add(32'000, 200);
  const ProfileCoverage found = check.coverage();
  ASSERT_EQ(found.warnings.size(), 2U);
  EXPECT_TRUE(says(found.warnings[0], "prompts up to 3")) << found.warnings[0];
  EXPECT_TRUE(says(found.warnings[0], "the profile ends at 8192: step times beyond are extrapolated"));
  EXPECT_TRUE(says(found.warnings[1], "the profile ends at 16384")) << found.warnings[1];
  EXPECT_DOUBLE_EQ(found.share_outside, 0.1);
}

TEST(ProfileRangeCheck, ReportsLengthsBelowTheRange) {
  ProfileRangeCheck check{measured()};
  for (int i = 0; i < 10; ++i) check.add(20, 10);
  const ProfileCoverage found = check.coverage();
  ASSERT_EQ(found.warnings.size(), 2U);
  EXPECT_TRUE(says(found.warnings[0], "prompts from 20 tokens, the profile begins at 128")) << found.warnings[0];
  EXPECT_TRUE(says(found.warnings[1], "contexts from 30 tokens, the profile begins at 256")) << found.warnings[1];
  EXPECT_DOUBLE_EQ(found.share_outside, 1.0);
}

TEST(ProfileRangeCheck, ToleratesAFewTokensAndAFewRequests) {
  ProfileRangeCheck check{measured()};
  for (int i = 0; i < 999; ++i) check.add(8192 + 100, 200);
  check.add(100'000, 200);  // one of a thousand is no 99th percentile, but it counts
  EXPECT_TRUE(check.coverage().warnings.empty());
  EXPECT_DOUBLE_EQ(check.coverage().share_outside, 0.001);
}

TEST(ProfileRangeCheck, LooksAtTheKvCacheEvenBeforeTheFirstRequest) {
  const ProfileCoverage found = ProfileRangeCheck{measured(), 1'024'000}.coverage();
  ASSERT_EQ(found.warnings.size(), 1U);
  EXPECT_TRUE(says(found.warnings[0], "a KV cache of 1024000 tokens, the profile ends at 500000"));
  EXPECT_DOUBLE_EQ(found.share_outside, 0.0);
}

}  // namespace
}  // namespace penstock::capacity
