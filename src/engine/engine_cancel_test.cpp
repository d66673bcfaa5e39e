// Cancellation: a request that waits, is computed, decodes or is held releases everything, without effect on others.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/random.h"
#include "engine/engine.h"
#include "engine/engine_testing.h"

namespace penstock::engine {
namespace {

using testing::LinearNanoseconds;
using namespace std::chrono_literals;

const LinearNanoseconds kTimes{{.step = 1'000'000, .prefill_token = 1'000}};

EngineConfig small() {
  EngineConfig config;
  config.block_tokens = 4;
  config.kv_blocks = 100;
  config.max_sequences = 2;
  config.max_batched_tokens = 64;
  return config;
}

std::vector<EngineEvent> advance_once(Engine& engine) {
  std::vector<EngineEvent> events;
  engine.advance(engine.next_event(), events);
  return events;
}

TEST(EngineCancel, AWaitingRequestLeavesAtOnceAndIsNeverServed) {
  Engine engine{small(), kTimes};
  for (std::uint32_t i = 0; i < 4; ++i) engine.submit({i, 10, 20, 0, {}, false}, core::kStart);
  (void)advance_once(engine);  // two run
  ASSERT_TRUE(engine.cancel(2, core::kStart));
  EXPECT_EQ(engine.state(core::kStart).waiting, 1U);
  EXPECT_EQ(engine.state(core::kStart).waiting_prefill_tokens, 10U);
  std::set<std::uint32_t> done;
  while (engine.next_event() != core::kNever)
    for (const EngineEvent& event : advance_once(engine)) done.insert(event.request);
  EXPECT_EQ(done, (std::set<std::uint32_t>{0, 1, 3}));
  EXPECT_TRUE(engine.idle());
}

TEST(EngineCancel, ADecodingRequestReleasesItsBlocksAfterTheCurrentIteration) {
  Engine engine{small(), kTimes};
  engine.submit({7, 10, 200, 0, {}, false}, core::kStart);
  (void)advance_once(engine);
  (void)advance_once(engine);  // the first token; a long run of decodes begins
  const core::Instant now = engine.next_event() - 500us;
  const core::Instant cut = now + 1ms;
  ASSERT_TRUE(engine.cancel(7, now));
  EXPECT_GT(engine.state(now).active_kv_tokens, 0U);
  EXPECT_LE(engine.next_event(), cut);
  EXPECT_TRUE(advance_once(engine).empty());
  EXPECT_EQ(engine.state(cut).active_kv_tokens, 0U);
  EXPECT_TRUE(engine.idle());
  EXPECT_EQ(engine.next_event(), core::kNever);
}

TEST(EngineCancel, TheIterationThatEndsAtThatInstantCounts) {
  Engine engine{small(), kTimes};
  for (std::uint32_t i = 0; i < 2; ++i) engine.submit({i, 10, 200, 0, {}, false}, core::kStart);
  (void)advance_once(engine);
  const core::Instant begin = engine.next_event();
  (void)advance_once(engine);  // the first tokens; a long run of decodes begins
  const core::Instant now = begin + 1ms;
  EXPECT_EQ(engine.state(now).generated_tokens, 4U);
  EXPECT_EQ(engine.cancel(0, now), 2U);
  EXPECT_EQ(engine.cancel(1, now), 2U);  // The run is cut by now.
  EXPECT_EQ(engine.state(now).generated_tokens, 4U);
}

TEST(EngineCancel, APromptThatIsBeingComputedStopsAfterItsChunk) {
  Engine engine{small(), kTimes};
  engine.submit({7, 300, 5, 0, {}, false}, core::kStart);
  (void)advance_once(engine);
  ASSERT_TRUE(engine.cancel(7, core::kStart + 1us));
  EXPECT_TRUE(advance_once(engine).empty());
  EXPECT_TRUE(engine.idle());
  EXPECT_EQ(engine.state(engine.next_event()).active_kv_tokens, 0U);
  EXPECT_EQ(engine.state(core::kStart + 1s).iterations.prefill.steps, 1U);
}

TEST(EngineCancel, ARequestCancelledBeforeItsFirstTokenHasNoEvents) {
  Engine engine{small(), kTimes};
  engine.submit({7, 10, 5, 0, {}, false}, core::kStart);
  (void)advance_once(engine);
  ASSERT_TRUE(engine.cancel(7, core::kStart + 1us));
  ASSERT_FALSE(engine.cancel(7, core::kStart + 2us)) << "a cancelled request is unknown";
  EXPECT_TRUE(advance_once(engine).empty());
  EXPECT_TRUE(engine.idle());
}

TEST(EngineCancel, ReleasingAHeldRequestUnblocksTheNextOne) {
  EngineConfig config = small();
  config.kv_blocks = 5;
  Engine engine{config, kTimes};
  engine.hold_prefilled();
  engine.submit({1, 18, 1, 0, {}, false}, core::kStart);
  engine.submit({2, 18, 1, 0, {}, false}, core::kStart);
  while (engine.next_event() != core::kNever) (void)advance_once(engine);
  ASSERT_TRUE(engine.cancel(1, core::kStart + 10ms));
  std::vector<EngineEvent> events;
  while (engine.next_event() != core::kNever)
    for (const EngineEvent& event : advance_once(engine)) events.push_back(event);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].request, 2U);
}

TEST(EngineCancel, CancellingABlockedRequestUnblocksTheNextOne) {
  EngineConfig config = small();
  config.kv_blocks = 6;
  Engine engine{config, kTimes};
  engine.hold_prefilled();
  engine.submit({1, 18, 1, 0, {}, false}, core::kStart);
  engine.submit({2, 18, 1, 0, {}, false}, core::kStart);  // does not fit beside the first
  engine.submit({3, 4, 1, 0, {}, false}, core::kStart);   // does
  while (engine.next_event() != core::kNever) (void)advance_once(engine);
  ASSERT_TRUE(engine.cancel(2, core::kStart + 10ms));
  ASSERT_EQ(engine.next_event(), core::kStart + 10ms);
  (void)advance_once(engine);
  const auto events = advance_once(engine);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].request, 3U);
}

TEST(EngineCancel, ACompletedOrUnknownRequestIsNotCancelled) {
  Engine engine{small(), kTimes};
  engine.submit({1, 4, 1, 0, {}, false}, core::kStart);
  while (engine.next_event() != core::kNever) (void)advance_once(engine);
  EXPECT_FALSE(engine.cancel(1, core::kStart + 10ms));
  EXPECT_FALSE(engine.cancel(2, core::kStart + 10ms));
}

TEST(EngineTokens, EachTokenIsAnEventAtTheTimeOfItsIteration) {
  Engine engine{small(), kTimes};
  engine.follow_tokens();
  engine.submit({1, 10, 4, 0, {}, false}, core::kStart);
  std::vector<core::Instant> tokens;
  while (engine.next_event() != core::kNever)
    for (const EngineEvent& event : advance_once(engine))
      if (event.kind != EngineEventKind::kCompleted) tokens.push_back(event.at);
  const core::Instant first = core::kStart + 1'010us;
  EXPECT_EQ(tokens, (std::vector<core::Instant>{first, first + 1ms, first + 2ms, first + 3ms}));
}

TEST(EngineTokens, AnIterationReportsItsTokens) {
  Engine engine{small(), kTimes};
  engine.follow_tokens();
  engine.submit({1, 10, 4, 0, {}, false}, core::kStart);
  (void)advance_once(engine);
  EXPECT_EQ(engine.last_iteration().time, core::Duration{}) << "none has ended";
  engine.submit({2, 20, 4, 0, {}, false}, core::kStart);
  engine.submit({3, 30, 4, 0, {}, false}, core::kStart);
  EXPECT_EQ(engine.state(core::kStart).waiting_prefill_squared, 400.0 + 900.0);
  (void)advance_once(engine);
  const IterationDetail first = engine.last_iteration();
  EXPECT_EQ(first.time, 1'010us);
  EXPECT_EQ(first.decoded, 0U);
  EXPECT_EQ(first.prompt_tokens, 10U);
  EXPECT_EQ(engine.state(core::kStart).waiting_prefill_squared, 900.0) << "one slot is free";
  (void)advance_once(engine);
  const IterationDetail second = engine.last_iteration();
  EXPECT_EQ(second.decoded, 1U);
  EXPECT_EQ(second.decoded_context_tokens, 11U);
  EXPECT_EQ(second.decoded_context_squared, 121.0);
  EXPECT_EQ(second.prompt_tokens_squared, 400.0);
  EXPECT_EQ(second.shape.prefill_requests, 1U);
}

// ---- whatever happens -----------------------------------------------------------------------------------------------

enum class StepKind : std::uint8_t { kSubmit, kCancel, kHang, kSlow };

struct Step {
  core::Instant at;
  StepKind kind = StepKind::kSubmit;
  EngineRequest request{};  // A cancel uses only its number.
  core::Duration hang{};
  double slow_factor = 1.0;
};

struct Scenario {
  EngineConfig config;
  bool prefill_role = false;
  std::vector<std::vector<std::uint32_t>> ids;
  std::vector<Step> steps;
  std::set<std::uint32_t> left;  // were asked to leave
};

Scenario draw(std::uint64_t seed) {
  core::RandomStream random{seed};
  Scenario scenario;
  EngineConfig& config = scenario.config;
  config.block_tokens = static_cast<std::uint32_t>(1 + random.below(8));
  config.kv_blocks = static_cast<std::uint32_t>(12 + random.below(60));
  config.max_sequences = static_cast<std::uint32_t>(1 + random.below(8));
  config.max_batched_tokens = config.max_sequences + static_cast<std::uint32_t>(random.below(60));
  config.chunked_prefill = random.below(4) != 0;
  config.prefix_caching = random.below(4) != 0;
  config.queue_order = static_cast<QueueOrder>(random.below(3));
  config.fairness_bound = std::chrono::milliseconds{random.below(30)};
  config.preemption_order = static_cast<PreemptionOrder>(random.below(3));
  scenario.prefill_role = random.below(5) == 0;
  const std::uint32_t capacity = config.block_tokens * config.kv_blocks;
  scenario.ids.resize(50);
  core::Instant at;
  for (std::uint32_t i = 0; i < scenario.ids.size(); ++i) {
    at += core::Duration{static_cast<std::int64_t>(random.exponential(3e6))};
    EngineRequest request;
    request.request = i;
    request.input_tokens = static_cast<std::uint32_t>(1 + random.below(capacity / 3));
    request.output_tokens = static_cast<std::uint32_t>(1 + random.below(scenario.prefill_role ? 1 : capacity / 3));
    request.priority = static_cast<std::int8_t>(random.below(3));
    request.prefilled = !scenario.prefill_role && random.below(6) == 0 && request.output_tokens > 1;
    scenario.ids[i].resize(random.below(request.input_tokens / config.block_tokens + 1));
    std::iota(scenario.ids[i].begin(), scenario.ids[i].end(), static_cast<std::uint32_t>(random.below(3)) * 100);
    request.block_ids = scenario.ids[i];
    if (!can_fit(config, request)) continue;
    scenario.steps.push_back({at, StepKind::kSubmit, request});
    if (random.below(2) != 0) continue;
    scenario.steps.push_back(
        {at + core::Duration{static_cast<std::int64_t>(random.exponential(2e7))}, StepKind::kCancel, request});
    scenario.left.insert(i);
  }
  for (std::uint64_t i = random.below(5); i-- > 0;) {
    Step fault{core::Instant{std::chrono::microseconds{random.below(150'000)}}, StepKind::kHang};
    if (random.below(2) == 0) fault.kind = StepKind::kSlow;
    fault.hang = std::chrono::microseconds{random.below(30'000)};
    fault.slow_factor = 0.5 + random.uniform() * 4.0;
    scenario.steps.push_back(fault);
  }
  std::stable_sort(scenario.steps.begin(), scenario.steps.end(),
                   [](const Step& left, const Step& right) { return left.at < right.at; });
  return scenario;
}

struct Outcome {
  std::vector<EngineEvent> events;  // without the tokens in between
  std::vector<int> tokens;
  EngineState state;
  std::set<std::uint32_t> silent;        // Cancelled while they were open: no further event of them is reported.
  std::vector<std::uint32_t> generated;  // Tokens of cancelled requests, in the order of the cancels.
};

enum class Stepping : std::uint8_t { kMerged, kSingle, kFollowed };

Outcome run(const Scenario& scenario, Stepping stepping) {
  Engine engine{scenario.config, kTimes, stepping == Stepping::kMerged};
  if (stepping == Stepping::kFollowed) engine.follow_tokens();
  if (scenario.prefill_role) engine.hold_prefilled();
  Outcome outcome;
  outcome.tokens.resize(scenario.ids.size());
  std::vector<EngineEvent> events;
  std::vector<std::pair<core::Instant, std::uint32_t>> held;
  std::size_t next = 0;
  for (;;) {
    const core::Instant arrival = next < scenario.steps.size() ? scenario.steps[next].at : core::kNever;
    const core::Instant release = held.empty() ? core::kNever : held.front().first;
    const core::Instant now = std::min({arrival, release, engine.next_event()});
    if (now == core::kNever) break;
    EXPECT_LE(engine.state(now).active_kv_tokens, engine.state(now).total_kv_tokens);
    if (now == release) {
      engine.release_held(held.front().second, now);
      held.erase(held.begin());
    } else if (now == arrival) {
      const Step& step = scenario.steps[next++];
      if (step.kind == StepKind::kHang) engine.hang(now + step.hang, now);
      if (step.kind == StepKind::kSlow) engine.slow_down(step.slow_factor, now);
      if (step.kind == StepKind::kSubmit) engine.submit(step.request, now);
      if (step.kind != StepKind::kCancel) continue;
      if (const auto generated = engine.cancel(step.request.request, now)) {
        outcome.silent.insert(step.request.request);
        outcome.generated.push_back(*generated);
        std::erase_if(held, [&](const auto& entry) { return entry.second == step.request.request; });
      }
    } else {
      events.clear();
      engine.advance(now, events);
      for (const EngineEvent& event : events) {
        EXPECT_FALSE(outcome.silent.contains(event.request));
        if (event.kind != EngineEventKind::kCompleted) ++outcome.tokens[event.request];
        if (event.kind != EngineEventKind::kToken) outcome.events.push_back(event);
        if (scenario.prefill_role && event.kind == EngineEventKind::kCompleted)
          held.emplace_back(now + 3ms, event.request);
      }
    }
  }
  EXPECT_TRUE(engine.idle());
  outcome.state = engine.state(core::Instant{1h});
  return outcome;
}

void expect_same(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.silent, b.silent);
  ASSERT_EQ(a.generated, b.generated);
  ASSERT_EQ(a.events.size(), b.events.size());
  for (std::size_t i = 0; i < a.events.size(); ++i) {
    ASSERT_EQ(a.events[i].kind, b.events[i].kind) << i;
    ASSERT_EQ(a.events[i].request, b.events[i].request) << i;
    ASSERT_EQ(a.events[i].at, b.events[i].at) << i;
  }
  ASSERT_EQ(a.state.steps, b.state.steps);
  ASSERT_EQ(a.state.generated_tokens, b.state.generated_tokens);
  ASSERT_EQ(a.state.preemptions, b.state.preemptions);
}

TEST(EngineCancelProperty, AllBlocksAreReleasedAndOtherRequestsComplete) {
  std::size_t silent = 0;
  std::uint64_t preemptions = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario scenario = draw(seed);
    const Outcome merged = run(scenario, Stepping::kMerged), followed = run(scenario, Stepping::kFollowed);
    expect_same(merged, run(scenario, Stepping::kSingle));
    expect_same(merged, followed);
    if (HasFatalFailure()) return;
    ASSERT_EQ(merged.state.active_kv_tokens, 0U);
    ASSERT_EQ(merged.state.waiting_prefill_tokens, 0U);
    ASSERT_EQ(merged.state.waiting_prefill_squared, 0.0);
    ASSERT_EQ(merged.state.preempted_kv_tokens, 0U);
    ASSERT_EQ(merged.state.decoding_kv_tokens, 0U);
    const IterationTotals& iterations = merged.state.iterations;
    // A token comes from a decode or from an iteration that ends a prompt.
    const std::uint64_t decoded = iterations.prefill.decode_sequences + iterations.decode.decode_sequences;
    ASSERT_LE(decoded, merged.state.generated_tokens);
    ASSERT_GE(decoded + iterations.prefill_requests, merged.state.generated_tokens);
    std::set<std::uint32_t> completed;
    for (const EngineEvent& event : merged.events)
      if (event.kind == EngineEventKind::kCompleted) completed.insert(event.request);
    for (const Step& step : scenario.steps) {
      if (step.kind == StepKind::kHang || step.kind == StepKind::kSlow) continue;
      const std::uint32_t number = step.request.request;
      // A held one has completed before it leaves.
      ASSERT_TRUE(completed.contains(number) != merged.silent.contains(number) || scenario.prefill_role);
      if (!completed.contains(number)) continue;
      ASSERT_EQ(followed.tokens[number], step.request.output_tokens - (step.request.prefilled ? 1 : 0));
    }
    silent += merged.silent.size();
    preemptions += merged.state.preemptions;
  }
  // The scenarios reach what they are meant to reach.
  EXPECT_GT(silent, 2000U);
  EXPECT_GT(preemptions, 100U);
}

}  // namespace
}  // namespace penstock::engine
