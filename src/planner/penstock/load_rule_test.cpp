#include "planner/penstock/load_rule.h"

#include <gtest/gtest.h>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::engine;
using testing::pool_of;
using testing::with_kv;
using testing::with_starting;

signals::EngineSample queueing(std::uint64_t prompt_tokens, std::uint64_t capacity) {
  signals::EngineSample sample;
  sample.queued_prefill_tokens = prompt_tokens;
  sample.kv_capacity_tokens = capacity;
  return sample;
}

PoolDecision by_throughput(const signals::PoolObservation& pool) { return by_load(pool, throughput_rule()); }

TEST(LoadRule, GrowsWithTheCacheInUse) {
  const PoolDecision decision = by_throughput(pool_of(10, with_kv(0.9)));  // ⌈10 · 0.9 / 0.72⌉ = ⌈12.5⌉
  EXPECT_DECISION(decision, 13, kLoadAboveTarget, kNone);
  EXPECT_EQ(decision.current, 10U);
  EXPECT_NE(sentence(decision).find("kv_use 0.9"), std::string::npos) << sentence(decision);
}

TEST(LoadRule, CountsWhatWaitsForTheCache) {
  signals::EngineSample sample = with_kv(0.5);
  sample.queued_kv_tokens = 220;
  sample.queued_prefill_tokens = 180;  // 0.9 together
  EXPECT_DECISION(by_throughput(pool_of(10, sample)), 13, kLoadAboveTarget, kNone);
}

TEST(LoadRule, GrowsWithTheQueue) {
  // 16384 prompt tokens a replica are twice the target.
  EXPECT_DECISION(by_throughput(pool_of(4, queueing(16384, 1'000'000))), 8, kLoadAboveTarget, kNone);
}

// Admission at a gateway keeps the queues of the engines empty.
TEST(LoadRule, GrowsWithWhatWaitsInFrontOfThePool) {
  signals::PoolObservation pool = pool_of(4, queueing(0, 100'000));
  pool.last_minute.arrivals = 10;
  pool.last_minute.input_tokens = 10'000;
  pool.unrouted_requests = 30;  // 7.5 a replica, where 5 are the target.
  const PoolDecision decision = by_throughput(pool);
  EXPECT_DECISION(decision, 6, kLoadAboveTarget, kNone);
  EXPECT_NE(sentence(decision).find("kv_use 0.075"), std::string::npos) << sentence(decision);
  pool.last_minute.input_tokens = 130'000;  // 13,000 tokens each: 97,500 a replica of 100,000, and 12 times the queue.
  EXPECT_DECISION(by_throughput(pool), 12, kLoadAboveTarget, kNone);
  pool.unrouted_requests = 0;
  EXPECT_DECISION(by_throughput(pool), 1, kLoadBelowTarget, kNone);
}

TEST(LoadRule, GrowsWithWaitingRequestsOfAnEngineOfAnyMake) {
  signals::EngineSample vllm;  // Reports its queue and its KV usage only.
  vllm.queued_requests = 40;
  vllm.kv_share = 0.2;
  // 40 requests a replica are eight times the target; growth is limited to three times.
  EXPECT_DECISION(by_throughput(pool_of(2, vllm)), 6, kLoadAboveTarget, kNone);
  vllm.kv_share.reset();
  const PoolDecision blind = by_throughput(pool_of(2, vllm));
  EXPECT_DECISION(blind, 6, kLoadAboveTarget, kNone);
  EXPECT_NE(sentence(blind).find("without_kv_usage 2"), std::string::npos) << sentence(blind);
  vllm.queued_requests = 7;
  EXPECT_DECISION(by_throughput(pool_of(5, vllm)), 7, kLoadAboveTarget, kNone);  // 7 / 5 of 5
}

TEST(LoadRule, WaitingPromptsOfUnknownLengthHaveTheMeanLength) {
  signals::EngineSample vllm;
  vllm.queued_requests = 2;
  vllm.kv_share = 0.2;
  // 2 prompts of 8192 tokens are twice the target.
  EXPECT_DECISION(by_throughput(testing::with_shape(pool_of(4, vllm), 8192, 100)), 8, kLoadAboveTarget, kNone);
}

TEST(LoadRule, UnknownKvUsageIsNotLow) {
  signals::EngineSample unknown;
  unknown.queued_requests = 1;
  EXPECT_DECISION(by_throughput(pool_of({with_kv(0.1), unknown, with_kv(0.1)})), 3, kWithinTolerance, kNone);
  unknown.queued_requests = 0;
  unknown.running_requests = 1;
  EXPECT_DECISION(by_throughput(pool_of(3, unknown)), 3, kNoData, kNone);
}

TEST(LoadRule, RunningRequestsStandForUnknownKvUsage) {
  signals::EngineSample llama;
  EXPECT_DECISION(by_throughput(pool_of(3, llama)), 1, kLoadBelowTarget, kNone);  // Nothing runs.
  llama.running_requests = 4;
  // ⌈10 · (4 / 16) / 0.72⌉
  EXPECT_DECISION(by_load(pool_of(10, llama), throughput_rule(), 16), 4, kLoadBelowTarget, kNone);
  llama.queued_requests = 10;
  EXPECT_DECISION(by_load(pool_of(10, llama), throughput_rule(), 16), 20, kLoadAboveTarget, kNone);
}

TEST(LoadRule, IsTheMeanOverReplicas) {
  // (0.9 + 0.54) / 2 is the target itself.
  EXPECT_DECISION(by_throughput(pool_of({with_kv(0.9), with_kv(0.54)})), 2, kWithinTolerance, kNone);
}

TEST(LoadRule, ShrinksWithTheLoad) {
  EXPECT_DECISION(by_throughput(pool_of(10, with_kv(0.36))), 5, kLoadBelowTarget, kNone);
  EXPECT_DECISION(by_throughput(pool_of(10, engine(0))), 1, kLoadBelowTarget, kNone);
}

TEST(LoadRule, ChangesNothingNearTheTarget) {
  EXPECT_DECISION(by_throughput(pool_of(10, with_kv(0.79))), 10, kWithinTolerance, kNone);
  EXPECT_DECISION(by_throughput(pool_of(10, with_kv(0.65))), 10, kWithinTolerance, kNone);
  EXPECT_DECISION(by_throughput(pool_of(10, with_kv(0.80))), 12, kLoadAboveTarget, kNone);
  EXPECT_DECISION(by_throughput(pool_of(10, with_kv(0.64))), 9, kLoadBelowTarget, kNone);
}

TEST(LoadRule, GrowsThreeTimesAtOnceAtMost) {
  EXPECT_DECISION(by_throughput(pool_of(4, queueing(1'000'000, 100'000'000))), 12, kLoadAboveTarget, kNone);
}

TEST(LoadRule, HoldsWithoutData) {
  EXPECT_DECISION(by_throughput(testing::without_samples_of_last(pool_of(3, with_kv(0.9)), 3)), 3, kNoData, kNone);
  EXPECT_DECISION(by_throughput(pool_of(0, with_kv(0.9))), 0, kNoData, kNone);
}

TEST(LoadRule, LooksAtReadyReplicasOnly) {
  signals::PoolObservation pool = pool_of({with_kv(0.9), with_kv(0.9), with_kv(0.0)});
  pool.replicas[2].state = signals::ReplicaState::kDraining;
  pool.target_replicas = 2;
  EXPECT_DECISION(by_throughput(pool), 3, kLoadAboveTarget, kNone);  // ⌈2 · 1.25⌉
}

TEST(LoadRule, StartingReplicasAreNotRequestedTwice) {
  // 4 at 0.9 need 5, and 2 more start: 6 stay.
  EXPECT_DECISION(by_throughput(with_starting(pool_of(4, with_kv(0.9)), 2)), 6, kLoadAboveTarget, kNone);
  // 4 at twice the target need 8, of which 2 start.
  EXPECT_DECISION(by_throughput(with_starting(pool_of(4, queueing(16384, 1'000'000)), 2)), 8, kLoadAboveTarget, kNone);
  // What has no work yet may be given up before it is ready.
  EXPECT_DECISION(by_throughput(with_starting(pool_of(4, with_kv(0.36)), 2)), 2, kLoadBelowTarget, kNone);
}

signals::EngineSample with_bandwidth(double kv_usage, double bandwidth) {
  signals::EngineSample sample = with_kv(kv_usage);
  sample.gpu_memory_bandwidth = bandwidth;
  return sample;
}

TEST(LoadRule, MemoryBandwidthRaisesWhatIsNearItsTarget) {
  // 0.72 of the KV cache is the target; ⌈10 · 0.952 / 0.85⌉
  const PoolDecision decision = by_throughput(pool_of(10, with_bandwidth(0.72, 0.952)));
  EXPECT_DECISION(decision, 12, kLoadAboveTarget, kNone);
  EXPECT_NE(sentence(decision).find("memory_bandwidth 0.952"), std::string::npos) << sentence(decision);
  EXPECT_DECISION(by_throughput(pool_of(10, with_bandwidth(0.72, 0.85))), 10, kWithinTolerance, kNone);
  EXPECT_DECISION(by_throughput(pool_of(10, with_bandwidth(0.9, 0.952))), 13, kLoadAboveTarget, kNone);
}

TEST(LoadRule, MemoryBandwidthAloneIsNoLoad) {
  EXPECT_DECISION(by_throughput(pool_of(10, with_bandwidth(0.36, 1.0))), 5, kLoadBelowTarget, kNone);
}

TEST(LoadRule, MemoryBandwidthIsTheMeanOfTheReplicasThatHaveIt) {
  // (0.952 + 0.748) / 2 is the target itself.
  EXPECT_DECISION(by_throughput(pool_of({with_bandwidth(0.72, 0.952), with_kv(0.72), with_bandwidth(0.72, 0.748)})), 3,
                  kWithinTolerance, kNone);
}

TEST(LoadRule, TheLatencyRuleProposesMoreForTheSameLoad) {
  EXPECT_DECISION(by_load(pool_of(10, with_kv(0.6)), latency_rule()), 15, kLoadAboveTarget, kNone);
  EXPECT_DECISION(by_load(pool_of(4, queueing(2048, 1'000'000)), latency_rule()), 8, kLoadAboveTarget, kNone);
}

}  // namespace
}  // namespace penstock::planner
