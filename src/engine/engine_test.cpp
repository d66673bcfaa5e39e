#include "engine/engine.h"

#include <gtest/gtest.h>

#include "engine/engine_testing.h"
#include "engine/polynomial.h"

namespace penstock::engine {
namespace {

using testing::drive;
using testing::LinearNanoseconds;
using testing::TimedRequest;
using Ids = std::vector<std::uint32_t>;

core::Instant at_us(std::int64_t microseconds) { return core::Instant{core::Duration{microseconds * 1000}}; }

EngineRequest request(std::uint32_t number, std::uint32_t input, std::uint32_t output,
                      std::span<const std::uint32_t> ids = {}) {
  return {number, input, output, 0, ids, false};
}

// A step takes 1 ms, and 1 µs more for each prompt token.
EngineConfig small() {
  EngineConfig config;
  config.block_tokens = 4;
  config.kv_blocks = 100;
  config.max_sequences = 8;
  config.max_batched_tokens = 64;
  return config;
}
const LinearNanoseconds kTimes{{}};

core::Instant time_of(const std::vector<EngineEvent>& events, EngineEventKind kind, std::uint32_t number) {
  for (const EngineEvent& event : events)
    if (event.kind == kind && event.request == number) return event.at;
  return core::kNever;
}

TEST(Engine, OneRequestTakesItsPromptAndOneStepPerFurtherToken) {
  Engine engine{small(), kTimes};
  const auto events = drive(engine, {{at_us(0), request(7, 10, 5)}});
  // Prompt: 1 ms + 10 µs, with the first token; then four steps of 1 ms.
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 7), at_us(1010));
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 7), at_us(5010));
  EXPECT_EQ(engine.state(at_us(5010)).generated_tokens, 5U);
  EXPECT_EQ(engine.state(at_us(5010)).active_kv_tokens, 0U);
  EXPECT_EQ(engine.token_gaps_ms().count(), 4U);
  EXPECT_TRUE(engine.idle());
}

TEST(Engine, ARequestOfOneTokenEndsWithItsPrompt) {
  Engine engine{small(), kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 4, 1)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 1), at_us(1004));
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(1004));
}

// A decoding sequence takes 100 µs in each step, and 1 µs for each token of its length.
TEST(Engine, TheStepThatEndsAPromptDoesNotDecodeItsSequence) {
  const LinearNanoseconds times{{1'000'000, 1'000, 100'000, 1'000}};
  Engine engine{small(), times};
  const auto events = drive(engine, {{at_us(0), request(1, 10, 3)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 1), at_us(1010));
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(1010 + 1111 + 1112));
  EXPECT_EQ(engine.state(at_us(5000)).iterations.prefill.decode_sequences, 0U);
  EXPECT_EQ(engine.state(at_us(5000)).iterations.decode.decode_context_tokens, 11U + 12U);
}

TEST(Engine, ByTheRulesOfDynamo13TheStepThatEndsAPromptDecodesItsSequence) {
  const LinearNanoseconds times{{1'000'000, 1'000, 100'000, 1'000}};
  EngineConfig config = small();
  config.iteration_rules = IterationRules::kDynamo13;
  Engine engine{config, times};
  const auto events = drive(engine, {{at_us(0), request(1, 10, 3)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 1), at_us(1010 + 110));
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(1120 + 1111 + 1112));
}

// Two sequences that share 8 of 12 prompt tokens decode with 6 blocks of 4 tokens and a length of 13 tokens each.
TEST(Engine, DecodeTimeOfThePolynomialCountsASharedPrefixForEachSequence) {
  const Ids first = {1, 2, 3}, second = {1, 2, 9};
  const auto last_gap_ms = [&](IterationRules rules) {
    EngineConfig config = small();
    config.iteration_rules = rules;
    const Polynomial polynomial;
    Engine engine{config, polynomial};
    const auto events = drive(engine, {{at_us(0), request(1, 12, 2, first)}, {at_us(0), request(2, 12, 2, second)}});
    return core::to_milliseconds(time_of(events, EngineEventKind::kCompleted, 2) -
                                 time_of(events, EngineEventKind::kFirstToken, 2));
  };
  const auto decode_ms = [](double p) { return -25.74 * p * p + 54.01 * p + 5.74; };
  EXPECT_NEAR(last_gap_ms(IterationRules::kDynamo16), decode_ms(26.0 / 400.0), 1e-5);
  EXPECT_NEAR(last_gap_ms(IterationRules::kDynamo13), decode_ms(24.0 / 400.0), 1e-5);
}

EngineConfig prefill_first() {
  EngineConfig config = small();
  config.iteration_order = IterationOrder::kPrefillFirst;
  return config;
}

TEST(Engine, WithPrefillFirstSequencesWaitForPrompts) {
  Engine engine{prefill_first(), kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 10, 4)}, {at_us(1500), request(2, 20, 2)}});
  // The first decodes until 2.010 ms; the prompt of the second runs alone until 3.030, then both decode.
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(3030));
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 2), at_us(4030));
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(5030));
  const EngineState state = engine.state(at_us(6000));
  EXPECT_EQ(state.iterations.prefill.decode_sequences, 0U);
  EXPECT_EQ(state.steps, 5U);
  // 1, 2.02 and 1 ms between the tokens of the first, and 1 ms between those of the second.
  EXPECT_EQ(engine.token_gaps_ms().count(), 4U);
  EXPECT_NEAR(engine.token_gaps_ms().sum(), 5.02, 1e-6);
}

TEST(Engine, WithPrefillFirstAllChunksOfAPromptPrecedeTheNextDecode) {
  Engine engine{prefill_first(), kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 4, 3)}, {at_us(1500), request(2, 128, 1)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(2004 + 2 * 1064));
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(2004 + 2 * 1064 + 1000));
}

// 10 blocks of 4 tokens. The first decodes with 5 of them, and the second needs 2. With 20 tokens to come, 4 are kept
// for 0.7 of these and for the second's own token, and 3 once 17 tokens are to come.
TEST(Engine, WithPrefillFirstAdmissionKeepsRoomForSequencesThatDecode) {
  const auto first_token_of_second = [](const EngineConfig& config) {
    Engine engine{config, kTimes};
    const auto events = drive(engine, {{at_us(0), request(1, 16, 22)}, {at_us(1500), request(2, 8, 1)}});
    EXPECT_EQ(engine.state(at_us(100'000)).preemptions, 0U);
    return time_of(events, EngineEventKind::kFirstToken, 2);
  };
  EngineConfig config = prefill_first();
  config.kv_blocks = 10;
  EXPECT_EQ(first_token_of_second(config), at_us(5016 + 1008));
  config.iteration_order = IterationOrder::kMixed;
  EXPECT_EQ(first_token_of_second(config), at_us(2016 + 1008));
}

TEST(Engine, AnArrivalJoinsAtTheNextStep) {
  Engine engine{small(), kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 10, 50)}, {at_us(3500), request(2, 20, 2)}});
  // Steps end at 1.010, 2.010, 3.010, 4.010 ms; the second prompt runs in the step from 4.010 to 5.030.
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(5030));
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 2), at_us(6030));
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(1010 + 49 * 1000 + 20));
}

TEST(Engine, ALongPromptIsComputedInChunksWithinTheTokenBudget) {
  Engine engine{small(), kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 150, 2)}});
  // 64 + 64 + 22 tokens.
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 1), at_us(3150));
}

TEST(Engine, DecodesComeBeforePromptsInTheTokenBudget) {
  Engine engine{small(), kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 4, 100)}, {at_us(1500), request(2, 127, 1)}});
  // One token of each step is the first request's: 63 + 63 + 1.
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(2004 + 3000 + 127));
}

TEST(Engine, WithoutChunkingAPromptWaitsForAnIterationOfItsOwn) {
  EngineConfig config = small();
  config.chunked_prefill = false;
  Engine engine{config, kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 40, 1)}, {at_us(0), request(2, 40, 1)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 1), at_us(1040));
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(2080));
}

TEST(Engine, NoMoreThanMaxSequencesRunAtOnce) {
  EngineConfig config = small();
  config.max_sequences = 2;
  Engine engine{config, kTimes};
  const auto events =
      drive(engine, {{at_us(0), request(1, 4, 3)}, {at_us(0), request(2, 4, 3)}, {at_us(0), request(3, 4, 3)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 2), at_us(3008));
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 3), at_us(4012));
}

TEST(Engine, ASharedPrefixIsNotComputedAgain) {
  Engine engine{small(), kTimes};
  const Ids first = {1, 2, 3}, second = {1, 2, 9};
  const auto events = drive(engine, {{at_us(0), request(1, 12, 1, first)}, {at_us(5000), request(2, 12, 1, second)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(6004));  // 4 of 12 tokens are new
  EXPECT_EQ(engine.state(at_us(7000)).prefix_hit_tokens, 8U);
}

TEST(Engine, AnEqualPromptComputesAtLeastItsLastBlock) {
  Engine engine{small(), kTimes};
  const Ids ids = {1, 2, 3};
  const auto events = drive(engine, {{at_us(0), request(1, 12, 1, ids)}, {at_us(5000), request(2, 12, 1, ids)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(6004));
}

TEST(Engine, TheNextTurnFindsTheAnswerOfTheOneBefore) {
  Engine engine{small(), kTimes};
  // 8 prompt tokens and 9 of output, of which the last is not computed: 16 tokens, 4 blocks.
  const Ids first = {1, 2, 3, 4}, second = {1, 2, 3, 4, 5};
  const auto events = drive(engine, {{at_us(0), request(1, 8, 9, first)}, {at_us(50'000), request(2, 20, 1, second)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(51'004));
}

TEST(Engine, PrefixCachingCanBeOff) {
  EngineConfig config = small();
  config.prefix_caching = false;
  Engine engine{config, kTimes};
  const Ids ids = {1, 2, 3};
  const auto events = drive(engine, {{at_us(0), request(1, 12, 1, ids)}, {at_us(5000), request(2, 12, 1, ids)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(6012));
}

TEST(Engine, TheLeastRecentlyUsedPrefixIsGivenUpFirst) {
  EngineConfig config = small();
  config.kv_blocks = 6;
  Engine engine{config, kTimes};
  const Ids a = {1, 2}, b = {3, 4}, c = {5, 6, 7};
  const auto events = drive(engine, {{at_us(0), request(1, 8, 1, a)},
                                     {at_us(10'000), request(2, 8, 1, b)},
                                     {at_us(20'000), request(3, 9, 1, a)},   // a is used again: 8 of 9 cached
                                     {at_us(30'000), request(4, 12, 1, c)},  // takes 2 free blocks and one of b's
                                     {at_us(40'000), request(5, 9, 1, a)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 3), at_us(21'001));
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 5), at_us(41'001));
}

// 10 blocks of 4. Two requests of 16 + 12 tokens need 7 blocks each at the end: one has to go.
std::vector<EngineEvent> run_short_of_kv(PreemptionOrder order, std::uint64_t& preemptions,
                                         std::int8_t second_priority = 0) {
  EngineConfig config = small();
  config.kv_blocks = 10;
  config.preemption_order = order;
  Engine engine{config, kTimes};
  TimedRequest second{at_us(2500), request(2, 16, 12)};
  second.request.priority = second_priority;
  auto events = drive(engine, {{at_us(0), request(1, 16, 12)}, second});
  preemptions = engine.state(at_us(100'000)).preemptions;
  EXPECT_EQ(engine.state(at_us(100'000)).generated_tokens, 24U);
  EXPECT_TRUE(engine.idle());
  return events;
}

TEST(Engine, WithoutFreeKvTheLastAdmittedRequestIsPreempted) {
  std::uint64_t preemptions = 0;
  const auto events = run_short_of_kv(PreemptionOrder::kLifo, preemptions);
  EXPECT_EQ(preemptions, 1U);
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(1016 + 11'000 + 16));
  EXPECT_GT(time_of(events, EngineEventKind::kCompleted, 2), time_of(events, EngineEventKind::kCompleted, 1));
}

TEST(Engine, PreemptionByPriorityTakesTheLowestPriority) {
  std::uint64_t preemptions = 0;
  const auto events = run_short_of_kv(PreemptionOrder::kPriority, preemptions, 5);
  EXPECT_EQ(preemptions, 1U);
  EXPECT_LT(time_of(events, EngineEventKind::kCompleted, 2), time_of(events, EngineEventKind::kCompleted, 1));
}

TEST(Engine, PreemptionByLeastProgressKeepsTheFurthestRequest) {
  std::uint64_t preemptions = 0;
  const auto events = run_short_of_kv(PreemptionOrder::kLeastProgress, preemptions);
  EXPECT_EQ(preemptions, 1U);
  EXPECT_LT(time_of(events, EngineEventKind::kCompleted, 1), time_of(events, EngineEventKind::kCompleted, 2));
}

TEST(Engine, TheWatermarkKeepsBlocksFreeAtAdmission) {
  EngineConfig config = small();
  config.kv_blocks = 10;
  config.watermark = 0.2;  // 2 blocks
  Engine engine{config, kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 16, 3)}, {at_us(0), request(2, 20, 3)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(3016 + 1020));  // 4 + 5 blocks would leave 1
}

TEST(Engine, ShortestFirstServesTheShorterPromptThatCameLater) {
  EngineConfig config = small();
  config.max_sequences = 1;
  config.queue_order = QueueOrder::kShortest;
  config.fairness_bound = std::chrono::milliseconds{100};
  Engine engine{config, kTimes};
  const auto events =
      drive(engine, {{at_us(0), request(1, 8, 10)}, {at_us(100), request(2, 60, 1)}, {at_us(200), request(3, 4, 1)}});
  EXPECT_LT(time_of(events, EngineEventKind::kFirstToken, 3), time_of(events, EngineEventKind::kFirstToken, 2));
}

TEST(Engine, ShortestFirstLimitsTheWaitByTheFairnessBound) {
  EngineConfig config = small();
  config.max_sequences = 1;
  config.queue_order = QueueOrder::kShortest;
  config.fairness_bound = std::chrono::milliseconds{5};
  Engine engine{config, kTimes};
  const auto events =
      drive(engine, {{at_us(0), request(1, 8, 10)}, {at_us(100), request(2, 60, 1)}, {at_us(9000), request(3, 4, 1)}});
  EXPECT_LT(time_of(events, EngineEventKind::kFirstToken, 2), time_of(events, EngineEventKind::kFirstToken, 3));
}

TEST(Engine, PriorityOrderServesTheMoreImportantFirst) {
  EngineConfig config = small();
  config.max_sequences = 1;
  config.queue_order = QueueOrder::kPriority;
  Engine engine{config, kTimes};
  TimedRequest important{at_us(200), request(3, 60, 1)};
  important.request.priority = 1;
  const auto events = drive(engine, {{at_us(0), request(1, 8, 10)}, {at_us(100), request(2, 4, 1)}, important});
  EXPECT_LT(time_of(events, EngineEventKind::kFirstToken, 3), time_of(events, EngineEventKind::kFirstToken, 2));
}

TEST(Engine, AnIdleEngineWaitsForMorePromptsUpToTheQueueDelay) {
  EngineConfig config = small();
  config.queue_delay = std::chrono::milliseconds{2};
  Engine engine{config, kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 4, 1)}, {at_us(1500), request(2, 4, 1)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 1), at_us(3008));
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(3008));
}

TEST(Engine, AFullBatchDoesNotWaitForTheQueueDelay) {
  EngineConfig config = small();
  config.queue_delay = std::chrono::milliseconds{2};
  Engine engine{config, kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 40, 1)}, {at_us(500), request(2, 24, 1)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(1564));
}

TEST(Engine, PromptsTakeNoMoreThanTheirShareWhileSequencesDecode) {
  EngineConfig config = small();
  config.max_batched_tokens = 100;
  config.prefill_share = 0.3;
  config.prefill_share_interval = std::chrono::seconds{10};  // the controller stays out of this
  Engine engine{config, kTimes};
  const auto events = drive(engine, {{at_us(0), request(1, 4, 100)}, {at_us(1500), request(2, 60, 1)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(2004 + 2000 + 60));  // 30 + 30
}

TEST(Engine, APrefilledRequestOnlyDecodes) {
  Engine engine{small(), kTimes};
  EngineRequest moved = request(1, 10, 3);
  moved.prefilled = true;
  const auto events = drive(engine, {{at_us(0), moved}});
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(2000));
  EXPECT_EQ(engine.token_gaps_ms().count(), 2U);
}

TEST(Engine, AHeldPromptKeepsItsBlocksUntilItIsReleased) {
  EngineConfig config = small();
  config.kv_blocks = 4;
  Engine engine{config, kTimes};
  engine.hold_prefilled();
  const auto events =
      drive(engine, {{at_us(0), request(1, 12, 1)}, {at_us(0), request(2, 12, 1)}}, std::chrono::milliseconds{20});
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 1), at_us(1012));
  EXPECT_EQ(time_of(events, EngineEventKind::kFirstToken, 2), at_us(21'012 + 1012));
}

TEST(Engine, ASlowReplicaTakesLongerForEveryStep) {
  Engine engine{small(), kTimes};
  engine.slow_down(3.0, core::kStart);
  const auto events = drive(engine, {{at_us(0), request(1, 10, 5)}});
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(15'030));
}

TEST(Engine, ASlowDownHoldsForIterationsThatBeginLater) {
  Engine engine{small(), kTimes};
  engine.submit(request(1, 10, 5), core::kStart);
  std::vector<EngineEvent> events;
  engine.advance(core::kStart, events);
  engine.advance(at_us(1010), events);  // Four decodes of 1 ms follow as one run.
  engine.slow_down(3.0, at_us(1500));
  while (engine.next_event() != core::kNever) engine.advance(engine.next_event(), events);
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(1010 + 1000 + 3 * 3000));
}

TEST(Engine, AHungEngineAcceptsRequestsAndComputesNothing) {
  Engine engine{small(), kTimes};
  engine.submit(request(1, 10, 5), core::kStart);
  std::vector<EngineEvent> events;
  engine.advance(core::kStart, events);
  engine.advance(at_us(1010), events);
  engine.hang(at_us(50'000), at_us(1500));
  engine.advance(engine.next_event(), events);  // The iteration in progress ends at 2,010 us.
  EXPECT_EQ(engine.next_event(), at_us(50'000));
  engine.submit(request(2, 10, 1), at_us(3000));
  EXPECT_EQ(engine.next_event(), at_us(50'000));
  EXPECT_EQ(engine.state(at_us(40'000)).generated_tokens, 2U);
  EXPECT_EQ(engine.cancel(1, at_us(40'000)), 2U);
  EXPECT_EQ(engine.open_count(), 1U);
  while (engine.next_event() != core::kNever) engine.advance(engine.next_event(), events);
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 2), at_us(51'010));
}

TEST(Engine, TheGapOverAHangIsInTheLatencies) {
  Engine engine{small(), kTimes};
  engine.submit(request(1, 10, 5), core::kStart);
  std::vector<EngineEvent> events;
  engine.hang(at_us(50'000), at_us(500));
  while (engine.next_event() != core::kNever) engine.advance(engine.next_event(), events);
  EXPECT_EQ(time_of(events, EngineEventKind::kCompleted, 1), at_us(50'000 + 1010 + 4000));
  Engine halted{small(), kTimes};
  halted.submit(request(1, 10, 5), core::kStart);
  halted.advance(core::kStart, events);
  halted.advance(at_us(1010), events);
  halted.hang(at_us(50'000), at_us(1500));
  while (halted.next_event() != core::kNever) halted.advance(halted.next_event(), events);
  EXPECT_EQ(halted.token_gaps_ms().count(), 4U);
  EXPECT_NEAR(halted.token_gaps_ms().sum(), 1.0 + 47.99 + 1.0 + 2.0, 1e-6);
}

TEST(Engine, ARequestThatCanNeverFitIsDetectedInAdvance) {
  EngineConfig config = small();
  config.kv_blocks = 10;
  EXPECT_TRUE(can_fit(config, request(1, 38, 3)));  // 40 tokens in the cache
  config.attention_ranks = 2;                       // 20 tokens in each part
  EXPECT_FALSE(can_fit(config, request(1, 38, 3)));
  EXPECT_TRUE(can_fit(config, request(1, 18, 3)));
  config.attention_ranks = 1;
  EXPECT_FALSE(can_fit(config, request(1, 38, 4)));
  config.watermark = 0.1;
  EXPECT_FALSE(can_fit(config, request(1, 38, 3)));
  EXPECT_TRUE(can_fit(config, request(1, 35, 2)));
  config.chunked_prefill = false;
  config.max_batched_tokens = 35;
  EXPECT_FALSE(can_fit(config, request(1, 35, 2)));  // after a preemption, 36 tokens would be computed at once
  EXPECT_TRUE(can_fit(config, request(1, 35, 1)));
}

TEST(Engine, StateIsCurrentInTheMiddleOfAMergedRun) {
  Engine engine{small(), kTimes};
  engine.submit(request(1, 4, 60), at_us(0));
  std::vector<EngineEvent> events;
  engine.advance(at_us(0), events);
  engine.advance(at_us(1004), events);  // plans the four steps that fill the second block
  EXPECT_EQ(engine.next_event(), at_us(5004));
  EXPECT_EQ(engine.state(at_us(1004)).generated_tokens, 1U);
  EXPECT_EQ(engine.state(at_us(3500)).generated_tokens, 3U);  // steps ended at 2004 and 3004
  EXPECT_EQ(engine.state(at_us(3500)).decoding_kv_tokens, 7U);
}

}  // namespace
}  // namespace penstock::engine
