#include "routing/held_prefixes.h"

#include <gtest/gtest.h>

#include "core/random.h"

namespace penstock::routing {
namespace {

using namespace std::chrono_literals;
using Keys = std::vector<std::uint64_t>;
constexpr core::Instant kNow = core::kStart + 100s;

std::uint32_t overlap(HeldPrefixes& held, std::uint32_t slot, const Keys& keys, core::Instant now = kNow) {
  for (const Holders::Overlap& found : held.overlaps(keys, now))
    if (found.slot == slot) return found.keys;
  return 0;
}

// Switches the slot to events with a key that no test uses.
void switch_to_events(HeldPrefixes& held, std::uint32_t slot) {
  held.sent(slot, Keys{777}, kNow - 1h);
  held.stored(slot, 777);
  EXPECT_TRUE(held.by_events(slot));
  held.cleared(slot);
}

TEST(HeldPrefixes, PromptsThatWereSentCountAsCached) {
  HeldPrefixes held;
  held.open(0, 100);
  held.sent(0, Keys{1, 2, 3}, kNow);
  EXPECT_EQ(overlap(held, 0, {1, 2, 4}), 2U);
  EXPECT_EQ(overlap(held, 0, {1, 2, 4}, kNow + 1h), 2U);
  EXPECT_EQ(held.keys(0), 3U);
}

// Keys of one prompt alone never match, so that their number is all that matters of them.
TEST(HeldPrefixesProperty, UnsharedKeysTakeTheSpaceOfNamedOnes) {
  core::RandomStream random{17};
  HeldPrefixes named, counted;
  for (HeldPrefixes* held : {&named, &counted}) held->open(0, 40);
  std::uint64_t next_key = 1000;
  for (int round = 0; round < 2000; ++round) {
    const core::Instant now = kNow + round * 1ms;
    Keys shared, all;
    for (std::uint64_t i = 0, prompt = random.below(4), count = random.below(6); i < count; ++i)
      shared.push_back(prompt * 10 + i);
    all = shared;
    const auto unshared = static_cast<std::uint32_t>(random.below(round % 50 == 0 ? 60 : 12));
    for (std::uint32_t i = 0; i < unshared; ++i) all.push_back(next_key++);
    ASSERT_EQ(overlap(counted, 0, shared, now), overlap(named, 0, all, now)) << round;
    if (random.below(20) == 0) {
      const core::Instant used_at = now - std::chrono::milliseconds{random.below(30)};
      named.prefix_missing(0, used_at);
      counted.prefix_missing(0, used_at);
    }
    named.sent(0, all, now);
    counted.sent(0, shared, now, unshared);
    ASSERT_EQ(counted.keys(0), named.keys(0)) << round;
  }
  for (HeldPrefixes* held : {&named, &counted}) held->forget(0);
  EXPECT_EQ(counted.keys(0), 0U);
}

TEST(HeldPrefixes, TheEndOfTheLeastRecentPromptIsEvictedFirst) {
  HeldPrefixes held;
  held.open(0, 6);
  held.sent(0, Keys{1, 2, 3}, kNow);
  held.sent(0, Keys{11, 12, 13}, kNow);
  held.sent(0, Keys{1, 2, 3}, kNow);
  held.sent(0, Keys{21, 22}, kNow);
  EXPECT_EQ(overlap(held, 0, {11, 12, 13}), 1U);
  EXPECT_EQ(overlap(held, 0, {1, 2, 3}), 3U);
  EXPECT_EQ(held.keys(0), 6U);
}

TEST(HeldPrefixes, APromptLongerThanTheCacheKeepsItsStart) {
  HeldPrefixes held;
  held.open(0, 3);
  held.sent(0, Keys{1, 2, 3, 4, 5}, kNow);
  EXPECT_EQ(overlap(held, 0, {1, 2, 3, 4, 5}), 3U);
}

TEST(HeldPrefixes, ASmallerCapacityEvictsAtOnce) {
  HeldPrefixes held;
  held.open(0, 100);
  held.sent(0, Keys{1, 2, 3, 4}, kNow);
  held.set_capacity(0, 2);
  EXPECT_EQ(held.keys(0), 2U);
  EXPECT_EQ(overlap(held, 0, {1, 2, 3, 4}), 2U);
}

TEST(HeldPrefixes, TheFirstEventReplacesThePredictionOfItsSlotOnly) {
  HeldPrefixes held;
  held.open(0, 100);
  held.open(1, 100);
  held.sent(0, Keys{1, 2, 3}, kNow);
  held.sent(1, Keys{1, 2, 3}, kNow);
  held.stored(0, 1);
  EXPECT_TRUE(held.by_events(0));
  EXPECT_FALSE(held.by_events(1));
  EXPECT_EQ(overlap(held, 0, {1, 2, 3}), 1U);
  EXPECT_EQ(overlap(held, 1, {1, 2, 3}), 3U);
  held.removed(0, 1);
  held.removed(0, 99);
  EXPECT_EQ(overlap(held, 0, {1, 2, 3}), 0U);
}

TEST(HeldPrefixes, WithEventsSentPromptsCountForSeconds) {
  HeldPrefixes held;
  held.open(0, 100);
  switch_to_events(held, 0);
  held.sent(0, Keys{1, 2, 3}, kNow);
  EXPECT_EQ(overlap(held, 0, {1, 2, 3}, kNow + 4s), 3U);
  EXPECT_EQ(held.keys(0), 0U);
  held.stored(0, 1);
  EXPECT_EQ(overlap(held, 0, {1, 2, 3}, kNow + 6s), 1U);
  EXPECT_EQ(held.keys(0), 1U);
}

TEST(HeldPrefixes, APredictionLastsFromItsLatestUse) {
  HeldPrefixes held;
  held.open(0, 100);
  switch_to_events(held, 0);
  held.sent(0, Keys{1, 2}, kNow);
  held.sent(0, Keys{1, 3}, kNow + 4s);
  EXPECT_EQ(overlap(held, 0, {1, 3}, kNow + 8s), 2U);
  EXPECT_EQ(overlap(held, 0, {1, 2}, kNow + 8s), 1U);
  EXPECT_EQ(overlap(held, 0, {1, 3}, kNow + 10s), 0U);
}

TEST(HeldPrefixes, AClearedCacheHoldsNothing) {
  HeldPrefixes held;
  held.open(0, 100);
  switch_to_events(held, 0);
  held.stored(0, 1);
  held.sent(0, Keys{1, 2}, kNow);
  held.cleared(0);
  EXPECT_EQ(overlap(held, 0, {1, 2}), 0U);
}

TEST(HeldPrefixes, LostRemovalsDoNotGrowWithoutLimit) {
  HeldPrefixes held;
  held.open(0, 100);
  switch_to_events(held, 0);
  for (std::uint64_t key = 0; key < 10'000; ++key) held.stored(0, key);
  EXPECT_EQ(held.keys(0), 100 * HeldPrefixes::kEventsOverCapacity);
  EXPECT_EQ(overlap(held, 0, {9'999}), 1U);
}

TEST(HeldPrefixes, EventsWithUnknownKeysChangeNothing) {
  HeldPrefixes held;
  held.open(0, 100);
  held.sent(0, Keys{1, 2, 3}, kNow);
  for (std::uint64_t hash = 1000; hash < 2000; ++hash) held.stored(0, hash);
  held.removed(0, 1001);
  held.events_lost(0);
  EXPECT_FALSE(held.by_events(0));
  EXPECT_EQ(held.keys(0), 3U);
  EXPECT_EQ(overlap(held, 0, {1, 2, 3}, kNow + 1h), 3U);
  held.cleared(0);
  EXPECT_EQ(overlap(held, 0, {1, 2, 3}), 0U) << "that it holds nothing any more needs no names";
}

TEST(HeldPrefixes, AnEventForAKeyThatAnotherSlotReceivedIsAccepted) {
  HeldPrefixes held;
  held.open(0, 100);
  held.open(1, 100);
  held.sent(0, Keys{1, 2}, kNow);
  for (const std::uint64_t key : {1, 2, 3}) held.stored(1, key);
  EXPECT_TRUE(held.by_events(1));
  EXPECT_EQ(overlap(held, 1, {1, 2, 3}), 3U);
}

TEST(HeldPrefixes, LostEventsMakeTheCacheUnknown) {
  HeldPrefixes held;
  held.open(0, 100);
  switch_to_events(held, 0);
  held.stored(0, 1);
  held.events_lost(0);
  EXPECT_EQ(overlap(held, 0, {1}), 0U);
}

TEST(HeldPrefixes, PrefixesUsedNoLaterThanAMissingOneAreDropped) {
  HeldPrefixes held;
  held.open(0, 100);
  held.sent(0, Keys{1, 2}, kNow);
  held.sent(0, Keys{11, 12}, kNow + 60s);
  held.sent(0, Keys{21, 22}, kNow + 120s);
  const auto used_at = held.used_at(0, 12, kNow + 180s);
  ASSERT_TRUE(used_at);
  EXPECT_EQ(*used_at, kNow + 60s);
  held.sent(0, Keys{11, 12}, kNow + 180s);
  held.prefix_missing(0, *used_at);
  EXPECT_EQ(overlap(held, 0, {1, 2}), 0U);
  EXPECT_EQ(overlap(held, 0, {11, 12}), 2U) << "it was computed anew";
  EXPECT_EQ(overlap(held, 0, {21, 22}), 2U);
  EXPECT_FALSE(held.used_at(0, 1, kNow + 180s));
}

TEST(HeldPrefixes, EventsTakePrecedenceOverAMissingPrefix) {
  HeldPrefixes held;
  held.open(0, 100);
  switch_to_events(held, 0);
  held.sent(0, Keys{1}, kNow);
  held.stored(0, 1);
  held.prefix_missing(0, kNow + 1h);
  EXPECT_EQ(overlap(held, 0, {1}), 1U);
}

TEST(HeldPrefixes, AForgottenSlotStartsEmpty) {
  HeldPrefixes held;
  held.open(0, 100);
  switch_to_events(held, 0);
  held.stored(0, 1);
  held.sent(0, Keys{1, 2}, kNow);
  held.forget(0);
  held.open(0, 50);
  EXPECT_EQ(overlap(held, 0, {1, 2}), 0U);
  EXPECT_EQ(held.capacity(0), 50U);
  EXPECT_FALSE(held.by_events(0));
}

}  // namespace
}  // namespace penstock::routing
