#include "planner/penstock/guardrails.h"

#include <gtest/gtest.h>

#include <deque>
#include <tuple>
#include <vector>

#include "core/random.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using signals::PoolObservation;
using testing::at_s;
using testing::engine;
using testing::pool_of;
using testing::with_kv;
using testing::with_starting;

// One pool under guardrails, called at times in seconds; samples are fresh unless an age is given.
class Guarded {
 public:
  explicit Guarded(const GuardrailOptions& options = {}) : guardrails_(options) {}

  PoolDecision proposal(double seconds, PoolObservation pool, std::uint32_t target, double age_s = 0.0) {
    for (auto& replica : pool.replicas)
      if (replica.sample) replica.sample->sampled_at = at_s(seconds - age_s);
    PoolDecision proposal;
    proposal.target = target;
    proposal.reason = Reason::kCheapestThatKeepsSlo;
    return guardrails_.apply(at_s(seconds), pool, proposal);
  }
  // The same proposal every 30 s for five minutes, after which the stabilisation window holds nothing else.
  void settle(const PoolObservation& pool, std::uint32_t target) {
    for (double seconds = 0.0; seconds < 300.0; seconds += 30.0) (void)proposal(seconds, pool, target);
  }
  // Another process goes on with what this one knew.
  void restart() {
    core::StateArchive saved;
    guardrails_.archive(saved);
    core::StateArchive read{saved.text()};
    guardrails_ = Guardrails{};
    guardrails_.archive(read);
    EXPECT_TRUE(read.finish());
  }

 private:
  Guardrails guardrails_;
};

TEST(Guardrails, KeepAProposalWithinAllLimits) {
  Guarded guarded;
  EXPECT_DECISION(guarded.proposal(0, pool_of(4, engine(0)), 6), 6, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, GrowAtMostThreefoldAMinute) {
  Guarded guarded;
  EXPECT_DECISION(guarded.proposal(0, pool_of(4, engine(0)), 50), 12, kCheapestThatKeepsSlo, kGrowthRate);
  EXPECT_DECISION(guarded.proposal(30, pool_of(12, engine(0)), 50), 12, kCheapestThatKeepsSlo, kGrowthRate);
  EXPECT_DECISION(guarded.proposal(61, pool_of(12, engine(0)), 50), 36, kCheapestThatKeepsSlo, kGrowthRate);
}

TEST(Guardrails, LetASmallFleetGrowByFour) {
  Guarded guarded;
  EXPECT_DECISION(guarded.proposal(0, pool_of(1, engine(0)), 50), 5, kCheapestThatKeepsSlo, kGrowthRate);
}

TEST(Guardrails, ShrinkOnlyAfterTheStabilisationWindow) {
  Guarded guarded;
  EXPECT_DECISION(guarded.proposal(0, pool_of(8, engine(0)), 7), 8, kCheapestThatKeepsSlo, kStabilization);
  EXPECT_DECISION(guarded.proposal(299, pool_of(8, engine(0)), 7), 8, kCheapestThatKeepsSlo, kStabilization);
  EXPECT_DECISION(guarded.proposal(300, pool_of(8, engine(0)), 7), 7, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, ShrinkToTheHighestProposalOfTheWindow) {
  Guarded guarded;
  guarded.settle(pool_of(8, engine(0)), 4);
  (void)guarded.proposal(310, pool_of(8, engine(0)), 7);
  EXPECT_DECISION(guarded.proposal(400, pool_of(8, engine(0)), 4), 7, kCheapestThatKeepsSlo, kStabilization);
}

TEST(Guardrails, ShrinkByAThirdAMinute) {
  Guarded guarded;
  guarded.settle(pool_of(12, engine(0)), 1);
  EXPECT_DECISION(guarded.proposal(301, pool_of(12, engine(0)), 1), 8, kCheapestThatKeepsSlo, kShrinkRate);
  EXPECT_DECISION(guarded.proposal(331, pool_of(8, engine(0)), 1), 8, kCheapestThatKeepsSlo, kShrinkRate);
  EXPECT_DECISION(guarded.proposal(362, pool_of(8, engine(0)), 1), 6, kCheapestThatKeepsSlo, kShrinkRate);
}

signals::EngineSample of_another_make(std::uint32_t queued, std::optional<double> kv_share) {
  signals::EngineSample sample;
  sample.queued_requests = queued;
  sample.kv_share = kv_share;
  return sample;
}

struct Danger {
  const char* name;
  signals::PoolObservation pool;
  double age_s;
  Limit limit;
};

TEST(Guardrails, NeverShrinkInDanger) {
  auto waiting = pool_of(4, engine(0));
  waiting.replicas[2].sample->oldest_queued_age = std::chrono::seconds{1};
  auto unrouted = pool_of(4, engine(0));
  unrouted.unrouted_requests = 1;
  auto draining = pool_of(4, engine(0));
  draining.draining = 1;
  auto failing = pool_of(4, engine(0));
  failing.failed_total = 1;
  const std::vector<Danger> dangers = {
      {"40 requests that wait for an unknown time", pool_of(4, of_another_make(40, 0.2)), 0.0, Limit::kQueueWaits},
      {"a queue and unknown KV usage", pool_of(4, of_another_make(40, {})), 0.0, Limit::kQueueWaits},
      {"unknown KV usage of decode replicas", pool_of(4, of_another_make(0, {}), signals::Role::kDecode), 0.0,
       Limit::kStaleTelemetry},
      {"old telemetry", pool_of(4, engine(0)), 31.0, Limit::kStaleTelemetry},
      {"telemetry of the future", pool_of(4, engine(0)), -1.0, Limit::kStaleTelemetry},
      {"missing telemetry", testing::without_samples_of_last(pool_of(4, engine(0)), 1), 0.0, Limit::kStaleTelemetry},
      {"a start in progress", with_starting(pool_of(3, engine(0)), 1), 0.0, Limit::kStartingOrDraining},
      {"a drain in progress", draining, 0.0, Limit::kStartingOrDraining},
      {"a hot KV cache", pool_of(4, with_kv(0.76)), 0.0, Limit::kHotKvCache},
      {"a queue", waiting, 0.0, Limit::kQueueWaits},
      {"requests without a replica", unrouted, 0.0, Limit::kQueueWaits},
      {"failed requests", failing, 0.0, Limit::kFailures},
  };
  for (const Danger& danger : dangers) {
    SCOPED_TRACE(danger.name);
    Guarded guarded;
    guarded.settle(pool_of(4, engine(0)), 2);
    const PoolDecision decision = guarded.proposal(305, danger.pool, 2, danger.age_s);
    EXPECT_EQ(decision.target, 4U);
    EXPECT_STREQ(to_string(decision.limited_by), to_string(danger.limit));
  }
}

TEST(Guardrails, StayWithinTheBoundsOfThePool) {
  Guarded guarded;
  EXPECT_DECISION(guarded.proposal(0, testing::bounded(pool_of(4, engine(0)), 1, 6), 9), 6, kCheapestThatKeepsSlo,
                  kMaxReplicas);
  EXPECT_DECISION(guarded.proposal(1, testing::bounded(pool_of(4, engine(0)), 5, 9), 4), 5, kCheapestThatKeepsSlo,
                  kMinReplicas);
}

// ---- engines that report no KV usage --------------------------------------------------------------------------------

PoolObservation llama_cpp(std::uint32_t replicas, std::uint32_t running, std::uint32_t queued = 0) {
  signals::EngineSample sample = of_another_make(queued, {});
  sample.running_requests = running;
  return pool_of(replicas, sample);
}

TEST(Guardrails, WithoutKvUsageAPoolShrinksOnceNothingWaitedForTheWholeWindow) {
  Guarded guarded;
  // Each replica runs all that it can.
  for (double seconds = 0.0; seconds < 300.0; seconds += 30.0) (void)guarded.proposal(seconds, llama_cpp(3, 4, 2), 1);
  EXPECT_DECISION(guarded.proposal(300, llama_cpp(3, 4, 2), 1), 3, kCheapestThatKeepsSlo, kQueueWaits);
  for (double seconds = 330.0; seconds < 600.0; seconds += 30.0)  // The load has ended.
    EXPECT_DECISION(guarded.proposal(seconds, llama_cpp(3, 0), 1), 3, kCheapestThatKeepsSlo, kQueueWaits);
  EXPECT_DECISION(guarded.proposal(601, llama_cpp(3, 0), 1), 2, kCheapestThatKeepsSlo, kShrinkRate);
  EXPECT_DECISION(guarded.proposal(630, llama_cpp(2, 0, 1), 1), 2, kCheapestThatKeepsSlo, kQueueWaits);
}

TEST(Guardrails, WithoutKvUsageTheRestMustRunWhatRuns) {
  const std::tuple<std::uint32_t, std::uint32_t> table[] = {{0, 1}, {1, 1}, {2, 2}, {3, 3}, {4, 3}};
  for (const auto& [running, target] : table) {
    SCOPED_TRACE(running);
    GuardrailOptions options;
    options.shrink_share = 1.0;
    Guarded guarded{options};
    (void)guarded.proposal(0, llama_cpp(3, 4), 1);  // A replica is known to run four requests at once.
    for (double seconds = 30.0; seconds < 300.0; seconds += 30.0)
      (void)guarded.proposal(seconds, llama_cpp(3, running), 1);
    EXPECT_EQ(guarded.proposal(301, llama_cpp(3, running), 1).target, target);
  }
}

TEST(Guardrails, WithoutKvUsageArrivalsCountBetweenTwoSamples) {
  GuardrailOptions options;
  options.shrink_share = 1.0;
  const auto target_with = [&](signals::LatencyWindow ttft) {
    Guarded guarded{options};
    (void)guarded.proposal(0, llama_cpp(3, 4), 1);
    PoolObservation pool = testing::with_arrivals(llama_cpp(3, 0), 60);  // One request a second …
    pool.last_minute.ttft = ttft;
    for (double seconds = 30.0; seconds < 300.0; seconds += 30.0) (void)guarded.proposal(seconds, pool, 1);
    return guarded.proposal(301, pool, 1);
  };
  // … of 3 s each are three in flight of the twelve that three replicas run.
  EXPECT_EQ(target_with({.count = 60, .mean_ms = 3'000.0}).target, 1U);
  EXPECT_EQ(target_with({.count = 60, .mean_ms = 6'000.0}).target, 2U);
  EXPECT_DECISION(target_with({}), 3, kCheapestThatKeepsSlo, kStaleTelemetry);
}

TEST(Guardrails, WithoutKvUsageNothingShrinksWithAQueue) {
  core::RandomStream random{std::uint64_t{7}};
  for (int round = 0; round < 200; ++round) {
    Guarded guarded;
    std::uint32_t target = 1 + static_cast<std::uint32_t>(random.below(8));
    double waited_at = -1e9;
    for (double seconds = 0.0; seconds < 3'600.0; seconds += 20.0) {
      const bool waits = random.below(40) == 0;
      if (waits) waited_at = seconds;
      const auto running = static_cast<std::uint32_t>(random.below(5));
      const std::uint32_t before = target;
      target = guarded.proposal(seconds, llama_cpp(target, running, waits ? 1 : 0), 1).target;
      if (target < before) {
        ASSERT_GE(seconds - waited_at, 300.0) << "round " << round;
      }
    }
  }
}

// ---- what the replicas that are left must carry ---------------------------------------------------------------------

TEST(Guardrails, ShrinkOnlyAsFarAsTheRestCanCarryTheLoad) {
  Guarded guarded;
  guarded.settle(pool_of(9, with_kv(0.5)), 6);
  // 9 x 0.5 is carried within 0.8 by 6, and not by 5.
  EXPECT_DECISION(guarded.proposal(305, pool_of(9, with_kv(0.5)), 6), 6, kCheapestThatKeepsSlo, kNone);
  Guarded greedy;
  greedy.settle(pool_of(9, with_kv(0.6)), 6);
  EXPECT_DECISION(greedy.proposal(305, pool_of(9, with_kv(0.6)), 6), 7, kCheapestThatKeepsSlo, kConsolidation);
}

TEST(Guardrails, CountQueuedTokensAndTheFullestReplicaAsLoad) {
  auto queued = engine(3, 1, 300);
  queued.queued_prefill_tokens = 250;
  queued.queued_kv_tokens = 100;
  auto pool = pool_of(4, engine(0));
  pool.replicas[3].sample = queued;  // 650 of 1000 tokens, 4/3 of which is over 0.8
  Guarded guarded;
  guarded.settle(pool, 3);
  EXPECT_DECISION(guarded.proposal(305, pool, 3), 4, kCheapestThatKeepsSlo, kConsolidation);
  pool.replicas[3].sample->queued_prefill_tokens = 150;
  EXPECT_DECISION(guarded.proposal(310, pool, 3), 3, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, CompareThePromptQueueWithThePrefillCapacity) {
  auto queued = engine(1);
  queued.kv_capacity_tokens = 10'000'000;
  queued.queued_prefill_tokens = 20'000;  // 20000 of 32768 is 0.61, which 4/3 raises above 0.8.
  const auto prefill = pool_of(4, queued, signals::Role::kPrefill);
  Guarded guarded;
  guarded.settle(prefill, 3);
  EXPECT_DECISION(guarded.proposal(305, prefill, 3), 4, kCheapestThatKeepsSlo, kConsolidation);
  Guarded aggregated;
  aggregated.settle(pool_of(4, queued), 3);
  EXPECT_DECISION(aggregated.proposal(305, pool_of(4, queued), 3), 3, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, ShrinkSoonerAtAHigherSensitivity) {
  const std::vector<std::tuple<std::uint32_t, double, std::uint32_t>> table = {
      {100, 0.7, 3}, {80, 0.7, 4}, {80, 0.6, 3}, {60, 0.6, 4}, {60, 0.45, 3}, {0, 0.001, 4}, {0, 0.0, 3}};
  for (const auto& [sensitivity, kv, target] : table) {
    SCOPED_TRACE(sensitivity);
    GuardrailOptions options;
    options.sensitivity = sensitivity;
    Guarded guarded{options};
    guarded.settle(pool_of(4, with_kv(kv)), 3);
    EXPECT_EQ(guarded.proposal(305, pool_of(4, with_kv(kv)), 3).target, target);
  }
}

TEST(Guardrails, LeaveTheLeastNumberOfReadyReplicas) {
  GuardrailOptions options;
  options.minimum_endpoints = 3;
  Guarded guarded{options};
  guarded.settle(pool_of(4, engine(0)), 1);
  EXPECT_DECISION(guarded.proposal(305, pool_of(4, engine(0)), 1), 3, kCheapestThatKeepsSlo, kShrinkRate);
  EXPECT_DECISION(guarded.proposal(370, pool_of(3, engine(0)), 1), 3, kCheapestThatKeepsSlo, kMinEndpoints);
}

TEST(Guardrails, ShrinkNothingWhileTooFewReplicasAreReady) {
  auto short_of = pool_of(3, engine(0));  // Replicas that were requested but do not start.
  short_of.target_replicas = 5;
  short_of.min_replicas = 4;
  Guarded guarded;
  guarded.settle(short_of, 4);
  EXPECT_DECISION(guarded.proposal(305, short_of, 4), 5, kCheapestThatKeepsSlo, kMinEndpoints);
  short_of.min_replicas = 3;
  EXPECT_DECISION(guarded.proposal(310, short_of, 4), 4, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, TreatAnUnlistedReadyReplicaAsWithoutTelemetry) {
  auto pool = pool_of(4, engine(0));
  pool.ready = 5;
  Guarded guarded;
  guarded.settle(pool, 3);
  EXPECT_DECISION(guarded.proposal(305, pool, 3), 4, kCheapestThatKeepsSlo, kStaleTelemetry);
}

// No traffic, so no completions and no latencies: engines that say they are idle are reason enough.
TEST(Guardrails, ShrinkToTheMinimumWhenTrafficStops) {
  Guarded guarded;
  std::uint32_t target = 12;
  double seconds = 0.0;
  for (; seconds < 1200.0 && target > 2; seconds += 5.0)
    target = guarded.proposal(seconds, testing::bounded(pool_of(target, engine(0)), 2, 20), 1, 5.0).target;
  EXPECT_EQ(target, 2U);
  EXPECT_LE(seconds, 300.0 + 5 * 65.0);  // 12, 8, 6, 4, 3, 2
}

// ---- what others do -------------------------------------------------------------------------------------------------

TEST(Guardrails, HoldATargetThatWasSetManually) {
  Guarded guarded;
  EXPECT_DECISION(guarded.proposal(0, pool_of(4, engine(0)), 6), 6, kCheapestThatKeepsSlo, kNone);
  EXPECT_DECISION(guarded.proposal(5, pool_of(9, engine(0)), 6), 9, kCheapestThatKeepsSlo, kManualChange);
  EXPECT_DECISION(guarded.proposal(300, pool_of(9, engine(0)), 20), 9, kCheapestThatKeepsSlo, kManualChange);
  EXPECT_DECISION(guarded.proposal(604, pool_of(9, engine(0)), 6), 9, kCheapestThatKeepsSlo, kManualChange);
  // Then it decides from there: up at once, down only after a whole stabilisation window.
  EXPECT_DECISION(guarded.proposal(605, pool_of(9, engine(0)), 6), 9, kCheapestThatKeepsSlo, kStabilization);
  EXPECT_DECISION(guarded.proposal(903, pool_of(9, engine(0)), 6), 9, kCheapestThatKeepsSlo, kStabilization);
  EXPECT_DECISION(guarded.proposal(905, pool_of(9, engine(0)), 6), 6, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, RememberTheirWindowsOverARestart) {
  Guarded guarded;
  EXPECT_DECISION(guarded.proposal(0, pool_of(8, engine(0)), 7), 8, kCheapestThatKeepsSlo, kStabilization);
  guarded.restart();
  EXPECT_DECISION(guarded.proposal(299, pool_of(8, engine(0)), 7), 8, kCheapestThatKeepsSlo, kStabilization);
  EXPECT_DECISION(guarded.proposal(300, pool_of(8, engine(0)), 7), 7, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, DoNotMistakeARestartedFleetForAManualChange) {
  Guarded guarded;
  EXPECT_DECISION(guarded.proposal(0, pool_of(4, engine(0)), 6), 6, kCheapestThatKeepsSlo, kNone);
  guarded.restart();
  EXPECT_DECISION(guarded.proposal(5, pool_of(1, engine(0)), 3), 3, kCheapestThatKeepsSlo, kNone);
  EXPECT_DECISION(guarded.proposal(10, pool_of(9, engine(0)), 6), 9, kCheapestThatKeepsSlo, kManualChange);
}

TEST(Guardrails, GrowAgainAfterTheHoldOfAManualChange) {
  Guarded guarded;
  (void)guarded.proposal(0, pool_of(8, engine(0)), 8);
  EXPECT_DECISION(guarded.proposal(5, pool_of(2, engine(0)), 8), 2, kCheapestThatKeepsSlo, kManualChange);
  EXPECT_DECISION(guarded.proposal(606, pool_of(2, engine(0)), 8), 6, kCheapestThatKeepsSlo, kGrowthRate);
}

TEST(Guardrails, HoldTheBoundsEvenAgainstAManualChange) {
  Guarded guarded;
  (void)guarded.proposal(0, testing::bounded(pool_of(4, engine(0)), 2, 6), 4);
  EXPECT_DECISION(guarded.proposal(5, testing::bounded(pool_of(9, engine(0)), 2, 6), 4), 6, kCheapestThatKeepsSlo,
                  kMaxReplicas);
  EXPECT_DECISION(guarded.proposal(10, testing::bounded(pool_of(6, engine(0)), 2, 6), 4), 6, kCheapestThatKeepsSlo,
                  kManualChange);
}

TEST(Guardrails, DoNotMistakeARefusedChangeForAManualOne) {
  Guarded guarded;
  EXPECT_DECISION(guarded.proposal(0, pool_of(4, engine(0)), 6), 6, kCheapestThatKeepsSlo, kNone);
  EXPECT_DECISION(guarded.proposal(5, pool_of(4, engine(0)), 6), 6, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, DoNotMistakeALaterLimitForAManualChange) {
  Guardrails guardrails;
  auto pool = pool_of(4, engine(0));
  PoolDecision proposal;
  proposal.target = 8;
  EXPECT_EQ(guardrails.apply(at_s(0), pool, proposal).target, 8U);
  guardrails.revise(5);
  pool = pool_of(5, engine(0));
  EXPECT_EQ(guardrails.apply(at_s(5), pool, proposal).target, 8U);
}

// ---- actions that fail ----------------------------------------------------------------------------------------------

PoolObservation with_failed_actions(PoolObservation pool, std::uint64_t failed) {
  pool.actions_failed_total = failed;
  return pool;
}

TEST(Guardrails, HoldDuringTheCooldownAfterAFailedAction) {
  Guarded guarded;
  const auto failed = [](std::uint64_t count) { return with_failed_actions(pool_of(4, engine(0)), count); };
  EXPECT_DECISION(guarded.proposal(0, failed(7), 6), 6, kCheapestThatKeepsSlo, kNone);  // The failures happened before.
  EXPECT_DECISION(guarded.proposal(5, failed(8), 6), 4, kCheapestThatKeepsSlo, kCooldown);
  EXPECT_DECISION(guarded.proposal(124, failed(8), 2), 4, kCheapestThatKeepsSlo, kCooldown);
  EXPECT_DECISION(guarded.proposal(125, failed(8), 6), 6, kCheapestThatKeepsSlo, kNone);
}

TEST(Guardrails, DoubleTheCooldownForConsecutiveFailures) {
  Guarded guarded;
  double seconds = 0.0;
  (void)guarded.proposal(seconds, pool_of(4, engine(0)), 6);
  std::uint64_t failures = 0;
  for (const double minutes : {2.0, 4.0, 8.0, 16.0, 16.0}) {
    SCOPED_TRACE(minutes);
    const auto pool = with_failed_actions(pool_of(4, engine(0)), ++failures);
    EXPECT_DECISION(guarded.proposal(seconds += 5, pool, 6), 4, kCheapestThatKeepsSlo, kCooldown);
    EXPECT_DECISION(guarded.proposal(seconds += 60 * minutes - 1, pool, 6), 4, kCheapestThatKeepsSlo, kCooldown);
    EXPECT_DECISION(guarded.proposal(seconds += 1, pool, 6), 6, kCheapestThatKeepsSlo, kNone);
  }
}

TEST(Guardrails, EndTheCooldownWithAReplicaThatBecomesReady) {
  Guarded guarded;
  (void)guarded.proposal(0, with_starting(pool_of(4, engine(0)), 2), 6);
  EXPECT_DECISION(guarded.proposal(5, with_failed_actions(with_starting(pool_of(4, engine(0)), 2), 1), 9), 6,
                  kCheapestThatKeepsSlo, kCooldown);
  EXPECT_DECISION(guarded.proposal(10, with_failed_actions(with_starting(pool_of(5, engine(0)), 1), 1), 9), 9,
                  kCheapestThatKeepsSlo, kNone);
  // … and the next failure counts as the first in a row.
  EXPECT_DECISION(guarded.proposal(15, with_failed_actions(with_starting(pool_of(5, engine(0)), 4), 2), 12), 9,
                  kCheapestThatKeepsSlo, kCooldown);
  EXPECT_DECISION(guarded.proposal(136, with_failed_actions(with_starting(pool_of(5, engine(0)), 4), 2), 12), 12,
                  kCheapestThatKeepsSlo, kNone);
}

// ---- clocks ---------------------------------------------------------------------------------------------------------

TEST(Guardrails, HoldEverythingWhenTheClockGoesBack) {
  Guarded guarded;
  guarded.settle(pool_of(8, engine(0)), 7);
  EXPECT_DECISION(guarded.proposal(200, pool_of(8, engine(0)), 7), 8, kCheapestThatKeepsSlo, kClockJump);
  EXPECT_DECISION(guarded.proposal(150, pool_of(8, engine(0)), 20), 8, kCheapestThatKeepsSlo, kClockJump);
}

TEST(Guardrails, KeepTheirWindowsOverAClockJump) {
  for (const double jump_s : {-3600.0, 3600.0}) {
    SCOPED_TRACE(jump_s);
    Guardrails guardrails;
    PoolDecision proposal;
    proposal.target = 7;
    const auto ask = [&](double seconds) {
      auto pool = pool_of(8, engine(0));
      for (auto& replica : pool.replicas) replica.sample->sampled_at = at_s(seconds);
      return guardrails.apply(at_s(seconds), pool, proposal);
    };
    EXPECT_EQ(ask(4000).target, 8U);
    EXPECT_EQ(ask(4200).target, 8U);
    const PoolDecision held = guardrails.hold_over_jump(at_s(4200 + jump_s), pool_of(8, engine(0)), proposal);
    EXPECT_DECISION(held, 8, kFixed, kClockJump);
    EXPECT_EQ(ask(4299 + jump_s).target, 8U);
    EXPECT_EQ(ask(4300 + jump_s).target, 7U);
  }
}

// Whatever is observed and wished, the promises of the header hold.
TEST(GuardrailsProperty, InvariantsHoldForAllProposals) {
  std::uint32_t grown = 0, shrunk = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    core::RandomStream random{seed};
    const GuardrailOptions options;
    Guardrails guardrails{options};
    std::uint32_t target = static_cast<std::uint32_t>(1 + random.below(20));
    std::deque<std::pair<double, std::uint32_t>> proposals, targets;
    double now = 0.0, last_shrunk = -1e9;
    for (int tick = 0; tick < 300; ++tick) {
      now += 5.0;
      signals::PoolObservation pool = pool_of(target, random.below(12) == 0 ? with_kv(0.8) : engine(0));
      pool.min_replicas = static_cast<std::uint32_t>(1 + random.below(2));
      pool.max_replicas = static_cast<std::uint32_t>(20 + random.below(20));
      const bool stale = random.below(15) == 0, starting = random.below(15) == 0;
      for (auto& replica : pool.replicas) replica.sample->sampled_at = at_s(now - (stale ? 60.0 : 0.0));
      pool.starting = starting ? 1 : 0;
      PoolDecision proposal;
      const std::uint64_t mood = (seed + static_cast<std::uint64_t>(tick) / 90) % 3;
      proposal.target = static_cast<std::uint32_t>(mood == 0 ? random.below(4) : mood == 1 ? random.below(60) : target);
      proposals.emplace_back(now, proposal.target);
      while (proposals.front().first <= now - 300.0) proposals.pop_front();
      targets.emplace_back(now, target);
      while (targets.front().first <= now - 60.0) targets.pop_front();

      const PoolDecision decision = guardrails.apply(at_s(now), pool, proposal);
      ASSERT_EQ(decision.current, target);
      ASSERT_GE(decision.target, pool.min_replicas);
      ASSERT_LE(decision.target, pool.max_replicas);
      if (decision.target != proposal.target) {
        ASSERT_NE(decision.limited_by, Limit::kNone);
      }
      if (decision.target > target && target >= pool.min_replicas) {
        ++grown;
        std::uint32_t least = target;
        for (const auto& entry : targets) least = std::min(least, entry.second);
        ASSERT_LE(decision.target, std::max(3 * least, least + 4));
      }
      if (decision.target < target && target <= pool.max_replicas) {
        ++shrunk;
        ASSERT_FALSE(stale || starting || pool.replicas[0].sample->kv_usage().value() > 0.75);
        ASSERT_GE(now - last_shrunk, 60.0);
        for (const auto& entry : proposals) ASSERT_GE(decision.target, std::min(entry.second, target));
        last_shrunk = now;
      }
      target = decision.target;
    }
  }
  EXPECT_GT(grown, 1000U);
  EXPECT_GT(shrunk, 300U);
}

}  // namespace
}  // namespace penstock::planner
