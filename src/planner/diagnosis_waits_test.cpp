// Waits outside the engine that computes: in front of the replicas, and between prefill and decode.
#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <utility>

#include "planner/diagnosis_testing.h"

namespace penstock::planner {
namespace {

using namespace diagnosis_testing;  // NOLINT(google-build-using-namespace)

// ---- in front of the replicas ---------------------------------------------------------------------------------------

PoolObservation unrouted(PoolObservation pool) {
  pool = late(&signals::FirstTokenWindow::replica_wait, std::move(pool));
  pool.unrouted_requests = 4;
  pool.detail->oldest_unrouted_age = std::chrono::seconds{3};
  return pool;
}

TEST(Diagnosis, AGatewayThatHoldsRequestsBackForKvIsKvPressure) {
  for (const auto& [kv_used, cause] :
       {std::pair{500U, Cause::kQueue}, std::pair{870U, Cause::kKvPressure}, std::pair{700U, Cause::kKvPressure}}) {
    Watched watched;
    PoolObservation pool = unrouted(healthy(Role::kAggregated, testing::engine(0, 8, kv_used)));
    const Diagnosis diagnosis = watched.at(100, {pool});
    ASSERT_EQ(diagnosis.findings.size(), 1U) << sentence(diagnosis);
    EXPECT_STREQ(to_string(diagnosis.cause()), to_string(cause)) << kv_used << ": " << sentence(diagnosis);
    EXPECT_EQ(diagnosis.findings[0].phase, Phase::kReplicaWait);
  }
}

TEST(Diagnosis, AGatewayThatHoldsRequestsBackForPreemptingEnginesIsPreemption) {
  Watched watched;
  const PoolObservation pool = unrouted(healthy());
  (void)watched.at(100, {pool});
  const Diagnosis diagnosis = watched.at(110, {grown(pool, 1000, 0, 1000, 5)});
  EXPECT_STREQ(to_string(diagnosis.cause()), "preemption") << sentence(diagnosis);
}

// ---- between prefill and decode -------------------------------------------------------------------------------------

PoolObservation decode_pool(std::uint32_t queued_requests, std::optional<std::uint32_t> deferred) {
  EngineSample sample = busy(1000);
  sample.queued_requests = queued_requests;
  sample.deferred_requests = deferred;
  return healthy(Role::kDecode, sample);
}

TEST(Diagnosis, AWaitAfterThePrefillIsTheQueueOfTheDecodePoolOrTheTransfer) {
  // A mean of 2 s between prefill and first token, at 5 requests/s: 8 queued requests are 1.6 s of them.
  const PoolObservation prefill = late(&signals::FirstTokenWindow::transfer, healthy(Role::kPrefill));
  const std::tuple<std::uint32_t, std::optional<std::uint32_t>, Cause, Phase> table[] = {
      {0, {}, Cause::kTransfer, Phase::kTransfer},
      {4, {}, Cause::kQueue, Phase::kQueue},
      {4, 0, Cause::kQueue, Phase::kQueue},
      {4, 4, Cause::kTransfer, Phase::kTransfer},  // They wait for their KV, not for room.
  };
  for (const auto& [queued, deferred, cause, phase] : table) {
    SCOPED_TRACE(queued);
    Watched watched;
    PoolObservation first = prefill;
    first.name = "prefill";
    const Diagnosis diagnosis = watched.at(100, {first, decode_pool(queued, deferred)});
    ASSERT_FALSE(diagnosis.findings.empty());
    EXPECT_STREQ(to_string(diagnosis.cause()), to_string(cause)) << sentence(diagnosis);
    EXPECT_STREQ(to_string(diagnosis.findings[0].phase), to_string(phase));
    EXPECT_EQ(diagnosis.findings[0].pool_name, cause == Cause::kQueue ? "decode" : "prefill");
  }
}

TEST(Diagnosis, RequestsThatWaitForTheirKvMakeSlowTokensATransfer) {
  Watched watched;
  const Diagnosis diagnosis = watched.at(100, {slow_tokens(decode_pool(4, 4))});
  EXPECT_STREQ(to_string(diagnosis.cause()), "transfer") << sentence(diagnosis);
  Watched other;
  const Diagnosis queue = other.at(100, {slow_tokens(decode_pool(4, 0))});
  EXPECT_STREQ(to_string(queue.cause()), "queue") << sentence(queue);
}

}  // namespace
}  // namespace penstock::planner
