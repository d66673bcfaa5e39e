#include "signals/slo.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace penstock::signals {
namespace {

SegmentSlo named(std::string name) {
  SegmentSlo segment;
  segment.name = std::move(name);
  return segment;
}

TEST(SloTargets, WithoutSegmentsAllRequestsHaveTheGeneralOne) {
  EXPECT_EQ(target_index({}, {"llama", "batch", "acme", 100}), 0);
}

TEST(SloTargets, ASegmentMatchesWhereAllItsSelectorsDo) {
  SegmentSlo segment = named("nightly");
  segment.model = "llama";
  segment.traffic_class = "batch";
  segment.tenant = "acme";
  segment.prompt_min = 10;
  segment.prompt_max = 20;
  const std::vector<SegmentSlo> segments = {segment};
  EXPECT_EQ(target_index(segments, {"llama", "batch", "acme", 10}), 1);
  EXPECT_EQ(target_index(segments, {"llama", "batch", "acme", 20}), 1);
  EXPECT_EQ(target_index(segments, {"qwen", "batch", "acme", 15}), 0);
  EXPECT_EQ(target_index(segments, {"llama", "interactive", "acme", 15}), 0);
  EXPECT_EQ(target_index(segments, {"llama", "batch", "other", 15}), 0);
  EXPECT_EQ(target_index(segments, {"llama", "batch", "acme", 9}), 0);
  EXPECT_EQ(target_index(segments, {"llama", "batch", "acme", 21}), 0);
}

TEST(SloTargets, AnUnnamedModelMatchesEverySegment) {
  SegmentSlo segment = named("a");
  segment.model = "llama";
  EXPECT_EQ(target_index(std::vector{segment}, {"", "batch", "acme", 1}), 1);
}

TEST(SloTargets, TheFirstSegmentThatMatchesCounts) {
  SegmentSlo narrow = named("narrow"), wide = named("wide");
  narrow.prompt_max = 100;
  wide.traffic_class = "batch";
  const std::vector<SegmentSlo> segments = {narrow, wide};
  EXPECT_EQ(target_index(segments, {"", "batch", "t", 100}), 1);
  EXPECT_EQ(target_index(segments, {"", "batch", "t", 101}), 2);
  EXPECT_EQ(target_index(segments, {"", "interactive", "t", 101}), 0);
}

TEST(SloTargets, ByNameARequestKeepsTheTargetThatItHad) {
  core::RandomStream random{3};
  const std::string_view classes[] = {"interactive", "batch"}, tenants[] = {"x", "y", "z"};
  SloPolicy policy;
  for (int i = 0; i < 8; ++i) {
    SegmentSlo segment = named("s" + std::to_string(i));
    if (random.below(2) == 0) segment.traffic_class = classes[random.below(2)];
    if (random.below(2) == 0) segment.tenant = tenants[random.below(3)];
    segment.prompt_min = static_cast<std::uint32_t>(random.below(500));
    segment.prompt_max = segment.prompt_min + static_cast<std::uint32_t>(random.below(500));
    segment.target.ttft = std::chrono::seconds{i + 1};
    segment.goal = 0.9 + 0.01 * i;
    policy.segments.push_back(segment);
  }
  SloPolicy by_name = policy;
  by_name.segments = segments_by_name(policy.segments);
  std::vector<int> seen(policy.segments.size() + 1);
  for (int i = 0; i < 5000; ++i) {
    const std::uint8_t index = target_index(policy.segments, {"", classes[random.below(2)], tenants[random.below(3)],
                                                              static_cast<std::uint32_t>(random.below(1000))});
    ++seen[index];
    const std::string_view name = index == 0 ? kGeneralTarget : std::string_view{policy.segments[index - 1U].name};
    ASSERT_EQ(target_index(by_name.segments, {"", "interactive", name, 12345}), index);
    ASSERT_EQ(by_name.target_at(index).ttft, policy.target_at(index).ttft);
    ASSERT_EQ(by_name.goal_at(index), policy.goal_at(index));
  }
  EXPECT_GT(std::count_if(seen.begin(), seen.end(), [](int count) { return count > 0; }), 4);
}

TEST(DeferredSegment, BatchWithoutASegmentOfItsOwnHasUntilItsDeadline) {
  std::vector<SegmentSlo> segments;
  add_deferred_segment(segments, 0.98, std::chrono::minutes{10});
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].name, "batch");
  EXPECT_EQ(segments[0].goal, 0.98);
  EXPECT_EQ(segments[0].target.ttft, std::chrono::minutes{10});
  EXPECT_EQ(segments[0].target.e2e, core::Duration{std::chrono::minutes{10}});
  EXPECT_EQ(target_index(segments, {"m", "batch", "t", 5}), 1U);
  EXPECT_EQ(target_index(segments, {"m", "interactive", "t", 5}), 0U);
}

TEST(DeferredSegment, ASegmentOfTheClassIsKeptAndOneOfATenantComesFirst) {
  std::vector<SegmentSlo> segments(1);
  segments[0].name = "bulk";
  segments[0].traffic_class = "batch";
  add_deferred_segment(segments, 0.98, std::chrono::minutes{10});
  EXPECT_EQ(segments.size(), 1U);
  segments[0].tenant = "t";
  add_deferred_segment(segments, 0.98, std::chrono::minutes{10});
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(target_index(segments, {"m", "batch", "t", 5}), 1U);
  EXPECT_EQ(target_index(segments, {"m", "batch", "u", 5}), 2U);
}

TEST(DeferredSegment, ItsNameIsUniqueAndWithoutDeferralThereIsNone) {
  std::vector<SegmentSlo> segments(1);
  segments[0].name = "batch";
  segments[0].tenant = "t";
  add_deferred_segment(segments, 0.98, core::Duration{});
  EXPECT_EQ(segments.size(), 1U);
  add_deferred_segment(segments, 0.98, std::chrono::minutes{10});
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(segments[1].name, "batch-2");
}

TEST(StrictestTarget, TakesTheShortestObjectivesThatConcernTheClass) {
  SloPolicy slo;
  slo.target = {std::chrono::seconds{2}, std::chrono::milliseconds{50}};
  slo.segments.resize(3);
  slo.segments[0].tenant = "t";
  slo.segments[0].target = {std::chrono::seconds{1}, std::chrono::milliseconds{80}};
  slo.segments[1].traffic_class = "batch";
  slo.segments[1].target = {std::chrono::milliseconds{1}, std::chrono::milliseconds{1}};
  slo.segments[2].traffic_class = "interactive";
  slo.segments[2].target = {std::chrono::seconds{3}, std::chrono::milliseconds{40}};
  EXPECT_EQ(strictest_target(slo, "interactive").ttft, std::chrono::seconds{1});
  EXPECT_EQ(strictest_target(slo, "interactive").itl, std::chrono::milliseconds{40});
}

}  // namespace
}  // namespace penstock::signals
