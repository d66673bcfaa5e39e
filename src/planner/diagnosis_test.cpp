#include "planner/diagnosis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/random.h"
#include "planner/diagnosis_testing.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using namespace diagnosis_testing;  // NOLINT(google-build-using-namespace)

double evidence(const Finding& finding, std::string_view name) {
  for (const Evidence& each : finding.evidence)
    if (name == each.name) return each.value;
  ADD_FAILURE() << "no " << name << " in: " << sentence(finding);
  return 0.0;
}

// EXPECT_FINDING(diagnosis, kTtft, kQueue, kQueue): one finding, its symptom, phase and cause.
#define EXPECT_FINDING(diagnosis, symptom_is, phase_is, cause_is)                                            \
  do {                                                                                                       \
    const Diagnosis& diagnosed = (diagnosis);                                                                \
    ASSERT_EQ(diagnosed.findings.size(), 1U) << sentence(diagnosed);                                         \
    EXPECT_STREQ(to_string(diagnosed.symptom), to_string(Symptom::symptom_is)) << sentence(diagnosed);       \
    EXPECT_STREQ(to_string(diagnosed.findings[0].phase), to_string(Phase::phase_is)) << sentence(diagnosed); \
    EXPECT_STREQ(to_string(diagnosed.cause()), to_string(Cause::cause_is)) << sentence(diagnosed);           \
  } while (false)

TEST(Diagnosis, NothingIsWrongWhileTheSloIsKept) {
  const Diagnosis diagnosis = Watched{}.at(60, {healthy()});
  EXPECT_EQ(diagnosis.symptom, Symptom::kNone);
  EXPECT_EQ(diagnosis.cause(), Cause::kNone);
  EXPECT_EQ(sentence(diagnosis), "latency meets the SLO");
}

TEST(Diagnosis, NothingIsWrongWithoutTraffic) {
  PoolObservation pool = testing::pool_of(1, EngineSample{});
  EXPECT_EQ(Watched{}.at(60, {pool}).symptom, Symptom::kNone);
}

TEST(Diagnosis, WaitingBehindOtherRequestsIsAQueue) {
  Watched watched;
  const Diagnosis diagnosis = watched.at(60, {queued(late(&signals::FirstTokenWindow::queue), 6)});
  EXPECT_FINDING(diagnosis, kTtft, kQueue, kQueue);
  const Finding& finding = diagnosis.findings[0];
  EXPECT_EQ(finding.segment, "all");
  EXPECT_EQ(evidence(finding, "queued_per_replica"), 6.0);
  EXPECT_EQ(evidence(finding, "share_of_slow_ttft"), 0.95);
  EXPECT_EQ(finding.severity, 2.5);
  EXPECT_EQ(sentence(diagnosis),
            "TTFT is bad in pool web, in the engine queue: too many requests per replica (ttft_p95 5000 ms, ttft_limit "
            "2000 ms, "
            "share_of_slow_ttft 0.95 share, phase_p95 4700 ms, queued_per_replica 6 requests, running_per_replica 8 "
            "requests, ready 2 replicas); the planner adds replicas to this pool until simulations of the traffic meet "
            "the SLO");
}

TEST(Diagnosis, LongPromptsArePrefill) {
  const Diagnosis diagnosis = Watched{}.at(60, {late(&signals::FirstTokenWindow::prefill)});
  EXPECT_FINDING(diagnosis, kTtft, kPrefill, kPrefill);
  EXPECT_EQ(evidence(diagnosis.findings[0], "prompt_mean"), 400.0);
}

TEST(Diagnosis, ACacheThatUsedToHitIsRoutingOrCache) {
  Watched watched;
  PoolObservation pool = healthy();
  for (int i = 0; i < 30; ++i) {
    pool = grown(pool, 10'000, 6'000, 2000);
    EXPECT_EQ(watched.at(10 * i, {pool}).symptom, Symptom::kNone);
  }
  Diagnosis diagnosis;
  for (int i = 30; i < 36; ++i) {
    pool = grown(late(&signals::FirstTokenWindow::prefill, pool), 10'000, 1'000, 2000);
    diagnosis = watched.at(10 * i, {pool});
  }
  EXPECT_FINDING(diagnosis, kTtft, kPrefill, kRoutingCache);
  EXPECT_NEAR(evidence(diagnosis.findings[0], "hit_share"), 0.1, 0.01);
  EXPECT_NEAR(evidence(diagnosis.findings[0], "hit_share_long_term"), 0.6, 0.01);
}

TEST(Diagnosis, AQueueBesideIdleEnginesIsRouting) {
  PoolObservation pool = late(&signals::FirstTokenWindow::queue);
  pool.replicas[0].sample->queued_requests = 20;
  pool.replicas[1].sample->running_requests = 1;
  EXPECT_FINDING(Watched{}.at(60, {pool}), kTtft, kQueue, kRoutingCache);
}

TEST(Diagnosis, WaitingBeforeAdmissionIsAdmission) {
  EXPECT_FINDING(Watched{}.at(60, {late(&signals::FirstTokenWindow::admission)}), kTtft, kAdmission, kAdmission);
}

TEST(Diagnosis, RequestsThatFullReplicasRefuseAreAQueueEvenIfOthersAreFast) {
  PoolObservation pool = healthy();
  pool.detail->shed = 30;
  const Diagnosis diagnosis = Watched{}.at(60, {pool});
  EXPECT_FINDING(diagnosis, kTtft, kReplicaWait, kQueue);
  EXPECT_NEAR(evidence(diagnosis.findings[0], "shed"), 0.1, 1e-9);
}

TEST(Diagnosis, WaitingAtTheGatewayForAFullFleetIsAQueueAndForAStartingOneAColdStart) {
  EXPECT_FINDING(Watched{}.at(60, {late(&signals::FirstTokenWindow::replica_wait)}), kTtft, kReplicaWait, kQueue);
  const PoolObservation starting = testing::with_starting(late(&signals::FirstTokenWindow::replica_wait), 1);
  EXPECT_FINDING(Watched{}.at(60, {starting}), kTtft, kReplicaWait, kColdStart);
}

// 300 arrivals a minute; engines report how many wait, and not how long.
TEST(Diagnosis, TheQueueLengthTellsWaitingFromPrefill) {
  for (const bool waits : {false, true}) {
    PoolObservation pool = queued(late(&signals::FirstTokenWindow::prefill), waits ? 20 : 0);
    pool.detail->first_tokens.queue_in_prefill = true;
    const Diagnosis diagnosis = Watched{}.at(60, {pool});
    ASSERT_FALSE(diagnosis.findings.empty());
    EXPECT_EQ(diagnosis.cause(), waits ? Cause::kQueue : Cause::kPrefill) << sentence(diagnosis);
  }
}

TEST(Diagnosis, AnswersThatWaitForTheirClientsAreTheClientsCause) {
  PoolObservation pool = healthy();
  pool.last_minute.completed = 100;
  pool.last_minute.slow_clients = 20;
  EXPECT_FINDING(Watched{}.at(60, {pool}), kItl, kDecode, kClient);
  pool.last_minute.slow_clients = 4;
  EXPECT_TRUE(Watched{}.at(60, {pool}).findings.empty());
}

TEST(Diagnosis, WaitingForKvIsTransfer) {
  const Diagnosis diagnosis =
      Watched{}.at(60, {late(&signals::FirstTokenWindow::transfer, healthy(Role::kPrefill)), healthy(Role::kDecode)});
  EXPECT_FINDING(diagnosis, kTtft, kTransfer, kTransfer);
  EXPECT_EQ(diagnosis.findings[0].pool, 0U);
}

TEST(Diagnosis, AQueueWhileReplicasStartIsAColdStart) {
  const Diagnosis diagnosis =
      Watched{}.at(60, {testing::with_starting(queued(late(&signals::FirstTokenWindow::queue), 6), 2)});
  EXPECT_FINDING(diagnosis, kTtft, kQueue, kColdStart);
  EXPECT_EQ(evidence(diagnosis.findings[0], "starting_share"), 0.5);
}

TEST(Diagnosis, WaitingWhereNoReplicaIsReadyIsAColdStartBeforeAnyFirstToken) {
  PoolObservation pool = testing::with_starting(testing::pool_of(0, EngineSample{}), 1);
  pool.unrouted_requests = 7;
  pool.last_minute.arrivals = 7;
  pool.detail = PoolDetail{};
  pool.detail->oldest_unrouted_age = std::chrono::seconds{9};
  const Diagnosis diagnosis = Watched{}.at(60, {pool});
  EXPECT_FINDING(diagnosis, kTtft, kReplicaWait, kColdStart);
  EXPECT_EQ(diagnosis.findings[0].severity, 4.5);
}

TEST(Diagnosis, ManyDecodesInAStepAreADecodeBatch) {
  const Diagnosis diagnosis = Watched{}.at(60, {slow_tokens()});
  EXPECT_FINDING(diagnosis, kItl, kDecode, kDecodeBatch);
  EXPECT_EQ(evidence(diagnosis.findings[0], "running_per_replica"), 8.0);
}

TEST(Diagnosis, ADecodeBatchHasTheUseOfTheMemoryBandwidth) {
  PoolObservation pool = slow_tokens();
  pool.replicas.front().sample->gpu_memory_bandwidth = 0.75;  // The GPUs of the others have no exporter.
  const Diagnosis diagnosis = Watched{}.at(60, {pool});
  EXPECT_FINDING(diagnosis, kItl, kDecode, kDecodeBatch);
  EXPECT_EQ(evidence(diagnosis.findings[0], "memory_bandwidth"), 0.75);
}

TEST(Diagnosis, PromptsBesideDecodesSlowTheTokensOfAll) {
  Watched watched;
  PoolObservation pool = slow_tokens();
  (void)watched.at(50, {pool});
  const Diagnosis diagnosis = watched.at(60, {grown(pool, 100'000, 0, 1000)});
  EXPECT_FINDING(diagnosis, kItl, kDecode, kPrefill);
  EXPECT_EQ(evidence(diagnosis.findings[0], "prefill_tokens_per_step"), 800.0);  // 100 prompt tokens a token, in eights
}

TEST(Diagnosis, AFewLongPromptsSlowTheTokensOfAFew) {
  Watched watched;
  PoolObservation pool = slow_tokens();
  pool.last_minute.itl.p50_ms = 15.0;
  pool.last_minute.arrivals = 6;
  (void)watched.at(0, {pool});
  const Diagnosis diagnosis = watched.at(60, {grown(pool, 6000, 0, 2000)});
  EXPECT_FINDING(diagnosis, kItl, kDecode, kPrefill);
  EXPECT_LT(evidence(diagnosis.findings[0], "prefill_tokens_per_step"), 100.0);
  EXPECT_EQ(evidence(diagnosis.findings[0], "computed_prompt_mean"), 2000.0);
  pool.last_minute.itl.p50_ms = 70.0;  // slow for everybody
  EXPECT_FINDING(Watched{}.at(60, {grown(pool, 6000, 0, 2000)}), kItl, kDecode, kDecodeBatch);
}

TEST(Diagnosis, AFewSequencesWithLongContextsAreADecodeBatch) {
  PoolObservation pool = slow_tokens();
  for (auto& replica : pool.replicas) replica.sample->running_requests = 3;
  EXPECT_FINDING(Watched{}.at(60, {pool}), kItl, kDecode, kDecodeBatch);
}

TEST(Diagnosis, AQueueThatHasNoKvIsKvPressure) {
  EXPECT_FINDING(Watched{}.at(60, {queued(late(&signals::FirstTokenWindow::queue), 6, 930)}), kTtft, kQueue,
                 kKvPressure);
}

TEST(Diagnosis, SequencesThatStartAgainArePreemption) {
  Watched watched;
  PoolObservation pool = queued(slow_tokens(late(&signals::FirstTokenWindow::queue)), 6, 990);
  (void)watched.at(50, {pool});
  const Diagnosis diagnosis = watched.at(60, {grown(pool, 4000, 0, 1000, 5)});
  EXPECT_FINDING(diagnosis, kBoth, kQueue, kPreemption);
  EXPECT_EQ(evidence(diagnosis.findings[0], "preemptions"), 60.0);  // 2 · 5 in ten seconds
  EXPECT_EQ(evidence(diagnosis.findings[0], "itl_p95"), 80.0);
  EXPECT_EQ(evidence(diagnosis.findings[0], "ttft_p95"), 5000.0);
}

TEST(Diagnosis, BothPhasesAreNamedEachWithItsPool) {
  const Diagnosis diagnosis =
      Watched{}.at(60, {queued(late(&signals::FirstTokenWindow::queue, healthy(Role::kPrefill)), 9),
                        slow_tokens(healthy(Role::kDecode))});
  ASSERT_EQ(diagnosis.findings.size(), 2U) << sentence(diagnosis);
  EXPECT_EQ(diagnosis.symptom, Symptom::kBoth);
  EXPECT_EQ(diagnosis.findings[0].cause, Cause::kQueue);  // 2.5 times its limit, the other 1.6
  EXPECT_EQ(diagnosis.findings[0].pool, 0U);
  EXPECT_EQ(diagnosis.findings[1].cause, Cause::kDecodeBatch);
  EXPECT_EQ(diagnosis.findings[1].pool, 1U);
}

TEST(Diagnosis, ADecodePoolWithoutKvDelaysTheSecondToken) {
  const Diagnosis diagnosis =
      Watched{}.at(60, {healthy(Role::kPrefill), queued(slow_tokens(healthy(Role::kDecode)), 3, 960)});
  EXPECT_FINDING(diagnosis, kItl, kQueue, kKvPressure);
  EXPECT_EQ(diagnosis.findings[0].pool, 1U);
}

TEST(Diagnosis, NamesTheSegmentThatDiffersMostFromItsPeers) {
  PoolObservation pool = late(&signals::FirstTokenWindow::prefill);
  pool.detail->segments = {{"prompt tokens", "below 1k", latency(200.0), {}},
                           {"prompt tokens", "16k-64k", latency(6000.0), {}},
                           {"traffic class", "interactive", latency(1900.0), {}},
                           {"traffic class", "batch", latency(2500.0), {}},
                           {"tenant", "acme", latency(9000.0, 5), {}},  // five requests prove nothing
                           {"tenant", "rest", latency(2100.0), {}}};
  const Diagnosis diagnosis = Watched{}.at(60, {pool});
  EXPECT_FINDING(diagnosis, kTtft, kPrefill, kPrefill);
  EXPECT_EQ(diagnosis.findings[0].segment, "prompt tokens 16k-64k");
  EXPECT_EQ(diagnosis.findings[0].severity, 3.0);
}

TEST(Diagnosis, OneSegmentMayBeBadWhileAllTogetherAreFine) {
  PoolObservation pool = late(&signals::FirstTokenWindow::prefill);
  pool.last_minute.ttft = latency(900.0, 2000);
  pool.detail->segments = {{"prompt tokens", "below 1k", latency(200.0, 1960), {}},
                           {"prompt tokens", "64k and more", latency(6000.0, 40), {}}};
  const Diagnosis diagnosis = Watched{}.at(60, {pool});
  EXPECT_FINDING(diagnosis, kTtft, kPrefill, kPrefill);
  EXPECT_EQ(diagnosis.findings[0].segment, "prompt tokens 64k and more");
}

TEST(Diagnosis, AQueueOlderThanTheLimitIsBadBeforeItsFirstToken) {
  PoolObservation pool = queued(healthy(), 9);
  pool.last_minute.ttft = {};
  pool.detail.reset();
  for (auto& replica : pool.replicas) replica.sample->oldest_queued_age = std::chrono::seconds{4};
  const Diagnosis diagnosis = Watched{}.at(60, {pool});
  EXPECT_FINDING(diagnosis, kTtft, kQueue, kQueue);
  EXPECT_EQ(evidence(diagnosis.findings[0], "oldest_waiting"), 4000.0);
}

TEST(Diagnosis, TheAgeOfAPreemptedSequenceDoesNotDelayTheFirstToken) {
  PoolObservation pool = queued(healthy(), 1);
  for (auto& replica : pool.replicas) {
    replica.sample->oldest_queued_age = std::chrono::seconds{40};
    replica.sample->queued_kv_tokens = 300;
  }
  EXPECT_EQ(Watched{}.at(60, {pool}).symptom, Symptom::kNone);
}

// ---- what cannot be told --------------------------------------------------------------------------------------------

TEST(Diagnosis, LatenciesThatAreNotFiniteAreUnknown) {
  for (const double odd : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1.0}) {
    PoolObservation pool = healthy();
    pool.last_minute.ttft.p95_ms = odd;
    const Diagnosis diagnosis = Watched{}.at(60, {pool});
    EXPECT_FINDING(diagnosis, kUnknown, kNone, kUnknown);
    EXPECT_STREQ(diagnosis.findings[0].unknown_because, "the TTFT values are not numbers");
  }
}

TEST(Diagnosis, StaleMissingOrContradictoryEnginesAreUnknown) {
  const PoolObservation sick = queued(slow_tokens(late(&signals::FirstTokenWindow::queue)), 6);
  const auto because = [](const Diagnosis& diagnosis) {
    EXPECT_EQ(diagnosis.symptom, Symptom::kBoth);
    EXPECT_EQ(diagnosis.cause(), Cause::kUnknown) << sentence(diagnosis);
    return std::string{diagnosis.findings.at(0).unknown_because};
  };
  EXPECT_EQ(because(Watched{}.at(60, {sick}, 31.0)), "a ready replica has no recent telemetry");
  EXPECT_EQ(because(Watched{}.at(60, {testing::without_samples_of_last(sick, 1)})),
            "a ready replica has never reported telemetry");
  PoolObservation liar = sick;
  liar.replicas[1].sample->kv_used_tokens = 0;  // while requests run
  EXPECT_EQ(because(Watched{}.at(60, {liar})), "the telemetry of an engine contradicts itself");
}

TEST(Diagnosis, ANewlyReadyReplicaNeedsNoTelemetryYet) {
  PoolObservation pool = testing::without_samples_of_last(slow_tokens(), 1);
  pool.replicas[1].state_since = at_s(58);
  EXPECT_FINDING(Watched{}.at(60, {pool}), kItl, kDecode, kDecodeBatch);
}

TEST(Diagnosis, ALateFirstTokenWithoutItsPartsIsUnknown) {
  PoolObservation pool = late(&signals::FirstTokenWindow::queue);
  pool.detail.reset();
  const Diagnosis diagnosis = Watched{}.at(60, {pool});
  EXPECT_FINDING(diagnosis, kTtft, kNone, kUnknown);
  EXPECT_STREQ(diagnosis.findings[0].unknown_because, "the parts of the TTFT are not measured");
}

TEST(Diagnosis, SlowTokensOfOneRequestAtATimeAreUnknown) {
  PoolObservation pool = slow_tokens();
  for (auto& replica : pool.replicas) replica.sample = testing::engine(0, 1, 20);
  EXPECT_FINDING(Watched{}.at(60, {pool}), kItl, kDecode, kUnknown);
}

TEST(Diagnosis, MissingTelemetryUnderTrafficIsNotHealth) {
  PoolObservation pool = healthy();
  pool.last_minute.ttft = {};
  EXPECT_FINDING(Watched{}.at(60, {pool}, 60.0), kUnknown, kNone, kUnknown);
  EXPECT_EQ(Watched{}.at(60, {pool}).symptom, Symptom::kNone);
}

TEST(Diagnosis, AFewLateRequestsMakeNoPercentile) {
  PoolObservation pool = late(&signals::FirstTokenWindow::queue);
  pool.last_minute.ttft = latency(5000.0, 9);
  EXPECT_EQ(Watched{}.at(60, {pool}).symptom, Symptom::kNone);
}

TEST(Diagnosis, EveryFindingHasACauseWithEvidenceOrAReasonForUnknown) {
  core::RandomStream random{7};
  const auto odd = [&](double most) {
    const double values[] = {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()};
    return random.below(12) == 0 ? values[random.below(4)] : most * random.uniform();
  };
  const auto part = [&] { return TimePart{odd(2000), odd(5000), odd(5000)}; };
  std::size_t named = 0, unknown = 0;
  for (int run = 0; run < 50; ++run) {
    Watched watched;
    for (int i = 0; i < 40; ++i) {
      PoolObservation pool = healthy(static_cast<Role>(random.below(3)));
      pool.last_minute.arrivals = random.below(3) * 100;
      pool.last_minute.ttft = {random.below(40), odd(4000), odd(4000), odd(4000), odd(4000), odd(4000)};
      pool.last_minute.itl = {random.below(40), odd(100), odd(100), odd(100), odd(100), odd(100)};
      pool.detail->first_tokens = {40, random.below(20), part(), part(), part(), part(), part()};
      pool.detail->shed = random.below(20) == 0 ? 50 : 0;
      for (auto& replica : pool.replicas) {
        replica.sample = testing::engine(static_cast<std::uint32_t>(random.below(9)),
                                         static_cast<std::uint32_t>(random.below(20)), random.below(1100));
        replica.sample->prompt_tokens_total = random.below(100'000);
        replica.sample->prefix_hit_tokens_total = random.below(50'000);
        if (random.below(20) == 0) replica.sample.reset();
      }
      for (const Finding& finding : watched.at(5 * i, {pool}, odd(20) > 19.0 ? 40.0 : 0.0).findings) {
        const bool known = finding.cause != Cause::kUnknown;
        EXPECT_EQ(known, std::string_view{finding.unknown_because}.empty()) << sentence(finding);
        EXPECT_NE(finding.cause, Cause::kNone);
        EXPECT_GE(finding.evidence.size(), known ? 2U : 0U) << sentence(finding);
        for (const Evidence& each : finding.evidence) EXPECT_TRUE(std::isfinite(each.value)) << sentence(finding);
        (known ? named : unknown) += 1;
      }
    }
  }
  EXPECT_GT(named, 100U);
  EXPECT_GT(unknown, 100U);
}

TEST(Diagnosis, EveryCauseHasANameAndAdvice) {
  for (std::uint8_t i = 0; i <= static_cast<std::uint8_t>(Cause::kPreemption); ++i) {
    const auto cause = static_cast<Cause>(i);
    EXPECT_STRNE(advice(cause), "");
    EXPECT_EQ(std::string_view{to_string(cause)} == "unknown", cause == Cause::kUnknown);
  }
}

// ---- what it remembers ----------------------------------------------------------------------------------------------

TEST(PoolHistory, RestartedOrNewReplicasCauseNoJump) {
  PoolHistory history;
  const auto add = [&](double seconds, PoolObservation pool) {
    for (auto& replica : pool.replicas) replica.sample->sampled_at = at_s(seconds);
    history.add(at_s(seconds), pool, std::chrono::seconds{30});
  };
  add(100, testing::pool_of(1, busy(900'000)));
  EXPECT_EQ(history.last_minute().prompt_tokens, 0U);  // The minute before does not count.
  add(110, testing::pool_of(1, busy(901'000)));
  EXPECT_EQ(history.last_minute().prompt_tokens, 1000U);
  add(120, testing::pool_of(1, busy(300)));  // began again
  EXPECT_EQ(history.last_minute().prompt_tokens, 1300U);
  PoolObservation more = testing::pool_of(2, busy(300));
  more.replicas[1].state_since = at_s(121);
  add(130, more);  // all that the new one did is of this minute
  EXPECT_EQ(history.last_minute().prompt_tokens, 1600U);
  EXPECT_EQ(history.last_minute().length, std::chrono::seconds{30});
}

TEST(PoolHistory, HitsThatAreCountedBeforeTheirPromptComputeNoTokens) {
  PoolHistory history;
  const auto add = [&](double seconds, std::uint64_t prompts, std::uint64_t hits) {
    PoolObservation pool = testing::pool_of(1, busy(prompts, hits));
    pool.replicas[0].sample->sampled_at = at_s(seconds);
    history.add(at_s(seconds), pool, std::chrono::seconds{30});
  };
  add(100, 900'000, 700'000);
  add(110, 901'000, 790'000);  // A prompt of 100,000 tokens has begun.
  EXPECT_EQ(history.last_minute().prefill_tokens_per_step(), 0.0);
  EXPECT_EQ(history.last_minute().hit_share(), 1.0);
}

TEST(PoolHistory, TheLastMinuteMovesIntoTheLongTerm) {
  PoolHistory history;
  std::uint64_t prompts = 0;
  for (int i = 0; i <= 20; ++i, prompts += 1000) {
    PoolObservation pool = testing::pool_of(1, busy(prompts, prompts / 2));
    pool.replicas[0].sample->sampled_at = at_s(10 * i);
    history.add(at_s(10 * i), pool, std::chrono::seconds{30});
  }
  EXPECT_EQ(history.last_minute().prompt_tokens, 6000U);
  EXPECT_NEAR(history.long_term_hit_share(), 0.5, 1e-9);
  EXPECT_GT(history.long_term_prompt_tokens(), 12'000.0);  // 14,000, decayed
  EXPECT_LT(history.long_term_prompt_tokens(), 14'000.0);
}

}  // namespace
}  // namespace penstock::planner
