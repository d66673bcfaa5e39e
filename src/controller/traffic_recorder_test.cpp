#include "controller/traffic_recorder.h"

#include <gtest/gtest.h>

#include "controller/live_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
// Pages come at this time of ours, whatever the gateway's clock says.
constexpr core::Instant kNow = core::kStart + 1000s;

signals::PoolObservation entry_of(TrafficRecorder& book, core::Instant now = kNow) {
  std::vector<signals::PoolObservation> pools(1);
  book.fill(pools, now);
  return pools.front();
}

TEST(TrafficRecorder, RecordsTheEventsOfARequest) {
  TrafficRecorder book{{}};
  book.take(page_of({arrival(7, 10.0), first_token(7, 10.5, 500.0), end_of(7, 12.0)}, 13.0), kNow);
  const signals::PoolObservation entry = entry_of(book);
  EXPECT_EQ(entry.arrivals_total, 1U);
  EXPECT_EQ(entry.input_tokens_total, 1000U);
  EXPECT_EQ(entry.completed_total, 1U);
  EXPECT_EQ(entry.output_tokens_total, 101U);
  EXPECT_EQ(entry.last_minute.arrivals, 1U);
  EXPECT_EQ(entry.last_minute.output_tokens, 101U);
  EXPECT_EQ(entry.last_minute.ttft.count, 1U);
  EXPECT_NEAR(entry.last_minute.ttft.p50_ms, 500.0, 10.0);
  EXPECT_NEAR(entry.last_minute.itl.p50_ms, 20.0, 1.0);
  ASSERT_TRUE(entry.detail);
  EXPECT_FALSE(entry.detail->segments.empty());
  EXPECT_EQ(entry.detail->first_tokens.count, 1U);
  const auto recent = book.recent(core::kStart);
  ASSERT_EQ(recent.size(), 1U);
  EXPECT_EQ(recent[0].arrival, kNow - 3s) << "the gateway's times are moved onto our clock";
  EXPECT_EQ(recent[0].input_tokens, 1100U) << "the engine counts better than the estimate";
  EXPECT_EQ(recent[0].output_tokens, 101U);
  EXPECT_FLOAT_EQ(recent[0].ttft_ms, 500.0F);
  EXPECT_FLOAT_EQ(recent[0].itl_ms, 20.0F);
}

TEST(TrafficRecorder, LeavesOutOtherModels) {
  TrafficOptions options;
  options.model = "m";
  TrafficRecorder book{options};
  TrafficItem other = arrival(8, 10.0);
  other.model = "another";
  book.take(page_of({arrival(7, 10.0), other, first_token(7, 10.5, 500.0), first_token(8, 10.6, 9000.0),
                     end_of(7, 12.0), end_of(8, 12.0, "failed")},
                    13.0),
            kNow);
  const signals::PoolObservation entry = entry_of(book);
  EXPECT_EQ(entry.arrivals_total, 1U);
  EXPECT_EQ(entry.output_tokens_total, 101U);
  EXPECT_EQ(entry.failed_total, 0U);
  EXPECT_EQ(entry.last_minute.ttft.count, 1U);
  EXPECT_EQ(book.recent(core::kStart).size(), 1U);
  EXPECT_EQ(book.judged(), 1U);
}

TEST(TrafficRecorder, WindowsCoverAMinuteAndTotalsAllTime) {
  TrafficRecorder book{{}};
  book.take(page_of({arrival(7, 10.0), first_token(7, 10.5, 500.0), end_of(7, 12.0)}, 12.0), kNow);
  const signals::PoolObservation later = entry_of(book, kNow + 5min);
  EXPECT_EQ(later.last_minute.arrivals, 0U);
  EXPECT_EQ(later.last_minute.output_tokens, 0U);
  EXPECT_EQ(later.last_minute.ttft.count, 0U);
  EXPECT_EQ(later.arrivals_total, 1U);
  EXPECT_EQ(later.output_tokens_total, 101U);
}

TEST(TrafficRecorder, WithTwoPoolsTheDecodeReplicasHaveTheAnsweredRequests) {
  TrafficOptions options;
  options.disaggregated = true;
  TrafficRecorder book{options};
  book.take(page_of({arrival(1, 10.0), arrival(2, 10.0), first_token(2, 10.5, 500.0), end_of(2, 12.0)}, 12.0), kNow);
  std::vector<signals::PoolObservation> pools(2);
  pools[0].role = signals::Role::kPrefill;
  pools[1].role = signals::Role::kDecode;
  book.fill(pools, kNow);
  const signals::PoolObservation &entry = pools[0], &decode = pools[1];
  EXPECT_EQ(entry.last_minute.arrivals, 2U);
  EXPECT_EQ(decode.last_minute.arrivals, 1U);
  EXPECT_EQ(decode.last_minute.completed, 1U);
  EXPECT_EQ(decode.output_tokens_total, 101U);
}

TEST(TrafficRecorder, EachOfSeveralPoolsHasItsOwnRequests) {
  TrafficOptions options;
  options.pools.resize(3);
  options.pools[0].traffic_class = "batch";
  options.pools[1].prompt_max = 1000;
  TrafficRecorder book{options};
  TrafficItem batch = arrival(1, 10.0), brief = arrival(2, 10.0), long_one = arrival(3, 10.0);
  batch.traffic_class = "batch";
  long_one.input_tokens = 1001;
  book.take(page_of({batch, brief, long_one, first_token(3, 10.5, 500.0), end_of(3, 12.0)}, 12.0), kNow);
  std::vector<signals::PoolObservation> pools(3);
  book.fill(pools, kNow);
  EXPECT_EQ(pools[0].input_tokens_total, 1000U);
  EXPECT_EQ(pools[1].input_tokens_total, 1000U);
  EXPECT_EQ(pools[2].input_tokens_total, 1001U);
  EXPECT_EQ(pools[1].completed_total, 0U);
  EXPECT_EQ(pools[2].completed_total, 1U);
  EXPECT_EQ(pools[1].output_tokens_total, 0U);
  EXPECT_EQ(pools[2].output_tokens_total, 101U);
  const auto recent = book.recent(core::kStart);
  ASSERT_EQ(recent.size(), 3U);
  for (std::uint8_t i = 0; i < 3; ++i) EXPECT_EQ(recent[i].pool, i);
}

struct Judged {
  const char* what;
  std::vector<TrafficItem> items;
  std::uint64_t kept, judged, failed;
  std::uint64_t ttft_kept = kept, itl_kept = kept;
};

TEST(TrafficRecorder, JudgesWhatWasStreamedOrFailed) {
  const Judged cases[] = {
      {"in time", {arrival(1, 1.0), first_token(1, 2.0, 1000.0), end_of(1, 3.0)}, 1, 1, 0},
      {"first token too late", {arrival(1, 1.0), first_token(1, 4.0, 3000.0), end_of(1, 5.0)}, 0, 1, 0, 0, 1},
      {"gaps too long",
       {arrival(1, 1.0), first_token(1, 2.0, 100.0), end_of(1, 3.0, "completed", 51.0)},
       0,
       1,
       0,
       1,
       0},
      {"one token, no gap", {arrival(1, 1.0), first_token(1, 2.0, 100.0), end_of(1, 3.0, "completed", -1.0)}, 1, 1, 0},
      {"failed before its first token", {arrival(1, 1.0), end_of(1, 3.0, "failed")}, 0, 1, 1},
      {"failed after it", {arrival(1, 1.0), first_token(1, 2.0, 100.0), end_of(1, 3.0, "failed")}, 0, 1, 1},
      {"lost", {arrival(1, 1.0), end_of(1, 3.0, "lost")}, 0, 1, 1},
      {"the client left", {arrival(1, 1.0), first_token(1, 2.0, 100.0), end_of(1, 3.0, "cancelled")}, 0, 0, 0},
      {"not streamed", {arrival(1, 1.0), end_of(1, 3.0)}, 0, 0, 0},
      {"still open", {arrival(1, 1.0), first_token(1, 2.0, 100.0)}, 0, 0, 0},
  };
  for (const Judged& each : cases) {
    TrafficRecorder book{{}};
    book.take(page_of(each.items, 10.0), kNow);
    EXPECT_EQ(book.met(), each.kept) << each.what;
    EXPECT_EQ(book.judged(), each.judged) << each.what;
    EXPECT_EQ(book.ttft_attainment().has_value(), each.judged > 0) << each.what;
    EXPECT_EQ(book.ttft_attainment().value_or(0.0), static_cast<double>(each.ttft_kept)) << each.what;
    EXPECT_EQ(book.itl_attainment().value_or(0.0), static_cast<double>(each.itl_kept)) << each.what;
    EXPECT_EQ(book.ends().failed + book.ends().truncated, each.failed) << each.what;
    EXPECT_EQ(entry_of(book).failed_total, each.failed) << each.what;
  }
}

TEST(TrafficRecorder, CountsTheTokensOfEachTenantAndThoseWithinTheSlo) {
  TrafficOptions options;
  options.tokens_from = kNow - 8s;  // The first request ended at that time.
  TrafficRecorder book{options};
  TrafficItem other = arrival(4, 4.0);
  other.tenant = "research";
  book.take(page_of({arrival(1, 1.0), first_token(1, 1.5, 500.0), end_of(1, 2.0),   // before
                     arrival(2, 2.0), first_token(2, 2.5, 500.0), end_of(2, 4.0),   // in time
                     arrival(3, 3.0), first_token(3, 7.0, 4000.0), end_of(3, 8.0),  // too late
                     other, end_of(4, 6.0),                                         // not streamed: no SLO is missed
                     arrival(5, 5.0), first_token(5, 5.5, 100.0), end_of(5, 6.0, "cancelled")},
                    10.0),
            kNow);
  const auto taken = book.take_tokens();
  EXPECT_TRUE(book.take_tokens().empty());
  ASSERT_EQ(taken.size(), 2U);
  const decision::TenantTokens &research = taken[0], &shop = taken[1];
  EXPECT_EQ(shop.tenant, "shop");
  EXPECT_EQ(shop.model, "m");
  EXPECT_EQ(shop.completed.input, 2200U);
  EXPECT_EQ(shop.completed.output, 202U);
  EXPECT_EQ(shop.within_slo.input, 1100U);
  EXPECT_EQ(shop.within_slo.output, 101U);
  EXPECT_EQ(research.tenant, "research");
  EXPECT_EQ(research.completed.output, 101U);
  EXPECT_EQ(research.within_slo.output, 101U);
}

TEST(TrafficRecorder, AnAnswerThatIsNotStreamedHasATimeForTheWholeAndNeitherTtftNorItl) {
  for (const bool has_objective : {false, true}) {
    TrafficOptions options;
    if (has_objective) options.slo.target.e2e = 4s;
    TrafficRecorder book{options};
    std::vector<TrafficItem> items;
    for (std::uint64_t request = 1; request <= 4; ++request) {
      items.push_back(arrival(request, 10.0));
      items.back().streamed = request == 1;
      if (request == 1) items.push_back(first_token(1, 10.5, 500.0));
      items.push_back(end_of(request, request == 4 ? 15.0 : 12.0, "completed", request == 1 ? 20.0 : -1.0));
    }
    book.take(page_of(items, 15.0), kNow);
    const signals::TrafficWindow seen = entry_of(book).last_minute;
    EXPECT_EQ(seen.completed, 4U);
    EXPECT_EQ(seen.ttft.count, 1U);
    EXPECT_EQ(seen.itl.count, 1U);
    EXPECT_NEAR(seen.itl.p50_ms, 20.0, 1.0) << "an ITL that was not measured is not 0";
    EXPECT_EQ(seen.e2e.count, 3U);
    EXPECT_NEAR(seen.e2e.p50_ms, 2000.0, 40.0);
    EXPECT_NEAR(seen.tpot.p50_ms, 2000.0 / 101.0, 0.5);
    EXPECT_EQ(book.judged(), has_objective ? 4U : 1U);
    EXPECT_EQ(book.met(), has_objective ? 3U : 1U);
    const auto recent = book.recent(core::kStart);
    EXPECT_FALSE(recent[1].streamed);
    EXPECT_LT(recent[1].ttft_ms, 0.0F);
    EXPECT_LT(recent[1].itl_ms, 0.0F);
    EXPECT_FLOAT_EQ(recent[1].e2e_ms, 2000.0F);
  }
}

TEST(TrafficRecorder, AddsUpTheGapsOfEachReplica) {
  TrafficRecorder book{{}};
  std::vector<TrafficItem> items;
  for (std::uint64_t request = 1; request <= 3; ++request) {
    items.push_back(arrival(request, 1.0));
    items.push_back(first_token(request, 1.1, 100.0));
    items.push_back(end_of(request, 3.0, "completed", request == 3 ? -1.0 : 20.0));
    items.back().replica = "a";
  }
  book.take(page_of(items, 10.0), kNow);
  // Each answer has 101 tokens, and the ITL of the third one is unknown.
  EXPECT_EQ(book.gaps_of("a").count, 200U);
  EXPECT_NEAR(book.gaps_of("a").sum, 4.0, 1e-9);
  EXPECT_EQ(book.gaps_of("b").count, 0U);
}

TEST(TrafficRecorder, AWaitForLimitsOfItsOwnIsAPartOfItsOwn) {
  TrafficRecorder book{{}};
  TrafficItem first = first_token(7, 10.5, 500.0);
  first.own_limit_ms = 3000.0;
  first.admission_ms = 100.0;
  book.take(page_of({arrival(7, 10.0), first}, 13.0), kNow);
  const signals::PoolObservation entry = entry_of(book);
  EXPECT_NEAR(entry.last_minute.ttft.p50_ms, 500.0, 10.0) << "it does not count against the SLO";
  const signals::FirstTokenWindow& parts = entry.detail->first_tokens;
  EXPECT_NEAR(parts.admission.mean_ms, 3000.0, 60.0);
  EXPECT_NEAR(parts.replica_wait.mean_ms, 100.0, 2.0);
  EXPECT_NEAR(parts.prefill.mean_ms, 400.0, 8.0);
  EXPECT_EQ(parts.slow, 1U);
}

TEST(TrafficRecorder, ReportsHowRequestsEnded) {
  TrafficItem nothing = end_of(1, 3.0, "failed");
  nothing.output_tokens = 0;
  TrafficItem refused = end_of(6, 3.0, "refused");
  TrafficRecorder book{{}};
  book.take(page_of({nothing, end_of(2, 3.0, "failed"), end_of(3, 3.0, "cancelled"), end_of(4, 3.0, "timed_out"),
                     end_of(5, 3.0, "completed"), refused, end_of(7, 3.0, "lost")},
                    10.0),
            kNow);
  EXPECT_EQ(book.ends(), (signals::RequestEnds{1, 1, 2, 1, 1}));
}

TEST(TrafficRecorder, CountsWhatWasRefusedInTheLastMinute) {
  TrafficRecorder book{{}};
  TrafficItem refused = end_of(1, 10.0, "refused", -1.0);
  refused.prompt_tokens = refused.output_tokens = 0;
  book.take(page_of({arrival(1, 10.0), refused, arrival(2, 10.0), end_of(2, 11.0, "cancelled")}, 12.0), kNow);
  EXPECT_EQ(entry_of(book).detail->shed, 1U);
  EXPECT_EQ(entry_of(book).arrivals_total, 2U) << "it is load all the same";
  EXPECT_EQ(book.judged(), 0U);
  EXPECT_EQ(entry_of(book, kNow + 5min).detail->shed, 0U);
}

TEST(TrafficRecorder, ARejectedRequestIsNoLoadAndNoMiss) {
  TrafficRecorder book{{}};
  TrafficItem large = arrival(2, 10.0);
  large.input_tokens = 50'000;
  TrafficItem rejected = end_of(2, 10.0, "rejected", -1.0);
  rejected.prompt_tokens = rejected.output_tokens = 0;
  book.take(page_of({arrival(1, 10.0), large}, 10.0), kNow);
  const signals::PoolObservation before = entry_of(book);
  EXPECT_EQ(before.arrivals_total, 2U);
  book.take(page_of({rejected, rejected, end_of(1, 12.0, "completed")}, 12.0), kNow + 2s);
  const signals::PoolObservation after = entry_of(book, kNow + 2s);
  EXPECT_EQ(after.last_minute.arrivals, 1U);
  EXPECT_LT(after.last_minute.input_tokens, 50'000U);
  EXPECT_EQ(after.failed_total, 0U);
  EXPECT_EQ(after.arrivals_total, 2U) << "counters never decrease";
  ASSERT_EQ(book.recent(core::kStart).size(), 1U) << "trials do not see it";
  EXPECT_EQ(book.judged(), 0U);
  EXPECT_EQ(book.ends(), (signals::RequestEnds{.completed = 1}));
  book.take(page_of({arrival(3, 14.0), arrival(4, 14.0)}, 14.0), kNow + 4s);
  EXPECT_EQ(entry_of(book, kNow + 4s).arrivals_total, 3U) << "one of them makes up for the rejected one";
  EXPECT_EQ(entry_of(book, kNow + 4s).input_tokens_total, before.input_tokens_total) << "they are smaller";
}

TEST(TrafficRecorder, JudgesARequestByTheTargetOfItsSegment) {
  TrafficOptions options;
  signals::SegmentSlo strict;
  strict.name = "shop";
  strict.tenant = "shop";
  strict.target.ttft = 100ms;
  options.slo.segments = {strict};
  TrafficRecorder book{options};
  TrafficItem other = arrival(2, 1.0);
  other.tenant = "search";
  book.take(page_of({arrival(1, 1.0), other, first_token(1, 2.0, 500.0), first_token(2, 2.0, 500.0), end_of(1, 3.0),
                     end_of(2, 3.0)},
                    10.0),
            kNow);
  EXPECT_EQ(book.judged(), 2U);
  EXPECT_EQ(book.met(), 1U);
  EXPECT_EQ(book.recent(core::kStart)[0].target, 1U);
  EXPECT_EQ(book.recent(core::kStart)[1].target, 0U);
  EXPECT_EQ(book.tenants()[book.recent(core::kStart)[0].tenant], "shop");
  EXPECT_EQ(book.tenants()[book.recent(core::kStart)[1].tenant], "search");
}

TEST(TrafficRecorder, SharedPrefixesHaveTheSameBlocks) {
  TrafficRecorder book{{}};
  book.take(page_of({arrival(1, 1.0, {11, 12, 13}), arrival(2, 2.0, {11, 12, 99}), arrival(3, 3.0)}, 10.0), kNow);
  const auto recent = book.recent(core::kStart);
  ASSERT_EQ(recent.size(), 3U);
  ASSERT_EQ(recent[0].block_ids.size(), 3U);
  EXPECT_EQ(recent[0].block_ids[0], recent[1].block_ids[0]);
  EXPECT_EQ(recent[0].block_ids[1], recent[1].block_ids[1]);
  EXPECT_NE(recent[0].block_ids[2], recent[1].block_ids[2]);
  EXPECT_TRUE(recent[2].block_ids.empty());
}

TEST(TrafficRecorder, RecentRequestsAreInTheOrderOfTimeFromAMomentOn) {
  TrafficRecorder book{{}};
  book.take(page_of({arrival(1, 9.0), arrival(2, 3.0), arrival(3, 6.0)}, 10.0), kNow);
  const auto all = book.recent(core::kStart);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].arrival, kNow - 7s);
  EXPECT_EQ(all[2].arrival, kNow - 1s);
  EXPECT_EQ(book.recent(kNow - 4s).size(), 2U);
}

TEST(TrafficRecorder, AGatewayThatBeganAnewUsesItsNumbersAgain) {
  TrafficRecorder book{{}};
  TrafficPage first = page_of({arrival(1, 100.0), first_token(1, 101.0, 1000.0)}, 102.0);
  first.lost = 5;
  book.take(first, kNow);
  EXPECT_EQ(book.lost_events(), 0U) << "events before the first page are not lost";
  TrafficPage second = page_of({arrival(1, 1.0), end_of(1, 2.0)}, 3.0, "two");
  second.lost = 7;
  book.take(second, kNow + 10s);
  EXPECT_EQ(book.lost_events(), 0U);
  const auto recent = book.recent(core::kStart);
  ASSERT_EQ(recent.size(), 2U);
  EXPECT_EQ(recent[0].output_tokens, 0U) << "the end of the old request is unknown";
  EXPECT_EQ(recent[1].output_tokens, 101U);
  EXPECT_EQ(recent[1].arrival, kNow + 8s);
}

TEST(TrafficRecorder, PagesOfTwoGatewaysMayAlternate) {
  TrafficRecorder book{{}};
  book.take(page_of({arrival(1, 1.0)}, 2.0, "one"), kNow);
  book.take(page_of({arrival(1, 51.0)}, 52.0, "two"), kNow + 1s);
  TrafficPage page = page_of({end_of(1, 3.0)}, 4.0, "one");
  page.lost = 2;
  book.take(page, kNow + 2s);
  EXPECT_EQ(book.lost_events(), 2U) << "its pages continue";
  const auto recent = book.recent(core::kStart);
  ASSERT_EQ(recent.size(), 2U);
  EXPECT_EQ(recent[0].output_tokens, 101U) << "the end belongs to the request of the same gateway";
  EXPECT_EQ(recent[1].output_tokens, 0U);
}

TEST(TrafficRecorder, CountsTheEventsThatItMissed) {
  TrafficRecorder book{{}};
  book.take(page_of({}, 1.0), kNow);
  TrafficPage page = page_of({first_token(8, 1.0, 10.0), end_of(9, 1.0)}, 2.0);
  page.lost = 5;
  book.take(page, kNow);
  EXPECT_EQ(book.lost_events(), 5U);
  EXPECT_EQ(book.judged(), 0U) << "ends of requests whose arrival was missed do not count";
  EXPECT_EQ(book.received_at(), kNow);
}

TEST(TrafficRecorder, ForgetsWhatIsOlderThanItsMemory) {
  TrafficOptions options;
  options.memory = 2min;
  TrafficRecorder book{options};
  book.take(page_of({arrival(1, 1.0, {5})}, 1.0), kNow);
  book.take(page_of({arrival(2, 100.0, {5})}, 100.0), kNow + 99s);
  EXPECT_EQ(book.recent(core::kStart).size(), 2U);
  book.take(page_of({end_of(1, 130.0)}, 130.0), kNow + 129s);
  EXPECT_EQ(book.recent(core::kStart).size(), 1U);
  EXPECT_EQ(book.recent(core::kStart)[0].arrival, kNow + 99s);
  book.take(page_of({end_of(2, 131.0), first_token(1, 131.0, 5.0)}, 131.0), kNow + 130s);
  EXPECT_EQ(book.recent(core::kStart)[0].output_tokens, 101U);
}

TEST(TrafficRecorder, LimitsTheNumberOfRequests) {
  TrafficOptions options;
  options.requests_max = 100;
  TrafficRecorder book{options};
  std::vector<TrafficItem> items;
  for (std::uint64_t i = 0; i < 1000; ++i) items.push_back(arrival(i, static_cast<double>(i) / 1000.0, {i}));
  book.take(page_of(items, 1.0), kNow);
  const auto recent = book.recent(core::kStart);
  ASSERT_EQ(recent.size(), 100U);
  EXPECT_EQ(recent.front().arrival, kNow - 100ms) << "the newest are kept";
  EXPECT_EQ(entry_of(book).arrivals_total, 1000U);
  book.take(page_of({end_of(5, 1.0), end_of(999, 1.0)}, 1.0), kNow);
  EXPECT_EQ(book.recent(core::kStart).back().output_tokens, 101U);
}

TEST(TrafficRecorder, ImpossibleTimesAreClamped) {
  TrafficRecorder book{{}};
  book.take(page_of({arrival(1, 99.0), arrival(2, -1e9), arrival(3, 1.0)}, 2.0), kNow);
  const auto recent = book.recent(core::kStart);
  ASSERT_EQ(recent.size(), 2U);
  EXPECT_EQ(recent[0].arrival, kNow - 1s);
  EXPECT_EQ(recent[1].arrival, kNow) << "nothing is later than the page that tells of it";
}

// A planner that starts beside a gateway reads what that has served in the last minutes.
TEST(TrafficRecorder, WhatWasBeforeTheStartIsRememberedAndNotCounted) {
  const core::Instant now = core::kStart + 5s;
  TrafficRecorder book{{}};
  std::vector<TrafficItem> items;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const double at_s = static_cast<double>(i);
    items.push_back(arrival(i, at_s));
    items.push_back(first_token(i, at_s + 0.2, 200.0));
    items.push_back(end_of(i, at_s + 0.5));
  }
  book.take(page_of(items, 300.0), now);
  const signals::PoolObservation entry = entry_of(book, now);
  EXPECT_EQ(entry.arrivals_total, 5U);
  EXPECT_EQ(entry.completed_total, 5U);
  EXPECT_EQ(entry.last_minute.arrivals, 5U);
  EXPECT_EQ(entry.last_minute.ttft.count, 5U);
  EXPECT_EQ(book.judged(), 5U);
  const auto recent = book.recent(now - 10min);
  ASSERT_EQ(recent.size(), 300U);
  EXPECT_EQ(recent[0].arrival, now - 300s);
  EXPECT_FLOAT_EQ(recent[0].ttft_ms, 200.0F);
  EXPECT_NEAR(recent[0].e2e_ms, 500.0F, 1e-3);
  EXPECT_EQ(recent[0].output_tokens, 101U);
}

TEST(TrafficRecorder, ALateEventDoesNotEmptyTheWindow) {
  TrafficRecorder book{{}};
  std::vector<TrafficItem> items;
  for (std::uint64_t i = 0; i < 60; ++i) items.push_back(arrival(i, 40.0 + static_cast<double>(i)));
  items.push_back(arrival(100, 99.0 - 60.0));  // its body took a minute to come
  book.take(page_of(items, 99.0), kNow);
  EXPECT_GE(entry_of(book).last_minute.arrivals, 55U);
  EXPECT_EQ(entry_of(book).arrivals_total, 61U);
}

}  // namespace
}  // namespace penstock::controller
