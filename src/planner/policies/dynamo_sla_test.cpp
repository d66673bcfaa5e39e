// A pass takes 4 ms and 1 ms per sequence of 1,000 tokens, or 4 ms and 10 µs per prompt token.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "core/source_root_testing.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using signals::Role;
using testing::Asker;
using testing::bounded;
using testing::EngineSample;
using testing::pool_of;
using testing::PoolObservation;
using testing::with_starting;

EngineSample engine_of(const core::Iteration& pass) {
  EngineSample sample = testing::idle_engine();
  sample.kv_capacity_tokens = 1'000'000;
  sample.last_iteration = pass;
  return sample;
}
EngineSample decoding(std::uint32_t sequences) {
  return engine_of(
      {core::from_seconds(0.004 + 0.001 * sequences), 0, 0, 0, sequences, 1000 * std::uint64_t{sequences}});
}
EngineSample prefilling(std::uint32_t tokens, std::uint64_t queued_tokens) {
  EngineSample sample = engine_of({core::from_seconds(0.004 + 1e-5 * tokens), 1, tokens, 0, 0, 0});
  sample.queued_prefill_tokens = queued_tokens;
  sample.queued_requests = queued_tokens > 0 ? 10 : 0;
  return sample;
}
// A policy that has seen passes of both kinds of pools.
Asker observed(std::string_view name, Role role) {
  Asker asker{name};
  double at_s = -60.0;
  for (const std::uint32_t size : {5U, 8U, 10U, 12U, 15U}) {
    const EngineSample sample = role == Role::kDecode ? decoding(size) : prefilling(100 * size, 0);
    static_cast<void>(asker.ask(at_s += 5.0, bounded(pool_of({sample}, role), 1, 1)));
  }
  return asker;
}
PoolDecision ask_decode(const std::vector<std::uint32_t>& sequences, std::uint64_t kv_tokens = 1'000'000) {
  std::vector<EngineSample> samples;
  for (const std::uint32_t count : sequences) samples.push_back(decoding(count));
  for (EngineSample& sample : samples) sample.kv_capacity_tokens = kv_tokens;
  return observed("dynamo-sla-load", Role::kDecode).ask(0, pool_of(samples, Role::kDecode));
}
PoolDecision ask_prefill(const std::vector<std::uint64_t>& queues) {
  std::vector<EngineSample> samples;
  for (const std::uint64_t queue : queues) samples.push_back(prefilling(1000, queue));
  return observed("dynamo-sla-load", Role::kPrefill).ask(0, pool_of(samples, Role::kPrefill));
}

TEST(DynamoSla, GrowsByOneWhenTheItlOfAllEnginesIsAboveTheSlo) {
  EXPECT_DECISION(ask_decode({46, 46}), 3, kSloAtRisk, kNone);  // 51 ms with one more sequence
  EXPECT_DECISION(ask_decode({99, 99}), 3, kSloAtRisk, kNone);  // one a step, however slow
  EXPECT_DECISION(ask_decode({46, 44}), 2, kConsolidationRefused, kNone);
}
TEST(DynamoSla, ShrinksWhenTheOthersKeep80PercentOfTheItl) {
  EXPECT_DECISION(ask_decode({17, 17}), 1, kSpareCapacity, kNone);         // 35 sequences: 39 ms
  EXPECT_DECISION(ask_decode({18, 17}), 2, kConsolidationRefused, kNone);  // 37 sequences: 41 ms
  EXPECT_DECISION(ask_decode({20, 20, 20}), 2, kSpareCapacity, kNone);     // 31 sequences: 35 ms
}
TEST(DynamoSla, ShrinksOnlyIfTheKvTokensFit) {
  EXPECT_DECISION(ask_decode({15, 15}, 30'001), 1, kSpareCapacity, kNone);
  EXPECT_DECISION(ask_decode({15, 15}, 30'000), 2, kConsolidationRefused, kNone);
}
TEST(DynamoSla, OneReplicaIsTheLeast) { EXPECT_DECISION(ask_decode({1}), 1, kWithinTolerance, kNone); }

TEST(DynamoSla, PrefillGrowsWhenTheTtftOfAllEnginesIsAboveTheSlo) {
  // 201,000 tokens in 25 chunks: 2.11 s.
  EXPECT_DECISION(ask_prefill({200'000, 200'000}), 3, kSloAtRisk, kNone);
  EXPECT_DECISION(ask_prefill({200'000, 100'000}), 2, kConsolidationRefused, kNone);
}
TEST(DynamoSla, PrefillShrinksWhenTheQueueOfTheOthersFitsInto80PercentOfWhatAPromptLeaves) {
  // Alone a prompt takes 14 ms; the wait must be less than 0.8 · 1986 = 1589 ms.
  EXPECT_DECISION(ask_prefill({75'000, 75'000}), 1, kSpareCapacity, kNone);  // 150,000 tokens: 1572 ms
  EXPECT_DECISION(ask_prefill({76'000, 76'000}), 2, kConsolidationRefused, kNone);
}

TEST(DynamoSla, WaitsForReplicasAndForData) {
  Asker asker = observed("dynamo-sla-load", Role::kDecode);
  const PoolObservation hot = pool_of(2, decoding(60), Role::kDecode);
  EXPECT_DECISION(asker.ask(0, with_starting(hot, 1)), 3, kScalingInProgress, kNone);
  PoolObservation silent = hot;
  silent.replicas[1].sample->last_iteration.reset();
  EXPECT_DECISION(asker.ask(5, silent), 2, kInsufficientData, kNone);
  silent.replicas[0].sample.reset();
  EXPECT_DECISION(asker.ask(10, silent), 2, kNoData, kNone);
  EXPECT_DECISION(asker.ask(15, hot), 3, kSloAtRisk, kNone);
  Asker fresh{"dynamo-sla-load"};
  EXPECT_DECISION(fresh.ask(0, hot), 2, kInsufficientData, kNone);  // Two passes.
}
TEST(DynamoSla, AnotherPoolThatScalesHoldsThisOne) {
  Asker asker{"dynamo-sla-load"};
  const PoolObservation decode = pool_of(2, decoding(60), Role::kDecode);
  const PoolObservation prefill = pool_of(1, prefilling(1000, 0), Role::kPrefill);
  for (int i = 0; i < 5; ++i) static_cast<void>(asker.ask_all(5.0 * i, {with_starting(prefill, 1), decode}));
  const Decision decision = asker.ask_all(30, {with_starting(prefill, 1), decode});
  EXPECT_DECISION(decision.pools.at(1), 2, kScalingInProgress, kNone);
}

// ---- the throughput loop ----

PoolDecision after_three_minutes(std::uint64_t requests_per_minute, std::uint32_t most = 100,
                                 std::string_view name = "dynamo-sla", int ticks = 36) {
  Asker asker{name};
  PoolDecision last;
  for (int tick = 1; tick <= ticks; ++tick) {
    PoolObservation pool =
        bounded(pool_of({decoding(5 + static_cast<std::uint32_t>(tick % 7))}, Role::kDecode), 1, most);
    pool.last_minute.length = std::chrono::minutes{1};
    pool.last_minute.arrivals = pool.last_minute.completed = requests_per_minute;
    pool.last_minute.input_tokens = 900 * requests_per_minute;
    pool.last_minute.completed_output_tokens = 200 * requests_per_minute;
    last = asker.ask(5.0 * tick, pool);
    if (tick != 36) {
      EXPECT_EQ(last.target, 1U) << tick;
    }
  }
  return last;
}
TEST(DynamoSla, TheFloorIsTheRateDividedByThatOfAnEngineWithinTheSlo) {
  // 45 sequences take 49 ms, the 200 tokens of an answer 9.8 s: 4.59 requests per second.
  EXPECT_DECISION(after_three_minutes(600), 3, kFormula, kNone);
  EXPECT_DECISION(after_three_minutes(200), 1, kWithinTolerance, kNone);
}
TEST(DynamoSla, TheFloorRisesByAtMostEightReplicasAndToTheMaximum) {
  EXPECT_DECISION(after_three_minutes(6000), 9, kFormula, kNone);  // 100 / 4.59 = 22
  EXPECT_EQ(after_three_minutes(6000, 4).target, 4U);
}

// The fleet of the asker has one replica at each tick.
TEST(DynamoSla, WithoutTheLoadLoopTheFleetIsThePlan) {
  EXPECT_DECISION(after_three_minutes(600, 100, "dynamo-sla-throughput"), 3, kFormula, kNone);
  EXPECT_DECISION(after_three_minutes(600, 2, "dynamo-sla-throughput"), 2, kFormula, kNone);
  EXPECT_DECISION(after_three_minutes(6000, 100, "dynamo-sla-throughput"), 9, kFormula, kNone);
  EXPECT_DECISION(after_three_minutes(600, 100, "dynamo-sla-throughput", 37), 1, kWithinTolerance, kNone);
}
TEST(DynamoSla, WithoutTheLoadLoopNothingMovesBeforeFivePasses) {
  Asker asker{"dynamo-sla-throughput"};
  PoolDecision last;
  for (const double at_s : {5.0, 190.0}) last = asker.ask(at_s, pool_of({decoding(8)}, Role::kDecode));
  EXPECT_DECISION(last, 1, kInsufficientData, kNone);
}

// ---- Dynamo's own decisions ----

// The first 25 minutes of the planner of Dynamo 1.6.1 with both loops and the Kalman predictor in Dynamo's replay of
// Mooncake's conversation trace: 2 replicas at the start, at most 8, start-up 120 s, TTFT 2 s and ITL 50 ms. The file
// has what the planner saw at each tick, and its estimates and targets; bench/dynamo_planner.py writes it.
struct Recorded {
  double at_s = 0.0;
  std::uint32_t ready = 0, expected = 0;
  std::string target, ttft_ms, itl_ms, floor;
  std::vector<double> traffic;  // Seconds, requests, prompt and output tokens of each, hit ratio.
  std::map<std::uint32_t, EngineSample> engines;
};
double number_of(const std::string& text) {
  double number = -1.0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}
std::vector<Recorded> recording() {
  std::ifstream file{core::testing::source_root() / "src/planner/policies/golden/dynamo_sla_1.6.1.csv"};
  std::vector<Recorded> ticks;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::istringstream row{line + ","};
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    const auto number = [&](std::size_t i) { return number_of(cells.at(i)); };
    const auto whole = [&](std::size_t i) { return static_cast<std::uint32_t>(number(i)); };
    if (cells[0] == "tick") {
      ticks.push_back({number(1), whole(2), whole(3), cells.at(4), cells.at(5), cells.at(6), cells.at(7), {}, {}});
    } else if (cells[0] == "traffic") {
      for (std::size_t i = 1; i <= 5; ++i) ticks.back().traffic.push_back(number(i));
    } else {
      EngineSample sample =
          engine_of({core::from_seconds(number(2)), whole(3), whole(4), whole(5), whole(6), whole(7)});
      sample.kv_capacity_tokens = 1'024'000;
      sample.queued_requests = whole(8);
      sample.queued_prefill_tokens = whole(9);
      sample.queued_kv_tokens = whole(11);
      ticks.back().engines[whole(1)] = sample;
    }
  }
  return ticks;
}

TEST(DynamoSla, DecidesAsDynamoOnWhatDynamoSaw) {
  PolicyContext context;
  context.slo = {std::chrono::seconds{2}, std::chrono::milliseconds{50}};
  Asker asker{"dynamo-sla", context};
  std::size_t compared = 0, changes = 0, estimates = 0;
  double worst = 0.0;
  std::uint64_t prompt = 0, hit = 0;
  for (const Recorded& tick : recording()) {
    PoolObservation pool = bounded(PoolObservation{}, 1, 8);
    pool.ready = tick.ready;
    pool.target_replicas = tick.expected;
    for (const auto& [worker, sample] : tick.engines)
      pool.replicas.push_back({worker, testing::ReplicaState::kReady, {}, sample});
    if (!tick.traffic.empty()) {
      const auto requests = static_cast<std::uint64_t>(tick.traffic[1]);
      pool.last_minute.length = std::chrono::minutes{1};
      pool.last_minute.arrivals = pool.last_minute.completed = requests;
      pool.last_minute.input_tokens = static_cast<std::uint64_t>(tick.traffic[1] * tick.traffic[2]);
      pool.last_minute.completed_output_tokens = static_cast<std::uint64_t>(tick.traffic[1] * tick.traffic[3]);
      prompt += 1'000'000;
      hit += static_cast<std::uint64_t>(1e6 * tick.traffic[4]);
    }
    // One replica counts for all, and never ends.
    PoolObservation counted = pool;
    counted.replicas.push_back({1'000'000, testing::ReplicaState::kDraining, {}, testing::idle_engine()});
    counted.replicas.back().sample->prompt_tokens_total = prompt;
    counted.replicas.back().sample->prefix_hit_tokens_total = hit;
    const PoolDecision made = asker.ask(tick.at_s, counted);
    const auto wanted = tick.target.empty() ? tick.expected : static_cast<std::uint32_t>(number_of(tick.target));
    ++compared;
    changes += wanted != tick.expected ? 1 : 0;
    EXPECT_EQ(made.target, wanted) << "at " << tick.at_s << " s; " << sentence(made);
    for (const auto& [name, theirs] : {std::pair{"estimated_ttft", tick.ttft_ms}, {"estimated_itl", tick.itl_ms}}) {
      const auto ours = std::find_if(made.evidence.begin(), made.evidence.end(),
                                     [&, name = name](const decision::Evidence& each) { return each.name == name; });
      if (theirs.empty() || ours == made.evidence.end()) continue;
      ++estimates;
      worst = std::max(worst, std::abs(ours->value / number_of(theirs) - 1.0));
    }
    if (!tick.traffic.empty()) {
      const auto floor = std::find_if(made.evidence.begin(), made.evidence.end(),
                                      [](const decision::Evidence& each) { return each.name == "floor"; });
      ASSERT_NE(floor, made.evidence.end());
      EXPECT_EQ(floor->value, number_of(tick.floor)) << "at " << tick.at_s << " s";
    }
  }
  EXPECT_EQ(compared, 300U);
  EXPECT_EQ(changes, 18U);
  EXPECT_GT(estimates, 50U);
  EXPECT_LT(worst, 1e-3);
}

}  // namespace
}  // namespace penstock::planner
