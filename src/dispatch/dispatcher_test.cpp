#include "dispatch/dispatcher.h"

#include <gtest/gtest.h>

#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;

using namespace std::chrono_literals;
constexpr core::Instant kNow = core::kStart + 100s;
constexpr core::Duration kUnixTime = std::chrono::hours{24 * 365 * 50};

class DispatcherTest : public ::testing::Test {
 protected:
  void open(DispatchOptions made = options_for_tests()) {
    options = std::move(made);
    dispatcher =
        std::make_unique<Dispatcher>(options, std::make_unique<TestSink>(opened, closed), kNow - 10s, kUnixTime);
  }
  ArrivalResult arrive(const RequestInfo& info, core::Instant now = kNow) {
    RequestInfo timed = info;
    timed.received_at = now;
    return dispatcher->arrive(timed, listener, now);
  }
  static RequestOutcome completed(std::uint32_t prompt, std::uint32_t cached, std::uint32_t output,
                                  core::Instant last) {
    RequestOutcome ending;
    ending.usage = TokenUsage{prompt, output, cached};
    ending.output.events = output;
    ending.last_token_at = last;
    return ending;
  }

  [[nodiscard]] std::string id_of(const Grant& grant) const {
    for (const ReplicaStatus& status : dispatcher->replicas(kNow))
      if (status.slot == grant.slot) return status.spec.id;
    return {};
  }
  void TearDown() override {
    if (dispatcher) {
      EXPECT_EQ(dispatcher->invariant_violation(kNow + 1h), "");
    }
  }

  DispatchOptions options;
  std::vector<ledger::Entry> opened, closed;
  TestListener listener;
  std::unique_ptr<Dispatcher> dispatcher;
};

TEST_F(DispatcherTest, RefusesAnUnknownModel) {
  open();
  RequestInfo info = info_of(400);
  info.model = "unheard-of";
  const ArrivalResult answer = arrive(info);
  ASSERT_TRUE(answer.refusal);
  EXPECT_EQ(answer.refusal->reason, RefusalReason::kModelNotFound);
}

TEST_F(DispatcherTest, EachPartOfAnAnswerIsASignOfLife) {
  open();
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  const ArrivalResult answer = arrive(info_of(4000));
  ASSERT_TRUE(answer.grant);
  const std::uint32_t slot = answer.grant->slot;
  EXPECT_EQ(dispatcher->answered_at(slot), core::Instant{}) << "it was sent a request and did nothing";
  dispatcher->answered(answer.ticket, kNow + 1s);
  EXPECT_EQ(dispatcher->answered_at(slot), kNow + 1s);
  const Progress progress{answer.ticket, {40, 40, 160}, {}};
  dispatcher->report_progress({&progress, 1}, kNow + 2s);
  EXPECT_EQ(dispatcher->answered_at(slot), kNow + 2s);
  RequestOutcome outcome = completed(1000, 0, 101, kNow + 3s);
  outcome.attempt = Attempt::kAnswered;
  dispatcher->ended(answer.ticket, outcome, kNow + 3s);
  EXPECT_EQ(dispatcher->answered_at(slot), kNow + 3s);
  const ArrivalResult hung = arrive(info_of(4000), kNow + 4s);
  dispatcher->attempt_ended(hung.ticket, Attempt::kFaulted, kNow + 5s);
  EXPECT_EQ(dispatcher->answered_at(slot), kNow + 3s);
  dispatcher->ended(hung.ticket, {ledger::Outcome::kFailed, {}, {}, {}, {}, {}}, kNow + 5s);
}

TEST_F(DispatcherTest, AnEndedRequestIsInTheLedgerWithItsCost) {
  open();
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  const ArrivalResult answer = arrive(info_of(4000));
  ASSERT_TRUE(answer.grant);
  EXPECT_EQ(id_of(*answer.grant), "r1");
  dispatcher->tick(kNow + 100ms);
  dispatcher->attempt_ended(answer.ticket, Attempt::kAnswered, kNow + 1s);
  dispatcher->answered(answer.ticket, kNow + 1s);
  dispatcher->ended(answer.ticket, completed(1000, 400, 101, kNow + 3s), kNow + 3s);
  ASSERT_EQ(opened.size(), 1U);
  ASSERT_EQ(closed.size(), 1U);
  const ledger::Entry& entry = closed[0];
  EXPECT_EQ(entry.id, opened[0].id);
  EXPECT_EQ(entry.replica, "r1");
  EXPECT_TRUE(entry.measured);
  EXPECT_DOUBLE_EQ(entry.ttft_ms, 1000.0);
  EXPECT_DOUBLE_EQ(entry.itl_ms, 20.0);
  EXPECT_DOUBLE_EQ(entry.cost, (600 * 1.0 + 400 * 0.5 + 101 * 2.0) / 1e6);
  EXPECT_EQ(ledger::imbalance(entry), "");
  EXPECT_EQ(dispatcher->overview(kNow + 3s).running, 0U);
}

TEST_F(DispatcherTest, ShortRequestsAreWrittenOnceAndLongOnesOpenedFirst) {
  open();
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  const ArrivalResult brief = arrive(info_of(400)), lasting = arrive(info_of(400)),
                      cut = arrive(info_of(400), kNow + 90ms);
  dispatcher->tick(kNow + 40ms);
  dispatcher->ended(brief.ticket, completed(100, 0, 5, kNow + 45ms), kNow + 45ms);
  EXPECT_TRUE(opened.empty());
  for (int i = 0; i < 3; ++i) dispatcher->tick(kNow + 50ms + i * 40ms);
  ASSERT_EQ(opened.size(), 1U);
  EXPECT_EQ(closed.size(), 1U);
  EXPECT_NE(opened[0].id, closed[0].id);
  dispatcher->ended(lasting.ticket, completed(100, 0, 5, kNow + 1s), kNow + 1s);
  ASSERT_EQ(closed.size(), 2U);
  EXPECT_EQ(closed[1].id, opened[0].id);
  // What is open when a gateway ends is found at the next start, however young it was.
  EXPECT_NE(cut.ticket, 0U);
  dispatcher.reset();
  ASSERT_EQ(opened.size(), 2U);
}

TEST_F(DispatcherTest, WaitsWhileNoReplicaIsReadyAndGoesWhenOneIs) {
  open();
  ReplicaSpec warming = replica_named("r1");
  warming.phase = ReplicaPhase::kWarming;
  dispatcher->set_replicas({warming}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  ASSERT_NE(answer.ticket, 0U);
  EXPECT_FALSE(answer.grant);
  dispatcher->tick(kNow + 1s);
  EXPECT_TRUE(listener.grants.empty());
  dispatcher->set_replicas({replica_named("r1")}, kNow + 2s);
  ASSERT_TRUE(listener.grants.contains(answer.ticket));
  EXPECT_EQ(id_of(listener.grants.at(answer.ticket)), "r1");
}

TEST_F(DispatcherTest, AModelWhoseReplicasAreGoneIsWaitedForAndNotDenied) {
  DispatchOptions made = options_for_tests();
  made.models.clear();
  open(std::move(made));
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  dispatcher->set_replicas({}, kNow + 1s);
  ASSERT_EQ(dispatcher->models().size(), 1U);
  EXPECT_EQ(dispatcher->models()[0].name, "m");
  const ArrivalResult waits = arrive(info_of(400), kNow + 1s);
  ASSERT_FALSE(waits.refusal);
  dispatcher->tick(kNow + 12s);
  ASSERT_TRUE(listener.refusals.contains(waits.ticket));
  const Refusal& refusal = listener.refusals.at(waits.ticket);
  EXPECT_EQ(refusal.reason, RefusalReason::kNoReplica);
  EXPECT_GE(refusal.retry_after_s, 1U);
  const ArrivalResult later = arrive(info_of(400), kNow + 12s);
  dispatcher->set_replicas({replica_named("r2")}, kNow + 13s);
  EXPECT_TRUE(listener.grants.contains(later.ticket));
}

TEST_F(DispatcherTest, AConfiguredModelIsKnownBeforeItHasAReplica) {
  DispatchOptions made = options_for_tests();
  made.interactive.queue_time = core::Duration{};
  open(std::move(made));
  ASSERT_EQ(dispatcher->models().size(), 1U);
  EXPECT_EQ(dispatcher->models()[0].name, "m");
  const ArrivalResult answer = arrive(info_of(400));
  ASSERT_TRUE(answer.refusal);
  EXPECT_EQ(answer.refusal->reason, RefusalReason::kNoReplica);
}

TEST_F(DispatcherTest, TheTrafficLogHasTheEndOfRefusedRequests) {
  using Kind = TrafficEvent::Kind;
  using ledger::Outcome;
  DispatchOptions made = options_for_tests();
  made.batch.queue_time = core::Duration{};
  open(std::move(made));
  RequestInfo impatient = info_of(400);
  impatient.traffic_class = admission::Class::kBatch;
  EXPECT_TRUE(arrive(impatient).refusal);
  for (const Outcome outcome : {Outcome::kCancelled, Outcome::kTimedOut}) {
    RequestOutcome ending;
    ending.outcome = outcome;
    dispatcher->ended(arrive(info_of(400)).ticket, ending, kNow + 1s);
  }
  static_cast<void>(arrive(info_of(400)));
  dispatcher->tick(kNow + 11s);
  const TrafficLog::Page page = dispatcher->traffic(0, 100);
  const Outcome outcomes[] = {Outcome::kRefused, Outcome::kCancelled, Outcome::kTimedOut, Outcome::kRefused};
  ASSERT_EQ(page.events.size(), 8U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(page.events[2 * i].kind, Kind::kArrival);
    EXPECT_EQ(page.events[2 * i + 1].kind, Kind::kEnd);
    EXPECT_EQ(page.events[2 * i + 1].request, page.events[2 * i].request);
    EXPECT_EQ(page.events[2 * i + 1].outcome, outcomes[i]) << i;
  }
  EXPECT_TRUE(opened.empty());
}

TEST_F(DispatcherTest, InvalidRequestsAreNotInTheTrafficLog) {
  open();
  RequestInfo info = info_of(400);
  info.model = "unheard-of";
  EXPECT_TRUE(arrive(info).refusal);
  EXPECT_TRUE(arrive(info_of(600'000)).refusal);
  EXPECT_TRUE(dispatcher->traffic(0, 100).events.empty());
}

TEST_F(DispatcherTest, RequestsBlockedByABudgetAreNotInTheTrafficLog) {
  using Kind = TrafficEvent::Kind;
  DispatchOptions made = options_for_tests();
  made.tenants.resize(3);
  made.tenants[1].name = "strict";
  made.tenants[2].name = "patient";
  made.tenants[1].budget = made.tenants[2].budget = {60'000.0, 2'000.0};
  made.tenants[2].over_budget = OverBudget::kQueue;
  made.tenants[1].reserve = made.tenants[2].reserve = admission::Reserve::kExpected;
  open(std::move(made));
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  const RequestInfo strict = info_of(4000, 1), endpoint = info_of(4000, 2);  // some 1,250 tokens with their answers
  EXPECT_TRUE(arrive(strict).grant);
  EXPECT_TRUE(arrive(endpoint).grant);
  EXPECT_EQ(arrive(strict).refusal->reason, RefusalReason::kTokenBudgetExceeded);
  const ArrivalResult waits = arrive(endpoint);
  EXPECT_FALSE(waits.grant || waits.refusal);
  EXPECT_EQ(dispatcher->traffic(0, 100).events.size(), 2U);
  EXPECT_EQ(dispatcher->overview(kNow).waiting_interactive, 1U);
  EXPECT_EQ(dispatcher->overview(kNow).models.at(0).waiting_for_room, 0U);
  // It counts as work once its budget admits it; the wait for the budget is not counted.
  dispatcher->tick(kNow + 1s);
  ASSERT_TRUE(listener.grants.contains(waits.ticket));
  dispatcher->answered(waits.ticket, kNow + 1200ms);
  const auto events = dispatcher->traffic(2, 100).events;
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, Kind::kArrival);
  EXPECT_EQ(events[0].at, kNow + 1s);
  EXPECT_EQ(events[1].kind, Kind::kFirstToken);
  EXPECT_NEAR(events[1].ttft_ms, 200.0, 1e-6);
}

TEST_F(DispatcherTest, ATenantsUsageIsThatOfItsNearestLimit) {
  DispatchOptions made = options_for_tests();
  made.tenants.resize(3);
  made.tenants[1].name = "many";
  made.tenants[1].concurrent = 4;
  made.tenants[2].name = "both";
  made.tenants[2].concurrent = 100;
  made.tenants[2].budget = {60'000.0, 2'000.0};
  open(std::move(made));
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  for (std::uint32_t tenant = 0; tenant < 3; ++tenant) EXPECT_TRUE(arrive(info_of(4000, tenant)).grant);
  const std::vector<TenantStatus> seen = dispatcher->overview(kNow).tenants;
  EXPECT_FALSE(seen[0].saturation);
  EXPECT_DOUBLE_EQ(seen[1].saturation.value(), 0.25);
  EXPECT_DOUBLE_EQ(seen[2].saturation.value(), 1.0 - seen[2].budget_available / 2'000.0);
  EXPECT_GT(seen[2].saturation.value(), 0.5);
}

TEST_F(DispatcherTest, RequestsThatWaitForCapacityAreInTheTrafficLog) {
  open();
  ReplicaSpec warming = replica_named("r1");
  warming.phase = ReplicaPhase::kWarming;
  dispatcher->set_replicas({warming}, kNow);
  static_cast<void>(arrive(info_of(400)));
  EXPECT_EQ(dispatcher->traffic(0, 100).events.size(), 1U);
  EXPECT_EQ(dispatcher->overview(kNow).models.at(0).waiting_for_room, 1U);
  EXPECT_EQ(dispatcher->overview(kNow).models.at(0).oldest_for_room, kNow);
}

TEST_F(DispatcherTest, RefusesRequestsAfterTheQueueTimeout) {
  open();
  ReplicaSpec warming = replica_named("r1");
  warming.phase = ReplicaPhase::kWarming;
  dispatcher->set_replicas({warming}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  dispatcher->tick(kNow + 11s);
  ASSERT_TRUE(listener.refusals.contains(answer.ticket));
  EXPECT_GE(listener.refusals.at(answer.ticket).retry_after_s, 1U);
}

TEST_F(DispatcherTest, AClientThatLeavesTheQueueLeavesNothingBehind) {
  open();
  ReplicaSpec warming = replica_named("r1");
  warming.phase = ReplicaPhase::kWarming;
  dispatcher->set_replicas({warming}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  RequestOutcome ending;
  ending.outcome = ledger::Outcome::kCancelled;
  dispatcher->ended(answer.ticket, ending, kNow + 1s);
  dispatcher->set_replicas({replica_named("r1")}, kNow + 2s);
  EXPECT_TRUE(listener.grants.empty());
  EXPECT_EQ(dispatcher->overview(kNow + 2s).waiting_interactive, 0U);
  EXPECT_TRUE(opened.empty());
}

TEST_F(DispatcherTest, AFaultedAttemptGoesToAnotherReplica) {
  open();
  dispatcher->set_replicas({replica_named("r1"), replica_named("r2")}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  ASSERT_TRUE(answer.grant);
  dispatcher->attempt_ended(answer.ticket, Attempt::kFaulted, kNow);
  const auto again = dispatcher->route_again(answer.ticket, kNow);
  ASSERT_TRUE(again);
  EXPECT_NE(again->slot, answer.grant->slot);
  dispatcher->attempt_ended(answer.ticket, Attempt::kFaulted, kNow);
  EXPECT_FALSE(dispatcher->route_again(answer.ticket, kNow)) << "there is no third replica";
  RequestOutcome ending;
  ending.outcome = ledger::Outcome::kFailed;
  dispatcher->ended(answer.ticket, ending, kNow);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].outcome, ledger::Outcome::kFailed);
  EXPECT_EQ(closed[0].output_tokens, 0U);
}

TEST_F(DispatcherTest, ManyRequestsTogetherNeverPassABudget) {
  DispatchOptions made = options_for_tests();
  Tenant tenant;
  tenant.name = "small";
  tenant.budget = {10'000.0, 0.0};
  made.tenants.push_back(tenant);
  open(std::move(made));
  dispatcher->set_replicas({replica_named("r1"), replica_named("r2")}, kNow);
  RequestInfo info = info_of(4000, 1);  // some 1,000 tokens of prompt …
  info.max_tokens = 1000;               // … and 256 of output, as it begins to guess
  std::uint64_t granted_tokens = 0;
  int refused = 0;
  for (int i = 0; i < 50; ++i) {
    const ArrivalResult answer = arrive(info);
    if (answer.refusal) {
      EXPECT_EQ(answer.refusal->reason, RefusalReason::kTokenBudgetExceeded);
      ++refused;
    }
  }
  dispatcher->tick(kNow + 1s);
  for (const ledger::Entry& entry : opened) granted_tokens += entry.reserved_tokens;
  EXPECT_LE(granted_tokens, 10'000U);
  EXPECT_GE(granted_tokens, 8'000U);
  EXPECT_EQ(opened.size() + static_cast<std::size_t>(refused), 50U);
}

TEST_F(DispatcherTest, AFullKvCacheHoldsInteractiveRequestsBack) {
  open();
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  routing::ReportedLoad reported;
  reported.at = kNow;
  reported.running = 50;
  reported.kv_usage = 0.95;
  dispatcher->report_load(*dispatcher->slot_of("r1"), reported);
  const ArrivalResult first = arrive(info_of(400));
  ASSERT_TRUE(first.grant) << "one is always let in to a replica that has none of ours";
  const ArrivalResult second = arrive(info_of(400));
  EXPECT_FALSE(second.grant);
  ASSERT_NE(second.ticket, 0U);
  reported.kv_usage = 0.5;
  reported.at = kNow + 1s;
  dispatcher->report_load(*dispatcher->slot_of("r1"), reported);
  dispatcher->tick(kNow + 1s);
  EXPECT_TRUE(listener.grants.contains(second.ticket));
}

TEST_F(DispatcherTest, ADisaggregatedRequestGoesToPrefillAndThenToDecode) {
  open();
  dispatcher->set_replicas({replica_named("p1", signals::Role::kPrefill), replica_named("d1", signals::Role::kDecode)},
                           kNow);
  const ArrivalResult answer = arrive(info_of(4000));
  ASSERT_TRUE(answer.grant);
  EXPECT_TRUE(answer.grant->prefill_only);
  EXPECT_EQ(id_of(*answer.grant), "p1");
  dispatcher->attempt_ended(answer.ticket, Attempt::kAnswered, kNow + 1s);
  const auto decode = dispatcher->route_decode(answer.ticket, kNow + 1s);
  ASSERT_TRUE(decode);
  EXPECT_FALSE(decode->prefill_only);
  EXPECT_EQ(id_of(*decode), "d1");
  dispatcher->answered(answer.ticket, kNow + 2s);
  dispatcher->ended(answer.ticket, completed(1000, 0, 11, kNow + 3s), kNow + 3s);
  ASSERT_EQ(closed.size(), 1U);
  EXPECT_EQ(closed[0].replica, "d1");
  for (const ReplicaStatus& status : dispatcher->overview(kNow + 3s).replicas) EXPECT_EQ(status.load.open_requests, 0U);
}

TEST_F(DispatcherTest, ADrainingReplicaIsForgottenOnlyAfterItsLastRequest) {
  open();
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  const ArrivalResult answer = arrive(info_of(400));
  ASSERT_TRUE(answer.grant);
  dispatcher->set_replicas({}, kNow + 1s);
  EXPECT_EQ(dispatcher->overview(kNow + 1s).replicas.size(), 1U);
  dispatcher->answered(answer.ticket, kNow + 2s);
  dispatcher->ended(answer.ticket, completed(100, 0, 10, kNow + 3s), kNow + 3s);
  EXPECT_TRUE(dispatcher->overview(kNow + 3s).replicas.empty());
}

TEST_F(DispatcherTest, TheTrafficLogHasTheEventsOfARequest) {
  open();
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  EXPECT_EQ(arrive(info_of(4000)).expected_output_tokens, 256U);
  const std::uint64_t before = dispatcher->traffic(0, 100).events.size();
  RequestInfo info = info_of(4000);
  info.expected_output_tokens = 7;
  const ArrivalResult answer = arrive(info);
  EXPECT_EQ(answer.expected_output_tokens, 7U);
  dispatcher->answered(answer.ticket, kNow + 1s);
  dispatcher->ended(answer.ticket, completed(1000, 0, 11, kNow + 2s), kNow + 2s);
  const TrafficLog::Page page = dispatcher->traffic(before, 100);
  ASSERT_EQ(page.events.size(), 3U);
  EXPECT_EQ(page.events[0].kind, TrafficEvent::Kind::kArrival);
  EXPECT_EQ(page.events[0].expected_output_tokens, 7U);
  EXPECT_EQ(page.events[1].kind, TrafficEvent::Kind::kFirstToken);
  EXPECT_DOUBLE_EQ(page.events[1].ttft_ms, 1000.0);
  EXPECT_EQ(page.events[2].kind, TrafficEvent::Kind::kEnd);
  EXPECT_DOUBLE_EQ(page.events[2].itl_ms, 100.0);
  EXPECT_EQ(page.events[2].request, page.events[0].request);
}

TEST_F(DispatcherTest, AnAnswerThatIsNotStreamedDoesNotCountAsPrefillForever) {
  open();
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  ASSERT_TRUE(arrive(info_of(40'000)).grant);
  const auto prefill_tokens = [&](core::Instant now) {
    return dispatcher->overview(now).replicas[0].load.prefill_tokens;
  };
  EXPECT_EQ(prefill_tokens(kNow), 10'000U);
  dispatcher->tick(kNow + 100ms);
  EXPECT_EQ(prefill_tokens(kNow + 100ms), 10'000U);
  dispatcher->tick(kNow + 60s);
  EXPECT_EQ(prefill_tokens(kNow + 60s), 0U);
}

TEST_F(DispatcherTest, RefusesAPromptThatTheModelCannotHold) {
  open();
  dispatcher->set_replicas({replica_named("r1")}, kNow);
  const ArrivalResult answer = arrive(info_of(600'000));
  ASSERT_TRUE(answer.refusal);
  EXPECT_EQ(answer.refusal->reason, RefusalReason::kContextLengthExceeded);
  EXPECT_NE(answer.refusal->message.find("32768"), std::string::npos);
}

// One replica, and requests that an engine without KV events answers.
class DispatcherCacheTest : public DispatcherTest {
 protected:
  void SetUp() override {
    open();
    dispatcher->set_replicas({replica_named("r1")}, kNow);
  }
  void serve(std::uint64_t family, std::uint32_t cached, core::Instant now, bool told = true) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t i = 0; i < 10; ++i) keys.push_back(100 * family + i);
    RequestInfo info = info_of(10'240);
    info.keys = keys;
    const ArrivalResult answer = arrive(info, now);
    ASSERT_TRUE(answer.grant);
    dispatcher->answered(answer.ticket, now + 1s);
    RequestOutcome ending = completed(2560, cached, 10, now + 2s);
    ending.usage->cached_known = told;
    dispatcher->ended(answer.ticket, ending, now + 2s);
  }
  [[nodiscard]] std::uint64_t prefix_keys(core::Instant now) const { return dispatcher->replicas(now)[0].load.keys; }
};

TEST_F(DispatcherCacheTest, TheCacheOfARestartedEngineCountsAsEmpty) {
  serve(1, 0, kNow);
  serve(2, 0, kNow + 10s);
  serve(3, 0, kNow + 20s);
  EXPECT_EQ(prefix_keys(kNow + 30s), 30U);
  serve(3, 2304, kNow + 60s);
  EXPECT_EQ(prefix_keys(kNow + 70s), 30U) << "it holds what it should";
  serve(3, 0, kNow + 120s);
  EXPECT_EQ(prefix_keys(kNow + 130s), 10U) << "all is gone but what was computed just now";
}

TEST_F(DispatcherCacheTest, CachedTokensAreComparedOnceTheEngineHasReportedAHit) {
  serve(1, 0, kNow, false);
  serve(2, 0, kNow + 60s, false);
  serve(1, 0, kNow + 120s, false);
  EXPECT_EQ(prefix_keys(kNow + 130s), 20U) << "it may never tell";
  serve(1, 2304, kNow + 180s);
  serve(2, 0, kNow + 240s, false);
  EXPECT_EQ(prefix_keys(kNow + 250s), 20U) << "prefix 1 was used later than prefix 2";
  serve(1, 0, kNow + 300s, false);
  serve(3, 0, kNow + 310s, false);
  serve(2, 0, kNow + 360s, false);
  EXPECT_EQ(prefix_keys(kNow + 370s), 30U) << "and the others later than it";
  serve(3, 0, kNow + 420s, false);
  EXPECT_EQ(prefix_keys(kNow + 430s), 20U) << "prefix 1 is older than prefix 3";
}

TEST_F(DispatcherCacheTest, RequestsBeforeThePrefixIsComputedProveNoMiss) {
  serve(1, 0, kNow);
  serve(2, 0, kNow + 1s);
  serve(2, 0, kNow + 2s);
  EXPECT_EQ(prefix_keys(kNow + 3s), 20U);
}

}  // namespace
}  // namespace penstock::dispatch
