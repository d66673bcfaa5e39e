// Engines have 1000 KV tokens, and the model takes prompts of 1000 tokens: a load of 0.7 is 700 tokens in either.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using signals::Role;
using testing::Asker;
using testing::bounded;
using testing::EngineSample;
using testing::pool_of;
using testing::with_starting;
using testing::without_samples_of_last;

Asker dynamo(std::string_view target) {
  PolicyContext context;
  context.context_length = 1000;
  return Asker("dynamo-" + std::string{target}, context);
}
EngineSample load(std::uint64_t scheduled_kv, std::uint64_t queued_kv = 0, std::uint64_t queued_prefill = 0) {
  EngineSample sample = testing::engine(0);
  sample.scheduled_kv_tokens = scheduled_kv;
  sample.queued_kv_tokens = queued_kv;
  sample.queued_prefill_tokens = queued_prefill;
  return sample;
}
EngineSample queue(std::uint64_t prefill_tokens) { return load(0, 0, prefill_tokens); }

TEST(DynamoLoad, RunsEveryFiveSeconds) {
  EXPECT_EQ(dynamo("throughput").policy().interval(), std::chrono::seconds{5});
  EXPECT_EQ(dynamo("latency").policy().interval(), std::chrono::seconds{5});
}

// ---- KV use of decode and aggregated engines ----

struct KvCase {
  std::string_view target;
  std::vector<std::uint64_t> loads;
  std::uint32_t replicas;
  Reason reason;
};
TEST(DynamoLoad, OneHotEngineAddsOneAndOnlyAllIdleEnginesRemoveOne) {
  const KvCase cases[] = {
      {"throughput", {1001, 0}, 3, Reason::kLoadAboveTarget},     // any above 100 %
      {"throughput", {1000, 0}, 2, Reason::kWithinTolerance},     // 100 % is not above
      {"throughput", {5000, 5000}, 3, Reason::kLoadAboveTarget},  // one a step, however hot
      {"throughput", {499, 499}, 1, Reason::kLoadBelowTarget},    // all below 60 %, and one of 998 is not full
      {"throughput", {500, 0}, 2, Reason::kWithinTolerance},      // one of 1000 would be full
      {"throughput", {600, 0}, 2, Reason::kWithinTolerance},
      {"latency", {401, 0}, 3, Reason::kLoadAboveTarget},  // any above 40 %
      {"latency", {400, 0}, 2, Reason::kWithinTolerance},
      {"latency", {99, 99}, 1, Reason::kLoadBelowTarget},  // all below 10 %
      {"latency", {100, 0}, 2, Reason::kWithinTolerance},
      {"load", {800, 0}, 3, Reason::kLoadAboveTarget},  // 80 % and 40 % count
      {"load", {799, 0}, 2, Reason::kWithinTolerance},
      {"load", {399, 400}, 2, Reason::kWithinTolerance},  // one of 800 would be hot
      {"load", {399, 399}, 1, Reason::kLoadBelowTarget},
  };
  for (const Role role : {Role::kAggregated, Role::kDecode}) {
    for (const KvCase& row : cases) {
      SCOPED_TRACE(row.target);
      const PoolDecision decision = dynamo(row.target).ask(0, pool_of({load(row.loads[0]), load(row.loads[1])}, role));
      EXPECT_EQ(decision.target, row.replicas) << sentence(decision);
      EXPECT_STREQ(to_string(decision.reason), to_string(row.reason));
    }
  }
}
TEST(DynamoLoad, ScheduledAndQueuedSequencesCountAlike) {
  EXPECT_DECISION(dynamo("throughput").ask(0, pool_of({load(600, 401), load(0)})), 3, kLoadAboveTarget, kNone);
}
TEST(DynamoLoad, QueuedPromptsCountInAggregatedPoolsOnly) {
  const std::vector<EngineSample> samples{load(600, 0, 401), load(600)};
  EXPECT_DECISION(dynamo("throughput").ask(0, pool_of(samples)), 3, kLoadAboveTarget, kNone);
  EXPECT_DECISION(dynamo("throughput").ask(0, pool_of(samples, Role::kDecode)), 2, kWithinTolerance, kNone);
}
TEST(DynamoLoad, HoldsWithoutAKvCapacityToCompareWith) {
  EngineSample sample = load(5000);
  sample.kv_capacity_tokens = 0;
  EXPECT_DECISION(dynamo("throughput").ask(0, pool_of(2, sample)), 2, kNoData, kNone);
}

// ---- the queue of prefill engines ----

TEST(DynamoLoad, PrefillThroughputComparesTheQueueWithOnePromptOfTheGreatestLength) {
  const auto ask = [](std::uint64_t first, std::uint64_t second) {
    return dynamo("throughput").ask(0, pool_of({queue(first), queue(second)}, Role::kPrefill));
  };
  EXPECT_DECISION(ask(1000, 0), 3, kLoadAboveTarget, kNone);  // reached
  EXPECT_DECISION(ask(999, 0), 2, kWithinTolerance, kNone);
  EXPECT_DECISION(ask(100, 0), 2, kWithinTolerance, kNone);
  EXPECT_DECISION(ask(99, 99), 1, kLoadBelowTarget, kNone);
}
TEST(DynamoLoad, PrefillLatencyAddsAtATenthAndRemovesAtAnEmptyQueue) {
  const auto ask = [](std::uint64_t first, std::uint64_t second) {
    return dynamo("latency").ask(0, pool_of({queue(first), queue(second)}, Role::kPrefill));
  };
  EXPECT_DECISION(ask(100, 0), 3, kLoadAboveTarget, kNone);
  EXPECT_DECISION(ask(99, 0), 2, kWithinTolerance, kNone);
  EXPECT_DECISION(ask(0, 0), 1, kLoadBelowTarget, kNone);
}
TEST(DynamoLoad, PrefillLoadCountsQueuedTokens) {
  const auto ask = [](std::uint64_t first, std::uint64_t second) {
    return dynamo("load").ask(0, pool_of({queue(first), queue(second)}, Role::kPrefill));
  };
  EXPECT_DECISION(ask(8192, 0), 3, kLoadAboveTarget, kNone);
  EXPECT_DECISION(ask(8191, 0), 2, kWithinTolerance, kNone);
  EXPECT_DECISION(ask(513, 0), 2, kWithinTolerance, kNone);
  EXPECT_DECISION(ask(512, 512), 1, kLoadBelowTarget, kNone);
}
// Three replicas at 0.59 of the cache are idle by the threshold, and two of them would have 0.885.
TEST(DynamoLoad, AReplicaStaysIfTheOthersCouldNotTakeItsLoad) {
  EXPECT_DECISION(dynamo("throughput").ask(0, pool_of(3, load(590))), 2, kLoadBelowTarget, kNone);
  EXPECT_DECISION(dynamo("throughput").ask(0, pool_of(2, load(590))), 2, kWithinTolerance, kNone);
}
TEST(DynamoLoad, PrefillPoolsIgnoreTheirCaches) {
  EXPECT_DECISION(dynamo("throughput").ask(0, pool_of(2, load(5000, 0, 500), Role::kPrefill)), 2, kWithinTolerance,
                  kNone);
}

// ---- when it only observes ----

TEST(DynamoLoad, OnlyObservesWhileReplicasStart) {
  EXPECT_DECISION(dynamo("throughput").ask(0, with_starting(pool_of(2, load(5000)), 1)), 3, kScalingInProgress, kNone);
  EXPECT_DECISION(dynamo("throughput").ask(0, with_starting(pool_of(2, load(0)), 1)), 3, kScalingInProgress, kNone);
}
TEST(DynamoLoad, HoldsUntilEveryEngineReports) {
  for (const std::uint64_t tokens : {0U, 5000U}) {
    const auto pool = pool_of(3, load(tokens));
    EXPECT_DECISION(dynamo("throughput").ask(0, without_samples_of_last(pool, 1)), 3, kInsufficientData, kNone);
    EXPECT_DECISION(dynamo("throughput").ask(0, without_samples_of_last(pool, 3)), 3, kNoData, kNone);
  }
}
TEST(DynamoLoad, TheLastMessageOfAnEngineCountsHoweverOldItIs) {
  EXPECT_DECISION(dynamo("throughput").ask(9000, pool_of(2, load(5000)), 8000), 3, kLoadAboveTarget, kNone);
}
TEST(DynamoLoad, PrefillAndDecodeWaitForEachOther) {
  const auto decision = dynamo("throughput")
                            .ask_all(0, {pool_of(2, queue(5000), Role::kPrefill),
                                         with_starting(pool_of(2, load(500), Role::kDecode), 1)});
  EXPECT_DECISION(decision.pools[0], 2, kScalingInProgress, kNone);
  EXPECT_DECISION(decision.pools[1], 3, kScalingInProgress, kNone);
}
TEST(DynamoLoad, AnEngineWithoutTelemetryHoldsBothPools) {
  const auto decision = dynamo("throughput")
                            .ask_all(0, {pool_of(2, queue(5000), Role::kPrefill),
                                         without_samples_of_last(pool_of(2, load(5000), Role::kDecode), 1)});
  EXPECT_DECISION(decision.pools[0], 2, kInsufficientData, kNone);
  EXPECT_DECISION(decision.pools[1], 2, kInsufficientData, kNone);
}
TEST(DynamoLoad, APoolWithoutTelemetryDoesNotHoldTheOther) {
  const auto decision = dynamo("throughput")
                            .ask_all(0, {pool_of(2, queue(5000), Role::kPrefill),
                                         without_samples_of_last(pool_of(2, load(0), Role::kDecode), 2)});
  EXPECT_DECISION(decision.pools[0], 3, kLoadAboveTarget, kNone);
  EXPECT_DECISION(decision.pools[1], 2, kNoData, kNone);
}
TEST(DynamoLoad, AggregatedPoolsDoNotWaitForEachOther) {
  const auto decision =
      dynamo("throughput").ask_all(0, {with_starting(pool_of(2, load(500)), 1), pool_of(2, load(5000))});
  EXPECT_DECISION(decision.pools[0], 3, kScalingInProgress, kNone);
  EXPECT_DECISION(decision.pools[1], 3, kLoadAboveTarget, kNone);
}

// ---- bounds ----

TEST(DynamoLoad, NeverRemovesTheLastReplica) {
  EXPECT_DECISION(dynamo("latency").ask(0, bounded(pool_of(1, load(0)), 0, 9)), 1, kWithinTolerance, kNone);
}
TEST(DynamoLoad, StaysWithinItsBounds) {
  EXPECT_DECISION(dynamo("latency").ask(0, bounded(pool_of(2, load(5000)), 1, 2)), 2, kLoadAboveTarget, kMaxReplicas);
  EXPECT_DECISION(dynamo("latency").ask(0, bounded(pool_of(2, load(0)), 2, 9)), 2, kLoadBelowTarget, kMinReplicas);
}

}  // namespace
}  // namespace penstock::planner
