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

PickRequest request_of(const Keys& keys, std::uint32_t output_tokens = 100) {
  return {
      .keys = keys, .input_tokens = static_cast<std::uint32_t>(keys.size()) * 256 + 50, .output_tokens = output_tokens};
}

// Replicas that were added long before kNow.
struct Fleet {
  explicit Fleet(std::uint32_t replicas, const EndpointPickerOptions& options = {})
      : picker(options, core::RandomStream{7}) {
    for (std::uint32_t slot = 0; slot < replicas; ++slot) picker.add(slot, core::kStart);
  }
  Selection choose(const Keys& keys, core::Instant now = kNow) { return *picker.choose(request_of(keys), now); }
  Selection send(const Keys& keys, core::Instant now = kNow) {
    const Selection selection = choose(keys, now);
    picker.dispatched(request_of(keys), selection, now);
    return selection;
  }
  // Dispatches a request to the given slot without a choice.
  Selection send_to(std::uint32_t slot, const Keys& keys, core::Instant now = kNow) {
    Selection selection;
    selection.slot = slot;
    selection.uncached_tokens = request_of(keys).input_tokens;
    picker.dispatched(request_of(keys), selection, now);
    return selection;
  }
  void answer(const Selection& selection, core::Duration ttft, core::Instant now) {
    picker.first_token(selection.slot, selection.uncached_tokens, ttft, now);
  }
  void end(const Selection& selection, const Keys& keys, bool answered = true) {
    picker.finished(selection.slot, selection.uncached_tokens, request_of(keys).input_tokens, 100, answered);
  }
  // Serves a request from start to end; default rate: 8,000 tokens per second.
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

  EndpointPicker picker;
};

TEST(EndpointPicker, NoReplicaIsChosenFromAnEmptyFleet) {
  Fleet fleet{0};
  EXPECT_FALSE(fleet.picker.choose(request_of({}), kNow));
  fleet.picker.add(3, kNow);
  const auto selection = fleet.picker.choose(request_of({}), kNow);
  ASSERT_TRUE(selection);
  EXPECT_EQ(selection->slot, 3U);
  EXPECT_EQ(selection->why, PickReason::kOnly);
}

TEST(EndpointPicker, EqualReplicasAreChosenAtRandom) {
  Fleet fleet{4};
  const auto shares = fleet.shares(numbered(1, 8), 4'000);
  for (int slot = 0; slot < 4; ++slot) EXPECT_NEAR(shares[slot], 1'000, 150);
}

TEST(EndpointPicker, APrefixIsRoutedToTheReplicaThatReceivedItBefore) {
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

// Sequences whose prompts were computed elsewhere are not slowed down by a prompt more than others are. The other
// replica has more of them, which began long ago.
TEST(EndpointPicker, SequencesWithoutAPromptAreNotYoung) {
  Fleet fleet{2};
  const auto decode = [&](std::uint32_t slot, core::Instant now) {
    PickRequest request;
    request.output_tokens = 1000;
    request.decode_only = true;
    Selection selection;
    selection.slot = slot;
    fleet.picker.dispatched(request, selection, now);
    fleet.picker.assume_first_token(slot, 0, now, now);
  };
  for (int i = 0; i < 23; ++i) decode(1, kNow - 60s);
  for (int i = 0; i < 20; ++i) decode(0, kNow);
  EXPECT_EQ(fleet.choose(numbered(1, 40)).slot, 0U);
}

TEST(EndpointPicker, ExpectedTtftCoversTheQueueAndTheRequestsPrompt) {
  Fleet fleet{1};
  const Keys ahead = numbered(1, 31), own = numbered(100, 15);
  fleet.send_to(0, ahead);
  const double expected_ms = (request_of(ahead).input_tokens + request_of(own).input_tokens) / 8.0;
  EXPECT_NEAR(fleet.choose(own).expected_ttft_ms, expected_ms, 1.0);
  // Half a second later, half a second of the queue is done, but never more than its length.
  EXPECT_NEAR(fleet.choose(own, kNow + 500ms).expected_ttft_ms, expected_ms - 500.0, 1.0);
  EXPECT_NEAR(fleet.choose(own, kNow + 5min).expected_ttft_ms, request_of(own).input_tokens / 8.0, 1.0);
}

TEST(EndpointPicker, RunningSequencesRaiseThePriceWithoutAQueue) {
  Fleet fleet{2};
  for (int i = 0; i < 5; ++i) fleet.answer(fleet.send_to(0, {}), 10ms, kNow + 10ms);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(fleet.choose({}, kNow + 10ms).slot, 1U);
}

// Each prompt takes 6.4 s. A replica that computes one costs its rest, its work and the delay of its answer more than
// an idle one.
TEST(EndpointPicker, TwoLongPromptsNeverShareAReplicaWhileAnotherIsIdle) {
  Fleet fleet{4};
  std::array<int, 4> sent{};
  for (std::uint64_t i = 0; i < 4; ++i) ++sent[fleet.send(numbered(1000 * (i + 1), 200), kNow + i * 100ms).slot];
  EXPECT_EQ(sent, (std::array<int, 4>{1, 1, 1, 1}));
}

TEST(EndpointPicker, AShortPromptAvoidsTheReplicaThatComputesALongOne) {
  Fleet fleet{2};
  const std::uint32_t slot = fleet.send(numbered(1000, 200)).slot;
  // The others wait for each other for 0.3 s, which is less than the rest of the long prompt.
  for (std::uint64_t i = 0; i < 10; ++i)
    EXPECT_NE(fleet.send(numbered(100'000 + 100 * i, 0), kNow + i * 100ms).slot, slot);
}

// 8,000 tokens/s: the prompt of 5,170 tokens costs 646 ms without its prefix and 6 ms with it. One prompt of 2,610
// tokens before it costs 326 ms of wait and 326 ms of recent work, two cost twice that.
TEST(EndpointPicker, APrefixAttractsAsLongAsItSavesMoreThanTheWait) {
  Fleet fleet{2};
  fleet.serve(0, numbered(1, 20), kNow - 60s);
  fleet.send_to(0, numbered(1000, 10));
  EXPECT_EQ(fleet.choose(numbered(1, 20), kNow + 100ms).slot, 0U);
  fleet.send_to(0, numbered(2000, 10));
  EXPECT_EQ(fleet.choose(numbered(1, 20), kNow + 100ms).slot, 1U);
}

// 8,000 tokens/s. Replica 0 has begun an answer: a prompt there costs its own time twice. Replica 1 has computed 2,660
// tokens, 333 ms, and answers nothing. Prompts of up to about 2,660 tokens cost less at replica 0, longer ones at 1.
TEST(EndpointPicker, ALongPromptAvoidsReplicasWithYoungAnswers) {
  Fleet fleet{2};
  fleet.answer(fleet.send_to(0, {}), 10ms, kNow + 10ms);
  EXPECT_EQ(fleet.choose(numbered(1, 4), kNow + 10ms).slot, 1U);
  fleet.serve(1, numbered(1000, 10), kNow - 320ms);
  EXPECT_EQ(fleet.choose(numbered(2000, 4), kNow + 20ms).slot, 0U);
  EXPECT_EQ(fleet.choose(numbered(2000, 16), kNow + 20ms).slot, 1U);
}

// Turns of three sessions were served by the first replica and not by the second: later turns would wait there.
TEST(EndpointPicker, ALongPromptAvoidsAReplicaToWhichSessionsReturn) {
  Fleet fleet{2};
  const Keys session = numbered(1, 400), longer = numbered(1, 420);
  fleet.serve(0, session, kNow - 60s);
  fleet.serve(1, numbered(100'000, 400), kNow - 60s);
  for (int turn = 0; turn < 3; ++turn) {
    const core::Instant at = kNow - 40s + turn * 10s;
    const Selection selection = fleet.send(longer, at);
    EXPECT_EQ(selection.slot, 0U);
    const core::Duration ttft = core::from_seconds(selection.uncached_tokens / 8000.0);
    fleet.answer(selection, ttft, at + ttft);
    fleet.end(selection, longer);
  }
  EXPECT_EQ(fleet.shares(numbered(200'000, 400), 200)[0], 0);
}

// Both caches are full. What the first one evicts was used seconds ago, and such prefixes have been used again.
TEST(EndpointPicker, APromptGoesWhereItEvictsWhatIsNotUsedAgain) {
  Fleet fleet{2};
  for (const std::uint32_t slot : {0U, 1U}) fleet.picker.set_capacity(slot, 100);
  const core::Instant end = kNow + 1000s;
  fleet.serve(1, numbered(1'000, 100), end - 1000s);
  const auto turn = [&](core::Instant at) {
    const Selection selection = fleet.send(numbered(1, 100), at);
    fleet.answer(selection, 100ms, at + 100ms);
    fleet.end(selection, numbered(1, 100));
    return selection.slot;
  };
  fleet.serve(0, numbered(1, 100), end - 900s);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(turn(end - 800s + i * 100s), 0U);
  // The rate of requests with a prefix has faded when the next prompt comes.
  EXPECT_EQ(fleet.shares(numbered(2'000, 50), 200, end)[0], 0);
}

TEST(EndpointPicker, ASlowReplicaIsMeasuredAndReceivesLess) {
  Fleet fleet{2};
  std::uint64_t key = 1;
  for (int i = 0; i < 40; ++i, key += 100) {
    fleet.serve(0, numbered(key, 8), kNow, 8000.0);
    fleet.serve(1, numbered(key, 8), kNow, 4000.0);
  }
  EXPECT_NEAR(fleet.picker.load(0, kNow).prefill_tokens_per_s, 8000.0, 500.0);
  EXPECT_NEAR(fleet.picker.load(1, kNow).prefill_tokens_per_s, 4000.0, 500.0);
  std::array<int, 2> sent{};
  for (int i = 0; i < 60; ++i, key += 100) ++sent[fleet.send(numbered(key, 8)).slot];
  EXPECT_NEAR(sent[1], 20, 4);
}

TEST(EndpointPicker, ABusyReplicaIsAvoidedUnlessAllAreBusy) {
  Fleet fleet{2};
  fleet.serve(0, numbered(1, 20), kNow - 10s);
  fleet.picker.busy(0, kNow, 5s);
  EXPECT_EQ(fleet.choose(numbered(1, 20)).slot, 1U);
  EXPECT_EQ(fleet.choose(numbered(1, 20)).why, PickReason::kOnly);
  fleet.picker.busy(1, kNow, 5s);
  const Selection selection = fleet.choose(numbered(1, 20));
  EXPECT_EQ(selection.slot, 0U);
  EXPECT_LT(selection.expected_ttft_ms, 10'000.0);
  EXPECT_EQ(fleet.choose(numbered(1, 20), kNow + 6s).why, PickReason::kPrefix);
}

TEST(EndpointPicker, AReplicaThatFailedTheRequestIsNotChosenAgain) {
  Fleet fleet{3};
  const std::array<std::uint32_t, 2> failed{0, 2};
  PickRequest request = request_of({});
  request.without = failed;
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.picker.choose(request, kNow)->slot, 1U);
  fleet.picker.set_eligible(1, false, kNow);
  EXPECT_FALSE(fleet.picker.choose(request, kNow));
}

TEST(EndpointPicker, ADrainingReplicaKeepsItsLoadAndReceivesNothing) {
  Fleet fleet{2};
  const Selection open = fleet.send_to(0, numbered(1, 4));
  fleet.picker.set_eligible(0, false, kNow);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.choose(numbered(1, 4)).slot, 1U);
  EXPECT_EQ(fleet.picker.load(0, kNow).open_requests, 1U);
  fleet.answer(open, 100ms, kNow + 100ms);
  fleet.end(open, numbered(1, 4));
  EXPECT_EQ(fleet.picker.load(0, kNow).open_requests, 0U);
  EXPECT_EQ(fleet.picker.load(0, kNow).context_tokens, 0U);
}

TEST(EndpointPicker, ANewReplicaStartsSlowly) {
  Fleet fleet{1};
  for (int i = 0; i < 12; ++i) fleet.answer(fleet.send_to(0, {}), 10ms, kNow + 10ms);
  fleet.picker.add(1, kNow);
  const auto fill = [&](core::Instant now, core::Duration gap = 0s) {
    std::uint32_t sent = 0;
    for (; sent < 100; ++sent, now += gap) {
      const Selection selection = fleet.choose({}, now);
      if (selection.slot == 0) break;
      fleet.answer(fleet.send_to(1, {}, now), 10ms, now);
    }
    return fleet.picker.load(1, now).open_requests;
  };
  EXPECT_LE(fill(kNow + 1s), 4U);
  const std::uint32_t half = fill(kNow + 10s);
  EXPECT_GE(half, 4U);
  EXPECT_LE(half, 7U);
  EXPECT_GE(fill(kNow + 21s, 10s), 11U);
}

TEST(EndpointPicker, AReplicaThatBecomesEligibleAgainStartsSlowly) {
  Fleet fleet{2};
  fleet.picker.set_eligible(1, false, kNow);
  fleet.picker.set_eligible(1, true, kNow);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.choose(numbered(1, 4), kNow + 1s).slot, 0U);
  const auto shares = fleet.shares(numbered(1, 4), 1000, kNow + 30s);
  EXPECT_NEAR(shares[1], 500, 100);
}

TEST(EndpointPicker, AReplicaWithMoreWeightReceivesMore) {
  Fleet fleet{1};
  fleet.picker.add(1, core::kStart, 2.0);
  std::array<int, 2> sent{};
  for (int i = 0; i < 90; ++i) ++sent[fleet.send(numbered(1000 * (i + 1), 4)).slot];
  EXPECT_NEAR(sent[1], 60, 5);
}

TEST(EndpointPicker, ASessionStaysOnItsReplica) {
  Fleet fleet{4};
  PickRequest request = request_of({});
  request.affinity = 99;
  const Selection first = *fleet.picker.choose(request, kNow);
  fleet.picker.dispatched(request, first, kNow);
  for (int i = 0; i < 50; ++i) {
    const Selection again = *fleet.picker.choose(request, kNow);
    EXPECT_EQ(again.slot, first.slot);
    EXPECT_EQ(again.why, PickReason::kAffinity);
  }
}

TEST(EndpointPicker, ASessionMovesWhenStayingExceedsTheTolerance) {
  Fleet fleet{2};
  PickRequest request = request_of({});
  request.affinity = 99;
  Selection home;
  home.slot = 1;
  fleet.picker.dispatched(request, home, kNow);
  fleet.send_to(1, numbered(1, 8));  // This prompt takes a quarter of a second.
  EXPECT_EQ(fleet.picker.choose(request, kNow)->slot, 0U);
  request.affinity_tolerance = 1s;
  EXPECT_EQ(fleet.picker.choose(request, kNow)->slot, 1U);
  fleet.picker.set_eligible(1, false, kNow);
  EXPECT_EQ(fleet.picker.choose(request, kNow)->slot, 0U);
}

TEST(EndpointPicker, ReportedLoadOfOtherClientsCountsUntilItExpires) {
  Fleet fleet{2};
  fleet.picker.report_load(0,
                           {.at = kNow, .waiting = 4, .running = 2, .waiting_prefill_tokens = 16'000, .kv_usage = 0.5});
  EXPECT_EQ(fleet.picker.load(0, kNow).kv_usage, 0.5);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.choose({}, kNow + 9s).slot, 1U);
  EXPECT_NEAR(fleet.shares({}, 1000, kNow + 11s)[0], 500, 100);
  EXPECT_EQ(fleet.picker.load(0, kNow + 11s).kv_usage, std::nullopt);
}

TEST(EndpointPicker, OwnRequestsInAReportAreNotCountedTwice) {
  Fleet fleet{2};
  fleet.send_to(0, numbered(1, 8));
  fleet.send_to(1, numbered(1, 8));
  fleet.picker.report_load(0, {.at = kNow, .waiting = 1, .running = 0, .waiting_prefill_tokens = 2098, .kv_usage = {}});
  EXPECT_NEAR(fleet.shares({}, 1000)[0], 500, 100);
}

TEST(EndpointPicker, ANearlyFullKvCacheRaisesThePrice) {
  Fleet fleet{2};
  fleet.picker.report_load(0, {.at = kNow, .waiting_prefill_tokens = {}, .kv_usage = 0.75});
  EXPECT_NEAR(fleet.shares({}, 1000)[0], 500, 100);
  fleet.picker.report_load(0, {.at = kNow, .waiting_prefill_tokens = {}, .kv_usage = 0.9});
  EXPECT_EQ(fleet.shares({}, 100)[0], 0);
}

// A full replica begins few answers, so all other terms call it cheap.
TEST(EndpointPicker, AReplicaThatGetsNoPromptsIsLeftOutUnlessAllAreFull) {
  Fleet fleet{2};
  for (std::uint64_t i = 1; i <= 20; ++i) fleet.send_to(1, numbered(1000 * i, 20));  // 12.8 s of prompts.
  const auto report = [&](std::uint32_t slot, double kv_usage) {
    fleet.picker.report_load(slot, {.at = kNow, .waiting_prefill_tokens = {}, .kv_usage = kv_usage});
  };
  report(0, 0.89);
  EXPECT_EQ(fleet.choose({}, kNow).slot, 0U);
  report(0, 0.9);
  EXPECT_EQ(fleet.choose({}, kNow).slot, 1U);
  report(1, 0.95);
  EXPECT_EQ(fleet.choose({}, kNow).slot, 0U);
}

TEST(EndpointPicker, ContextTokensReplaceUnreportedKvUsage) {
  Fleet fleet{2};
  for (const std::uint32_t slot : {0, 1}) fleet.picker.set_capacity(slot, slot == 0 ? 10 : 100);
  for (const std::uint32_t slot : {0, 1}) fleet.answer(fleet.send_to(slot, numbered(1, 9)), 300ms, kNow + 300ms);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(fleet.choose({}, kNow + 300ms).slot, 1U);
}

TEST(EndpointPicker, AReusedSlotStartsWithoutState) {
  Fleet fleet{1};
  fleet.send_to(0, numbered(1, 20));
  fleet.picker.stored(0, 1);
  fleet.picker.forget(0);
  EXPECT_FALSE(fleet.picker.choose(request_of(numbered(1, 20)), kNow));
  fleet.picker.stored(0, 1);  // This event arrives late.
  fleet.picker.finished(0, 5170, 5170, 100, false);
  fleet.picker.add(0, kNow);
  EXPECT_EQ(fleet.choose(numbered(1, 20)).overlap_keys, 0U);
  EXPECT_FALSE(fleet.picker.load(0, kNow).by_events);
  EXPECT_EQ(fleet.picker.load(0, kNow).open_requests, 0U);
}

TEST(EndpointPicker, ConcurrentRequestsShareAReplicaBeforeEventsArrive) {
  Fleet fleet{4};
  fleet.send_to(0, numbered(900, 1));
  for (std::uint32_t slot = 0; slot < 4; ++slot) fleet.picker.stored(slot, numbered(900, 1).front());
  for (std::uint32_t slot = 0; slot < 4; ++slot) fleet.picker.cleared(slot);
  const Selection first = fleet.send(numbered(1, 40));
  fleet.answer(first, 1300ms, kNow + 1300ms);
  EXPECT_EQ(fleet.choose(numbered(1, 40), kNow + 1400ms).slot, first.slot);
  EXPECT_EQ(fleet.choose(numbered(1, 40), kNow + 1400ms).overlap_keys, 40U);
  EXPECT_EQ(fleet.choose(numbered(1, 40), kNow + 8s).overlap_keys, 0U);
  EXPECT_TRUE(fleet.picker.load(first.slot, kNow).by_events);
}

TEST(EndpointPicker, ReasonsHaveStableNames) {
  EXPECT_STREQ(to_string(PickReason::kPrefix), "prefix");
  EXPECT_STREQ(to_string(PickReason::kLoad), "load");
  EXPECT_STREQ(to_string(PickReason::kAffinity), "affinity");
  EXPECT_STREQ(to_string(PickReason::kOnly), "only");
}

}  // namespace
}  // namespace penstock::routing
