// Whatever the settings and the requests: merging iterations changes nothing, every request ends, nothing is lost.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/random.h"
#include "engine/engine.h"
#include "engine/engine_testing.h"
#include "engine/step_time_models.h"

namespace penstock::engine {
namespace {

using testing::LinearNanoseconds;
using testing::TimedRequest;

struct Scenario {
  EngineConfig config;
  LinearNanoseconds::Terms times;
  std::vector<std::vector<std::uint32_t>> ids;
  std::vector<TimedRequest> requests;
  bool prefill_role = false;
};

Scenario draw(std::uint64_t seed) {
  core::RandomStream random{seed};
  Scenario scenario;
  EngineConfig& config = scenario.config;
  config.block_tokens = static_cast<std::uint32_t>(1 + random.below(16));
  config.kv_blocks = static_cast<std::uint32_t>(12 + random.below(100));
  config.max_sequences = static_cast<std::uint32_t>(1 + random.below(12));
  config.max_batched_tokens = config.max_sequences + static_cast<std::uint32_t>(random.below(80));
  config.chunked_prefill = random.below(4) != 0;
  config.prefix_caching = random.below(4) != 0;
  config.watermark = random.below(3) == 0 ? 0.1 : 0.0;
  config.queue_order = static_cast<QueueOrder>(random.below(3));
  config.fairness_bound = std::chrono::milliseconds{random.below(30)};
  config.preemption_order = static_cast<PreemptionOrder>(random.below(3));
  config.queue_delay = std::chrono::microseconds{random.below(3) == 0 ? random.below(3000) : 0};
  config.prefill_share = random.below(3) == 0 ? 0.3 : 1.0;
  config.prefill_share_interval = std::chrono::milliseconds{1 + random.below(20)};
  scenario.times = {
      static_cast<std::int64_t>(100'000 + random.below(1'000'000)), static_cast<std::int64_t>(random.below(2000)),
      static_cast<std::int64_t>(random.below(2) * random.below(5000)),
      static_cast<std::int64_t>(random.below(2) * random.below(900)), static_cast<std::int64_t>(random.below(100))};
  scenario.prefill_role = random.below(5) == 0;
  config.iteration_order = seed % 4 == 1 ? IterationOrder::kPrefillFirst : IterationOrder::kMixed;
  config.iteration_rules = seed % 3 == 0 ? IterationRules::kDynamo13 : IterationRules::kDynamo16;

  const std::uint32_t capacity = config.block_tokens * config.kv_blocks;
  core::Instant at;
  std::uint32_t fresh = 1000;
  scenario.ids.resize(20 + random.below(60));
  for (std::uint32_t i = 0; i < scenario.ids.size(); ++i) {
    if (random.below(3) != 0) at += core::Duration{static_cast<std::int64_t>(random.exponential(4e6))};
    EngineRequest request;
    request.request = i;
    request.input_tokens = static_cast<std::uint32_t>(1 + random.below(capacity / 3));
    request.output_tokens = static_cast<std::uint32_t>(1 + random.below(scenario.prefill_role ? 1 : capacity / 3));
    request.priority = static_cast<std::int8_t>(random.below(3));
    request.prefilled = !scenario.prefill_role && random.below(6) == 0 && request.output_tokens > 1;
    if (random.below(4) != 0) {  // one of three families of prompts, shared up to a random depth
      const std::uint32_t family = static_cast<std::uint32_t>(random.below(3)) * 200;
      const std::uint32_t blocks = (request.input_tokens + request.output_tokens) / config.block_tokens + 1;
      const auto depth = static_cast<std::uint32_t>(random.below(blocks + 1));
      for (std::uint32_t block = 0; block < blocks; ++block)
        scenario.ids[i].push_back(block < depth && block < 200 ? family + block : fresh++);
    }
    request.block_ids = scenario.ids[i];
    if (can_fit(config, request)) scenario.requests.push_back({at, request});
  }
  return scenario;
}

struct Outcome {
  std::vector<EngineEvent> events;
  EngineState state;
  std::vector<IterationTotals> looks;  // at equal times
  std::uint64_t gaps = 0;
};

Outcome run(const Scenario& scenario, const StepTimeModel& times, bool merge) {
  Engine engine{scenario.config, times, merge};
  if (scenario.prefill_role) engine.hold_prefilled();
  Outcome outcome;
  outcome.events =
      testing::drive(engine, scenario.requests, scenario.prefill_role ? core::Duration{3'000'000} : core::Duration{-1},
                     [&](core::Instant now) { outcome.looks.push_back(engine.state(now).iterations); });
  EXPECT_TRUE(engine.idle());
  outcome.state = engine.state(core::Instant{std::chrono::hours{1}});
  outcome.gaps = engine.token_gaps_ms().count();
  return outcome;
}

void expect_equal(const IterationSums& a, const IterationSums& b) {
  ASSERT_EQ(a.steps, b.steps);
  ASSERT_EQ(a.busy, b.busy);
  ASSERT_EQ(a.decode_sequences, b.decode_sequences);
  ASSERT_EQ(a.decode_context_tokens, b.decode_context_tokens);
  ASSERT_EQ(a.active_kv_tokens, b.active_kv_tokens);
}

void expect_equal(const IterationTotals& a, const IterationTotals& b) {
  expect_equal(a.prefill, b.prefill);
  expect_equal(a.decode, b.decode);
  ASSERT_EQ(a.prefill_requests, b.prefill_requests);
  ASSERT_EQ(a.prefill_new_tokens, b.prefill_new_tokens);
  ASSERT_EQ(a.prefill_new_tokens_squared, b.prefill_new_tokens_squared);
  ASSERT_EQ(a.prefill_context_tokens, b.prefill_context_tokens);
  ASSERT_EQ(a.prefill_attention_pairs, b.prefill_attention_pairs);
}

void expect_no_difference(const Scenario& scenario, const StepTimeModel& times) {
  const Outcome merged = run(scenario, times, true), single = run(scenario, times, false);
  ASSERT_EQ(merged.events.size(), single.events.size());
  for (std::size_t i = 0; i < merged.events.size(); ++i) {
    ASSERT_EQ(merged.events[i].kind, single.events[i].kind) << i;
    ASSERT_EQ(merged.events[i].request, single.events[i].request) << i;
    ASSERT_EQ(merged.events[i].at, single.events[i].at) << i;
    ASSERT_EQ(merged.events[i].cached_tokens, single.events[i].cached_tokens) << i;
  }
  ASSERT_EQ(merged.state.steps, single.state.steps);
  ASSERT_EQ(merged.state.generated_tokens, single.state.generated_tokens);
  ASSERT_EQ(merged.state.preemptions, single.state.preemptions);
  ASSERT_EQ(merged.state.evictions, single.state.evictions);
  ASSERT_EQ(merged.gaps, single.gaps);
  ASSERT_EQ(merged.looks.size(), single.looks.size());
  for (std::size_t i = 0; i < merged.looks.size(); ++i) {
    SCOPED_TRACE(i);
    expect_equal(merged.looks[i], single.looks[i]);
    if (::testing::Test::HasFatalFailure()) return;
  }
  expect_equal(merged.state.iterations, single.state.iterations);
}

TEST(EngineProperty, MergedStepsGiveTheSameResultsAsSingleOnes) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario scenario = draw(seed);
    expect_no_difference(scenario, LinearNanoseconds{scenario.times});
    if (HasFatalFailure()) return;
  }
}

std::shared_ptr<const StepTimeModel> small_table() {
  constexpr std::string_view kProfile =
      R"({"prefill_isl": [16, 256, 1024], "prefill_ttft_ms": [2.5, 9.1, 40.7],
          "decode_active_kv_tokens": [10, 400, 10, 900], "decode_context_length": [8, 8, 300, 300],
          "decode_itl": [3.1, 5.7, 3.3, 8.9]})";
  const ProfileFile file{"small.json", {reinterpret_cast<const std::uint8_t*>(kProfile.data()), kProfile.size()}};
  auto model = make_table_model({&file, 1});
  EXPECT_TRUE(model.has_value()) << model.error().message();
  return *std::move(model);
}

TEST(EngineProperty, MergingChangesNothingUnderAnyStepTimeModel) {
  const std::vector<std::shared_ptr<const StepTimeModel>> models = {
      *make_step_time_model("polynomial"), *make_step_time_model("linear:4.2,0.07,0.021,0.0003"), small_table(),
      *make_step_time_model("roofline:llama-3.1-8b,h100")};
  for (std::uint64_t seed = 2000; seed < 2150; ++seed)
    for (const auto& model : models) {
      SCOPED_TRACE(model->description() + " " + std::to_string(seed));
      expect_no_difference(draw(seed), *model);
      if (HasFatalFailure()) return;
    }
}

TEST(EngineProperty, EveryRequestEndsAndEveryTokenIsCounted) {
  std::uint64_t preemptions = 0, evictions = 0, hits = 0;
  for (std::uint64_t seed = 5000; seed < 5600; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario scenario = draw(seed);
    const Outcome outcome = run(scenario, LinearNanoseconds{scenario.times}, true);
    std::uint64_t tokens = 0, prompts = 0, first_tokens = 0, gaps = 0;
    for (const TimedRequest& timed : scenario.requests) {
      tokens += timed.request.output_tokens - (timed.request.prefilled ? 1 : 0);
      gaps += timed.request.output_tokens - 1;
      prompts += timed.request.prefilled ? 0 : timed.request.input_tokens;
      first_tokens += timed.request.prefilled ? 0 : 1;
    }
    const IterationTotals& iterations = outcome.state.iterations;
    ASSERT_EQ(iterations.prefill.steps + iterations.decode.steps, outcome.state.steps);
    const std::uint64_t decoded = iterations.prefill.decode_sequences + iterations.decode.decode_sequences;
    if (scenario.config.iteration_rules == IterationRules::kDynamo13) {
      ASSERT_EQ(decoded, tokens);
    } else {
      ASSERT_LE(decoded, tokens - first_tokens);
    }
    // What was not found in the cache is computed; preempted sequences compute some of it again.
    const std::uint64_t uncached = outcome.state.prompt_tokens - outcome.state.prefix_hit_tokens;
    ASSERT_GE(iterations.prefill_new_tokens, uncached);
    if (outcome.state.preemptions == 0) {
      ASSERT_EQ(iterations.prefill_new_tokens, uncached);
      ASSERT_GE(decoded, tokens - first_tokens);
    }
    std::vector<int> seen(200);
    std::uint64_t firsts = 0;
    core::Instant last;
    for (const EngineEvent& event : outcome.events) {
      ASSERT_GE(event.at, last);
      last = event.at;
      firsts += event.kind == EngineEventKind::kFirstToken ? 1 : 0;
      seen[event.request] += event.kind == EngineEventKind::kCompleted ? 1 : 0;
    }
    for (const TimedRequest& timed : scenario.requests) ASSERT_EQ(seen[timed.request.request], 1);
    ASSERT_EQ(firsts, first_tokens);
    ASSERT_EQ(outcome.state.generated_tokens, tokens);
    ASSERT_EQ(outcome.gaps, gaps);
    ASSERT_EQ(outcome.state.prompt_tokens, prompts);
    ASSERT_LE(outcome.state.prefix_hit_tokens, prompts);
    ASSERT_EQ(outcome.state.active_kv_tokens, 0U);
    ASSERT_EQ(outcome.state.waiting_prefill_tokens, 0U);
    ASSERT_EQ(outcome.state.preempted_kv_tokens, 0U);
    ASSERT_EQ(outcome.state.decoding_kv_tokens, 0U);
    preemptions += outcome.state.preemptions;
    evictions += outcome.state.evictions;
    hits += outcome.state.prefix_hit_tokens;
  }
  // The scenarios reach what they are meant to reach.
  EXPECT_GT(preemptions, 100U);
  EXPECT_GT(evictions, 1000U);
  EXPECT_GT(hits, 1000U);
}

}  // namespace
}  // namespace penstock::engine
