#include "routing/endpoint_picker.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace penstock::routing {
namespace {

using namespace std::chrono_literals;
using Keys = std::vector<std::uint64_t>;
constexpr core::Instant kNow = core::kStart + 1000s;

Keys numbered(std::uint64_t first, std::size_t count) {
  Keys keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(first + i);
  return keys;
}

PickRequest ask_of(const Keys& keys, std::uint32_t output_tokens = 100) {
  return {
      .keys = keys, .input_tokens = static_cast<std::uint32_t>(keys.size()) * 256 + 50, .output_tokens = output_tokens};
}

// Replicas that were added long before kNow.
struct Fleet {
  explicit Fleet(std::uint32_t replicas, const EndpointPickerOptions& options = {})
      : selector(options, core::RandomStream{7}) {
    for (std::uint32_t slot = 0; slot < replicas; ++slot) selector.add(slot, core::kStart);
  }
  Selection choose(const Keys& keys, core::Instant now = kNow) { return *selector.choose(ask_of(keys), now); }
  Selection send(const Keys& keys, core::Instant now = kNow) {
    const Selection selection = choose(keys, now);
    selector.dispatched(ask_of(keys), selection, now);
    return selection;
  }
  // A request that has gone there, whatever is best.
  Selection send_to(std::uint32_t slot, const Keys& keys, core::Instant now = kNow) {
    Selection selection;
    selection.slot = slot;
    selection.uncached_tokens = ask_of(keys).input_tokens;
    selector.dispatched(ask_of(keys), selection, now);
    return selection;
  }
  void answer(const Selection& selection, core::Duration ttft, core::Instant now) {
    selector.first_token(selection.slot, selection.uncached_tokens, ttft, now);
  }
  void end(const Selection& selection, const Keys& keys, bool answered = true) {
    selector.finished(selection.slot, selection.uncached_tokens, ask_of(keys).input_tokens, 100, answered);
  }
  // Served from beginning to end, at 8,000 tokens a second.
  void serve(std::uint32_t slot, const Keys& keys, core::Instant now = kNow, double tokens_per_s = 8000.0) {
    const Selection selection = send_to(slot, keys, now);
    const core::Duration ttft = core::from_seconds(selection.uncached_tokens / tokens_per_s);
    answer(selection, ttft, now + ttft);
    end(selection, keys);
  }
  std::array<int, 8> shares(const Keys& keys, int times, core::Instant now = kNow) {
    std::array<int, 8> count{};
    for (int i = 0; i < times; ++i) ++count[choose(keys, now).slot];
    return count;
  }

  EndpointPicker selector;
};

TEST(EndpointPicker, NobodyIsChosenFromAnEmptyFleet) {
  Fleet fleet{0};
  EXPECT_FALSE(fleet.selector.choose(ask_of({}), kNow));
  fleet.selector.add(3, kNow);
  const auto selection = fleet.selector.choose(ask_of({}), kNow);
  ASSERT_TRUE(selection);
  EXPECT_EQ(selection->slot, 3U);
  EXPECT_EQ(selection->why, PickReason::kOnly);
}

TEST(EndpointPicker, EqualReplicasAreDrawn) {
  Fleet fleet{4};
  const auto shares = fleet.shares(numbered(1, 8), 4'000);
  for (int slot = 0; slot < 4; ++slot) EXPECT_NEAR(shares[slot], 1'000, 150);
}

TEST(EndpointPicker, ThePrefixIsFoundWhereItWasSent) {
  Fleet fleet{8};
  fleet.serve(5, numbered(1, 20));
  const Selection selection = fleet.choose(numbered(1, 20), kNow + 10s);
  EXPECT_EQ(selection.slot, 5U);
  EXPECT_EQ(selection.why, PickReason::kPrefix);
  EXPECT_EQ(selection.overlap_keys, 20U);
  EXPECT_EQ(selection.uncached_tokens, 50U);
}

TEST(EndpointPicker, ALongQueueOutweighsThePrefix) {
  Fleet fleet{2};
  fleet.serve(0, numbered(1, 20));
  for (std::uint64_t i = 0; i < 10; ++i) fleet.send_to(0, numbered(1000 * (i + 1), 20), kNow + 10s);
  const Selection selection = fleet.choose(numbered(1, 20), kNow + 10s);
  EXPECT_EQ(selection.slot, 1U);
  EXPECT_EQ(selection.why, PickReason::kLoad);
  EXPECT_EQ(selection.overlap_keys, 0U);
}

TEST(EndpointPicker, ExpectsTheQueueAndTheOwnPrompt) {
  Fleet fleet{1};
  const Keys ahead = numbered(1, 31), own = numbered(100, 15);
  fleet.send_to(0, ahead);
  const double expected_ms = (ask_of(ahead).input_tokens + ask_of(own).input_tokens) / 8.0;
  EXPECT_NEAR(fleet.choose(own).expected_ttft_ms, expected_ms, 1.0);
  // Half a second later half a second of it is done, but never more than what is there.
  EXPECT_NEAR(fleet.choose(own, kNow + 500ms).expected_ttft_ms, expected_ms - 500.0, 1.0);
  EXPECT_NEAR(fleet.choose(own, kNow + 5min).expected_ttft_ms, ask_of(own).input_tokens / 8.0, 1.0);
}

TEST(EndpointPicker, RunningSequencesCostEvenWhereNobodyQueues) {
  Fleet fleet{2};
  for (int i = 0; i < 5; ++i) fleet.answer(fleet.send_to(0, {}), 10ms, kNow + 10ms);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(fleet.choose({}, kNow + 10ms).slot, 1U);
}

TEST(EndpointPicker, ASlowReplicaIsLearnedAndGetsLess) {
  Fleet fleet{2};
  std::uint64_t key = 1;
  for (int i = 0; i < 40; ++i, key += 100) {
    fleet.serve(0, numbered(key, 8), kNow, 8000.0);
    fleet.serve(1, numbered(key, 8), kNow, 4000.0);
  }
  EXPECT_NEAR(fleet.selector.load(0, kNow).prefill_tokens_per_s, 8000.0, 400.0);
  EXPECT_NEAR(fleet.selector.load(1, kNow).prefill_tokens_per_s, 4000.0, 400.0);
  std::array<int, 2> sent{};
  for (int i = 0; i < 60; ++i, key += 100) ++sent[fleet.send(numbered(key, 8)).slot];
  EXPECT_NEAR(sent[1], 20, 4);
}

TEST(EndpointPicker, ABusyReplicaIsAvoidedUnlessAllAre) {
  Fleet fleet{2};
  fleet.serve(0, numbered(1, 20));
  fleet.selector.busy(0, kNow, 5s);
  EXPECT_EQ(fleet.choose(numbered(1, 20)).slot, 1U);
  EXPECT_EQ(fleet.choose(numbered(1, 20)).why, PickReason::kOnly);
  fleet.selector.busy(1, kNow, 5s);
  const Selection selection = fleet.choose(numbered(1, 20));
  EXPECT_EQ(selection.slot, 0U);
  EXPECT_LT(selection.expected_ttft_ms, 10'000.0);
  EXPECT_EQ(fleet.choose(numbered(1, 20), kNow + 6s).why, PickReason::kPrefix);
}

TEST(EndpointPicker, WhatFailedTheRequestIsNotChosenAgain) {
  Fleet fleet{3};
  const std::array<std::uint32_t, 2> failed{0, 2};
  PickRequest ask = ask_of({});
  ask.without = failed;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.selector.choose(ask, kNow)->slot, 1U);
  fleet.selector.set_eligible(1, false, kNow);
  EXPECT_FALSE(fleet.selector.choose(ask, kNow));
}

TEST(EndpointPicker, ADrainingReplicaKeepsItsBooksAndGetsNothing) {
  Fleet fleet{2};
  const Selection open = fleet.send_to(0, numbered(1, 4));
  fleet.selector.set_eligible(0, false, kNow);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.choose(numbered(1, 4)).slot, 1U);
  EXPECT_EQ(fleet.selector.load(0, kNow).open_requests, 1U);
  fleet.answer(open, 100ms, kNow + 100ms);
  fleet.end(open, numbered(1, 4));
  EXPECT_EQ(fleet.selector.load(0, kNow).open_requests, 0U);
  EXPECT_EQ(fleet.selector.load(0, kNow).context_tokens, 0U);
}

TEST(EndpointPicker, ANewReplicaIsNotFlooded) {
  Fleet fleet{1};
  for (int i = 0; i < 12; ++i) fleet.answer(fleet.send_to(0, {}), 10ms, kNow + 10ms);
  fleet.selector.add(1, kNow);
  const auto fill = [&](core::Instant now) {
    std::uint32_t sent = 0;
    for (; sent < 100; ++sent) {
      const Selection selection = fleet.choose({}, now);
      if (selection.slot == 0) break;
      fleet.answer(fleet.send_to(1, {}, now), 10ms, now);
    }
    return fleet.selector.load(1, now).open_requests;
  };
  EXPECT_LE(fill(kNow + 1s), 4U);
  const std::uint32_t half = fill(kNow + 10s);
  EXPECT_GE(half, 4U);
  EXPECT_LE(half, 7U);
  EXPECT_GE(fill(kNow + 21s), 11U);
}

TEST(EndpointPicker, AReplicaThatComesBackStartsSlowlyAgain) {
  Fleet fleet{2};
  fleet.selector.set_eligible(1, false, kNow);
  fleet.selector.set_eligible(1, true, kNow);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.choose(numbered(1, 4), kNow + 1s).slot, 0U);
  const auto shares = fleet.shares(numbered(1, 4), 1000, kNow + 30s);
  EXPECT_NEAR(shares[1], 500, 100);
}

TEST(EndpointPicker, AHeavierReplicaGetsMore) {
  Fleet fleet{1};
  fleet.selector.add(1, core::kStart, 2.0);
  std::array<int, 2> sent{};
  for (int i = 0; i < 90; ++i) ++sent[fleet.send(numbered(1000 * (i + 1), 4)).slot];
  EXPECT_NEAR(sent[1], 60, 5);
}

TEST(EndpointPicker, ASessionStaysWhereItWas) {
  Fleet fleet{4};
  PickRequest ask = ask_of({});
  ask.affinity = 99;
  const Selection first = *fleet.selector.choose(ask, kNow);
  fleet.selector.dispatched(ask, first, kNow);
  for (int i = 0; i < 50; ++i) {
    const Selection again = *fleet.selector.choose(ask, kNow);
    EXPECT_EQ(again.slot, first.slot);
    EXPECT_EQ(again.why, PickReason::kAffinity);
  }
}

TEST(EndpointPicker, ASessionMovesWhenStayingCostsMoreThanItIsWorth) {
  Fleet fleet{2};
  PickRequest ask = ask_of({});
  ask.affinity = 99;
  Selection home;
  home.slot = 1;
  fleet.selector.dispatched(ask, home, kNow);
  fleet.send_to(1, numbered(1, 8));  // a quarter of a second
  EXPECT_EQ(fleet.selector.choose(ask, kNow)->slot, 0U);
  ask.affinity_worth = 1s;
  EXPECT_EQ(fleet.selector.choose(ask, kNow)->slot, 1U);
  fleet.selector.set_eligible(1, false, kNow);
  EXPECT_EQ(fleet.selector.choose(ask, kNow)->slot, 0U);
}

TEST(EndpointPicker, OthersLoadIsHeardUntilItIsOld) {
  Fleet fleet{2};
  fleet.selector.report_load(
      0, {.at = kNow, .waiting = 4, .running = 2, .waiting_prefill_tokens = 16'000, .kv_usage = 0.5});
  EXPECT_EQ(fleet.selector.load(0, kNow).kv_usage, 0.5);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.choose({}, kNow + 9s).slot, 1U);
  EXPECT_NEAR(fleet.shares({}, 1000, kNow + 11s)[0], 500, 100);
  EXPECT_EQ(fleet.selector.load(0, kNow + 11s).kv_usage, std::nullopt);
}

TEST(EndpointPicker, OwnRequestsThatAreHeardOfCountOnce) {
  Fleet fleet{2};
  fleet.send_to(0, numbered(1, 8));
  fleet.send_to(1, numbered(1, 8));
  fleet.selector.report_load(0,
                             {.at = kNow, .waiting = 1, .running = 0, .waiting_prefill_tokens = 2098, .kv_usage = {}});
  EXPECT_NEAR(fleet.shares({}, 1000)[0], 500, 100);
}

TEST(EndpointPicker, ANearlyFullKvCacheCosts) {
  Fleet fleet{2};
  fleet.selector.report_load(0, {.at = kNow, .waiting_prefill_tokens = {}, .kv_usage = 0.75});
  EXPECT_NEAR(fleet.shares({}, 1000)[0], 500, 100);
  fleet.selector.report_load(0, {.at = kNow, .waiting_prefill_tokens = {}, .kv_usage = 0.9});
  EXPECT_EQ(fleet.shares({}, 100)[0], 0);
}

TEST(EndpointPicker, ContextStandsForKvThatNobodyTellsOf) {
  Fleet fleet{2};
  for (const std::uint32_t slot : {0, 1}) fleet.selector.set_capacity(slot, slot == 0 ? 10 : 100);
  for (const std::uint32_t slot : {0, 1}) fleet.answer(fleet.send_to(slot, numbered(1, 9)), 300ms, kNow + 300ms);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.choose({}, kNow + 300ms).slot, 1U);
}

TEST(EndpointPicker, ASlotThatIsUsedAgainKnowsNothingOfTheOneBefore) {
  Fleet fleet{1};
  fleet.send_to(0, numbered(1, 20));
  fleet.selector.stored(0, 1);
  fleet.selector.forget(0);
  EXPECT_FALSE(fleet.selector.choose(ask_of(numbered(1, 20)), kNow));
  fleet.selector.stored(0, 1);  // an event that comes late
  fleet.selector.finished(0, 5170, 5170, 100, false);
  fleet.selector.add(0, kNow);
  EXPECT_EQ(fleet.choose(numbered(1, 20)).overlap_keys, 0U);
  EXPECT_FALSE(fleet.selector.load(0, kNow).by_events);
  EXPECT_EQ(fleet.selector.load(0, kNow).open_requests, 0U);
}

TEST(EndpointPicker, SiblingsOfABurstMeetBeforeTheirEventsCome) {
  Fleet fleet{4};
  fleet.send_to(0, numbered(900, 1));
  for (std::uint32_t slot = 0; slot < 4; ++slot) fleet.selector.stored(slot, numbered(900, 1).front());
  for (std::uint32_t slot = 0; slot < 4; ++slot) fleet.selector.cleared(slot);
  const Selection first = fleet.send(numbered(1, 40));
  fleet.answer(first, 1300ms, kNow + 1300ms);
  EXPECT_EQ(fleet.choose(numbered(1, 40), kNow + 1400ms).slot, first.slot);
  EXPECT_EQ(fleet.choose(numbered(1, 40), kNow + 1400ms).overlap_keys, 40U);
  EXPECT_EQ(fleet.choose(numbered(1, 40), kNow + 8s).overlap_keys, 0U);
  EXPECT_TRUE(fleet.selector.load(first.slot, kNow).by_events);
}

TEST(EndpointPicker, ReasonsHaveStableNames) {
  EXPECT_STREQ(to_string(PickReason::kPrefix), "prefix");
  EXPECT_STREQ(to_string(PickReason::kLoad), "load");
  EXPECT_STREQ(to_string(PickReason::kAffinity), "affinity");
  EXPECT_STREQ(to_string(PickReason::kOnly), "only");
}

}  // namespace
}  // namespace penstock::routing
