#include "load/tally.h"

#include <gtest/gtest.h>

namespace penstock::load {
namespace {

using namespace std::chrono_literals;

RequestRecord good(core::Duration intended, core::Duration ttft, core::Duration itl, std::uint32_t tokens) {
  RequestRecord record;
  record.intended = record.sent = intended;
  record.first_byte = record.first_token = intended + ttft;
  record.last_token = *record.first_token + itl * (tokens - 1);
  record.end = *record.last_token;
  record.max_gap = itl;
  record.text_events = record.tokens = tokens;
  return record;
}

RequestRecord ended(Outcome outcome, core::Duration intended, core::Duration end, std::string reason = "status 500") {
  RequestRecord record;
  record.intended = record.sent = intended;
  record.end = end;
  record.outcome = outcome;
  record.reason = std::move(reason);
  return record;
}

TEST(Tally, CountsARefusalApartFromErrors) {
  Tally tally{{"default"}};
  const RequestShape shape;
  tally.record_end(good(0s, 1s, 10ms, 5), shape, {});
  tally.record_end(ended(Outcome::kRefused, 0s, 1s, "status 429"), shape, "slow down");
  tally.record_end(ended(Outcome::kFailed, 0s, 1s), shape, "broken");
  tally.record_end(ended(Outcome::kFailed, 0s, 1s), shape, "broken again");
  tally.record_end(ended(Outcome::kTruncated, 0s, 1s, "cut"), shape, {});
  tally.record_end(ended(Outcome::kTimedOut, 0s, 1s, "late"), shape, {});
  tally.record_end(ended(Outcome::kCancelled, 0s, 1s, {}), shape, {});
  EXPECT_EQ(tally.all().errors(), 4U);
  EXPECT_EQ(tally.all().ended(), 6U) << "what we cancelled ourselves did not end";
  EXPECT_EQ(tally.all().of(Outcome::kRefused), 1U);
  ASSERT_EQ(tally.causes().size(), 4U);
  EXPECT_EQ(tally.causes().at("status 500").count, 2U);
  EXPECT_EQ(tally.causes().at("status 500").example, "broken");
}

TEST(Tally, CachedTokensAreAShareOfThePromptTokensOfTheServer) {
  Tally tally{{"default"}};
  const RequestShape shape{.input_tokens = 100, .output_tokens = 5};
  RequestRecord counted = good(0s, 1s, 10ms, 5);
  counted.prompt_tokens = 170;
  counted.cached_tokens = 136;
  tally.record_end(counted, shape, {});
  EXPECT_EQ(tally.cached_tokens(), 136U);
  EXPECT_EQ(tally.prompt_tokens(), 170U);
  tally.record_end(good(0s, 1s, 10ms, 5), shape, {});
  EXPECT_EQ(tally.prompt_tokens(), 270U) << "without a usage, the words of the prompt";
}

TEST(Tally, CountsATimeoutAsATtftOfAtLeastItsLength) {
  Tally tally{{"default"}};
  tally.record_end(good(0s, 1s, 10ms, 5), {}, {});
  tally.record_end(ended(Outcome::kTimedOut, 0s, 30s, "no token in time"), {}, {});
  tally.record_end(ended(Outcome::kFailed, 0s, 50s), {}, {});
  EXPECT_EQ(tally.all().ttft_ms.count(), 2U);
  EXPECT_NEAR(tally.all().ttft_ms.max(), 30'000.0, 1.0);
  EXPECT_EQ(tally.all().itl_ms.count(), 1U);
}

TEST(Tally, SplitsByClassTenantAndBands) {
  Tally tally{{"a", "b"}};
  tally.record_end(good(0s, 1s, 10ms, 5), {.input_tokens = 100, .output_tokens = 5}, {});
  tally.record_end(
      good(0s, 2s, 10ms, 5),
      {.input_tokens = 20'000, .output_tokens = 500, .tenant = 1, .traffic_class = workload::TrafficClass::kBatch}, {});
  std::vector<std::string> labels;
  for (const Segment& segment : tally.segments()) {
    labels.push_back(std::string{segment.group} + " " + segment.label);
    EXPECT_EQ(segment.figures.ended(), 1U);
  }
  EXPECT_EQ(labels,
            (std::vector<std::string>{"class interactive", "class batch", "tenant a", "tenant b", "prompt below 1k",
                                      "prompt 16k-64k", "output below 64", "output 256-1k"}));
}

TEST(Tally, KeepsAllOfALongRunInFewSlots) {
  Tally tally{{"default"}};
  constexpr int kRequests = 5000;
  for (int i = 0; i < kRequests; ++i) {
    tally.record_sent({std::chrono::seconds{i}, std::chrono::seconds{i}, false});
    tally.record_end(good(std::chrono::seconds{i}, 1s, 10ms, 5), {}, {});
  }
  EXPECT_LE(tally.slots().size(), Tally::kSlotsMax);
  EXPECT_EQ(tally.slot_width(), 32s);
  std::uint64_t meant = 0, ok = 0, samples = 0;
  for (const TimeSlot& slot : tally.slots()) {
    meant += slot.meant;
    ok += slot.ok;
    samples += slot.ttft_ms.count();
  }
  EXPECT_EQ(meant, static_cast<std::uint64_t>(kRequests));
  EXPECT_EQ(ok, meant);
  EXPECT_EQ(samples, meant);
  EXPECT_EQ(tally.slots().front().meant, 32U);
}

TEST(Tally, OfTheLastTenSecondsForgetsWhatWasBefore) {
  Tally tally{{"default"}};
  tally.record_first_token(5s, 1s);
  tally.record_tokens({.count = 100}, 1s);
  EXPECT_EQ(tally.recent(2s).ttft_ms.count(), 1U);
  EXPECT_NEAR(tally.recent(2s).tokens_per_s, 50.0, 1e-9) << "over the time that there was";
  tally.record_first_token(100ms, 15s);
  tally.record_tokens({.count = 30, .gap = 20ms}, 15s);
  const Tally::Recent recent = tally.recent(16s);
  EXPECT_EQ(recent.ttft_ms.count(), 1U);
  EXPECT_NEAR(recent.ttft_ms.quantile(0.5), 100.0, 2.0);
  EXPECT_NEAR(recent.tokens_per_s, 3.0, 1e-9);
}

TEST(Tally, CountsTokensOfOnePieceAsGapsOfZero) {
  Tally tally{{"default"}};
  tally.record_tokens({.count = 2}, 1s);
  tally.record_tokens({.count = 3, .gap = 30ms}, 2s);
  EXPECT_EQ(tally.tokens_received(), 5U);
  EXPECT_EQ(tally.gaps_ms().count(), 4U);
  EXPECT_NEAR(tally.gaps_ms().max(), 30.0, 1e-6);
  EXPECT_EQ(tally.gaps_ms().quantile(0.5), 0.0);
}

TEST(Tally, HoldsTheGeneratorsLatenessApartFromItsLimit) {
  Tally tally{{"default"}};
  tally.record_sent({1s, 1001ms, false});
  tally.record_sent({1s, 9s, true});
  EXPECT_EQ(tally.lateness_ms().count(), 1U);
  EXPECT_NEAR(tally.lateness_ms().max(), 1.0, 1e-6);
  EXPECT_EQ(tally.held_by_limit(), 1U);
}

TEST(Tally, HasALimitOnCauses) {
  Tally tally{{"default"}};
  for (int i = 0; i < 100; ++i)
    tally.record_end(ended(Outcome::kFailed, 0s, 1s, "status " + std::to_string(400 + i)), {}, {});
  EXPECT_EQ(tally.causes().size(), Tally::kCausesMax + 1);
  EXPECT_EQ(tally.causes().at("other").count, 100 - Tally::kCausesMax);
}

}  // namespace
}  // namespace penstock::load
