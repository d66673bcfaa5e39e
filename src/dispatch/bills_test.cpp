// What requests are charged: the tokens that replicas computed, also if none are reported or the client left.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "core/random.h"
#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;
using namespace std::chrono_literals;

struct GrowingSink final : LedgerSink {
  GrowingSink(std::vector<ledger::Entry>& open, std::vector<ledger::Entry>& closed) : opened_(open), closed_(closed) {}
  void opened(const ledger::Entry& entry) override { opened_.push_back(entry); }
  void grown(const ledger::Entry& entry) override { opened_.push_back(entry); }
  void closed(const ledger::Entry& entry) override { closed_.push_back(entry); }
  std::vector<ledger::Entry>&opened_, &closed_;
};

class BillsTest : public ::testing::Test {
 protected:
  void SetUp() override { dispatcher.set_replicas({replica_named("r1"), replica_named("r2")}, now); }

  Ticket send(bool stream, std::uint32_t prompt = 1000, std::optional<std::uint32_t> max_tokens = 4000) {
    RequestInfo info = info_of(4 * prompt);
    info.prompt_tokens_given = prompt;
    info.max_tokens = max_tokens;
    info.stream = stream;
    info.received_at = now;
    const ArrivalResult result = dispatcher.arrive(info, listener, now);
    EXPECT_TRUE(result.grant);
    return result.ticket;
  }
  const ledger::Entry& end(Ticket ticket, const RequestOutcome& outcome) {
    dispatcher.ended(ticket, outcome, now);
    EXPECT_EQ(dispatcher.invariant_violation(now), "");
    return closed.back();
  }
  static RequestOutcome outcome(ledger::Outcome how, std::uint32_t events = 0, std::uint64_t bytes = 0) {
    RequestOutcome made;
    made.outcome = how;
    made.attempt = how == ledger::Outcome::kCompleted ? Attempt::kAnswered : Attempt::kAbandoned;
    made.output.events = events;
    made.output.bytes = bytes;
    return made;
  }

  std::vector<ledger::Entry> opened, closed;
  TestListener listener;
  core::Instant now = core::kStart + 100s;
  Dispatcher dispatcher{options_for_tests(), std::make_unique<GrowingSink>(opened, closed), core::kStart, 1'000'000s};
};

using ledger::Outcome;

TEST_F(BillsTest, AClientThatLeavesBeforeTheFirstTokenPaysThePrompt) {
  const Ticket ticket = send(true);
  now += 1s;
  const ledger::Entry& entry = end(ticket, outcome(Outcome::kCancelled));
  EXPECT_EQ(entry.prompt_tokens, 1000U);
  EXPECT_EQ(entry.output_tokens, 0U);
  EXPECT_GT(entry.cost, 0.0);
}

TEST_F(BillsTest, AClientThatLeavesAWholeAnswerPaysForTheTimeAtTheLearnedRate) {
  for (int i = 0; i < 20; ++i) {
    const Ticket ticket = send(false);
    now += 2s;
    RequestOutcome whole = outcome(Outcome::kCompleted, 0, 800);
    whole.usage = TokenUsage{1000, 1000, 0};
    end(ticket, whole);
  }
  const Ticket ticket = send(false);
  now += 1s;
  const ledger::Entry& entry = end(ticket, outcome(Outcome::kCancelled));
  EXPECT_EQ(entry.prompt_tokens, 1000U);
  EXPECT_NEAR(static_cast<double>(entry.output_tokens), 500.0, 5.0);
  EXPECT_FALSE(entry.measured);
  const Ticket limited = send(false, 1000, 50);
  now += 10s;
  EXPECT_EQ(end(limited, outcome(Outcome::kTimedOut)).output_tokens, 50U) << "no more than was requested";
}

TEST_F(BillsTest, AClientThatLeavesManyAnswersPaysForEachOfThem) {
  RequestInfo info = info_of(4000);
  info.prompt_tokens_given = 1000;
  info.max_tokens = 100;
  info.answers = 16;
  info.received_at = now;
  const Ticket ticket = dispatcher.arrive(info, listener, now).ticket;
  now += 2s;
  EXPECT_EQ(end(ticket, outcome(Outcome::kCancelled)).output_tokens, 16U * 2U * 30U);
  const Ticket longer = dispatcher.arrive(info, listener, now).ticket;
  now += 20s;
  EXPECT_EQ(end(longer, outcome(Outcome::kCancelled)).output_tokens, 16U * 100U);
}

TEST_F(BillsTest, AClientThatLeavesAStreamPaysForTokensWithoutText) {
  const Ticket ticket = send(true);
  dispatcher.answered(ticket, now);
  RequestOutcome left = outcome(Outcome::kCancelled, 10, 40);
  left.output.steps = 502;  // The first has the role, 490 are tokens without text.
  EXPECT_NEAR(static_cast<double>(end(ticket, left).output_tokens), 501.0, 5.0);
}

TEST_F(BillsTest, AClientThatLeavesAStreamPaysForReasoningThatItDoesNotWantToSee) {
  for (const bool begun : {false, true}) {
    RequestInfo info = info_of(4000);
    info.prompt_tokens_given = 1000;
    info.max_tokens = 4000;
    info.stream = info.hides_output = info.hides_reasoning = true;
    info.received_at = now;
    const Ticket ticket = dispatcher.arrive(info, listener, now).ticket;
    now += 20s;
    if (begun) dispatcher.answered(ticket, now);
    // 30 tokens per second are assumed as long as none are known.
    EXPECT_NEAR(
        static_cast<double>(end(ticket, outcome(Outcome::kCancelled, begun ? 5 : 0, begun ? 20 : 0)).output_tokens),
        begun ? 606.0 : 600.0, 2.0);
  }
}

TEST_F(BillsTest, AClientThatLeavesTheQueuePaysNothing) {
  dispatcher.set_replicas({}, now);
  RequestInfo info = info_of(4000);
  info.received_at = now;
  const ArrivalResult result = dispatcher.arrive(info, listener, now);
  ASSERT_FALSE(result.grant);
  dispatcher.ended(result.ticket, outcome(Outcome::kCancelled), now);
  EXPECT_TRUE(closed.empty());
}

TEST_F(BillsTest, AnEngineThatReportsNoTokensForATextIsNotUsed) {
  for (const bool stream : {true, false}) {
    const Ticket ticket = send(stream);
    RequestOutcome lie = outcome(Outcome::kCompleted, stream ? 100 : 0, 400);
    lie.usage = TokenUsage{0, 0, 0};
    const ledger::Entry& entry = end(ticket, lie);
    EXPECT_EQ(entry.prompt_tokens, 1000U);
    EXPECT_EQ(entry.output_tokens, 100U);
  }
}

TEST_F(BillsTest, EventsWithSeveralTokensAreCountedByTheirText) {
  const Ticket ticket = send(true);
  dispatcher.answered(ticket, now);
  EXPECT_EQ(end(ticket, outcome(Outcome::kCompleted, 100, 3200)).output_tokens, 800U);
}

TEST_F(BillsTest, WhatAnOpenStreamDeliveredIsInTheLedger) {
  const Ticket ticket = send(true);
  dispatcher.answered(ticket, now);
  dispatcher.tick(now + 60ms);
  ASSERT_EQ(opened.size(), 1U);
  const Progress first{ticket, {40, 40, 160}, {}}, second{ticket, {90, 90, 360}, {}};
  dispatcher.report_progress({&first, 1}, now);
  dispatcher.report_progress({&second, 1}, now);
  ASSERT_EQ(opened.size(), 3U);
  EXPECT_EQ(opened[2].id, opened[0].id);
  EXPECT_EQ(opened[2].prompt_tokens, 1000U);
  EXPECT_EQ(opened[2].output_tokens, 90U);
  EXPECT_GT(opened[2].cost, opened[1].cost);
  EXPECT_EQ(end(ticket, outcome(Outcome::kCancelled, 100, 400)).output_tokens, 101U)
      << "with the token that the replica computed when the client left";
}

TEST_F(BillsTest, AttemptsThatFailedAreCountedApart) {
  const Ticket ticket = send(true);
  dispatcher.attempt_ended(ticket, Attempt::kUnreached, now);
  ASSERT_TRUE(dispatcher.route_again(ticket, now));
  EXPECT_EQ(dispatcher.counters().discarded_prompt_tokens, 0U);
  RequestOutcome whole = outcome(Outcome::kCompleted, 10, 40);
  whole.usage = TokenUsage{1000, 11, 0};
  EXPECT_EQ(end(ticket, whole).prompt_tokens, 1000U);
  const Ticket again = send(true);
  dispatcher.attempt_ended(again, Attempt::kFaulted, now);
  ASSERT_TRUE(dispatcher.route_again(again, now));
  EXPECT_EQ(dispatcher.counters().discarded_prompt_tokens, 1000U);
  EXPECT_EQ(end(again, whole).prompt_tokens, 1000U) << "the tenant pays once";
}

// What an engine reported of a request with `info` whose answer showed `seen`.
struct Report {
  std::uint32_t prompt = 1000, output = 100, cached = 0;
  SeenOutput seen{100, 102, 400};
};

class UsageCheckTest : public BillsTest {
 protected:
  const ledger::Entry& bill(const Report& report, const std::function<void(RequestInfo&)>& change = {}) {
    RequestInfo info = info_of(4000);
    info.stream = true;
    info.received_at = now;
    if (change) change(info);
    const Ticket ticket = dispatcher.arrive(info, listener, now).ticket;
    dispatcher.answered(ticket, now + 10ms);
    now += 1s;
    RequestOutcome how = outcome(Outcome::kCompleted);
    how.output = report.seen;
    how.usage = TokenUsage{report.prompt, report.output, report.cached};
    return end(ticket, how);
  }
};

TEST_F(UsageCheckTest, APromptHasAtMostOneTokenPerByteAndWhatTheTemplateAndTheMediaAdd) {
  const auto change = [](RequestInfo& info) {
    info.template_tokens = 256;
    info.media_tokens = 1024;
  };
  const std::uint32_t most = 4000 + 256 + 1024;
  EXPECT_EQ(bill({.prompt = most}, change).prompt_tokens, most);
  EXPECT_TRUE(closed.back().measured);
  for (const std::uint32_t lie : {most + 1, 1U << 31, UINT32_MAX}) {
    EXPECT_EQ(bill({.prompt = lie}, change).prompt_tokens, most);
    EXPECT_FALSE(closed.back().measured);
    EXPECT_EQ(closed.back().output_tokens, 100U) << "the other count may be true";
  }
}

TEST_F(UsageCheckTest, APromptThatContinuesWhatAnEngineKeepsHasAtMostTheContext) {
  const auto change = [](RequestInfo& info) { info.extends_prompt = true; };
  EXPECT_EQ(bill({.prompt = 30'000}, change).prompt_tokens, 30'000U);
  EXPECT_TRUE(closed.back().measured);
  EXPECT_EQ(bill({.prompt = 40'000}, change).prompt_tokens, 32'768U);
}

TEST_F(UsageCheckTest, APromptOfTokenIdsHasAsManyTokens) {
  for (const std::uint32_t lie : {0U, 1U, 999U, 1009U, UINT32_MAX})
    EXPECT_NEAR(static_cast<double>(bill({.prompt = lie},
                                         [](RequestInfo& info) {
                                           info.prompt_tokens_given = 1000;
                                           info.template_tokens = 8;
                                         })
                                        .prompt_tokens),
                1000.0, 8.0);
}

TEST_F(UsageCheckTest, APromptIsNeverFreeUnlessTheEngineMayLeaveOutItsText) {
  EXPECT_GT(bill({.prompt = 1}).prompt_tokens, 500U);
  EXPECT_EQ(bill({.prompt = 1}, [](RequestInfo& info) { info.cuts_prompt = true; }).prompt_tokens, 1U);
  EXPECT_GT(bill({.prompt = 0}, [](RequestInfo& info) { info.cuts_prompt = true; }).prompt_tokens, 0U);
}

TEST_F(UsageCheckTest, TheOutputHasATokenPerEventAndAtMostOnePerByte) {
  for (const std::uint32_t lie : {0U, 1U, 50U, 98U, 1'000U, 1U << 31, UINT32_MAX}) {
    EXPECT_EQ(bill({.output = lie}).output_tokens, 100U) << lie;
    EXPECT_FALSE(closed.back().measured);
  }
  for (const std::uint32_t truth : {99U, 100U, 101U, 250U, 500U}) {
    EXPECT_EQ(bill({.output = truth}).output_tokens, truth);
    EXPECT_TRUE(closed.back().measured);
  }
}

TEST_F(UsageCheckTest, TokensThatNoTextShowsAreChargedUpToTheLimitOfTheRequest) {
  const auto hides = [](RequestInfo& info) { info.hides_output = true, info.max_tokens = 5'000; };
  EXPECT_EQ(bill({.output = 3'000}, hides).output_tokens, 3'000U);
  EXPECT_EQ(bill({.output = UINT32_MAX}, hides).output_tokens, 5'000U);
  const auto unlimited = [](RequestInfo& info) { info.hides_output = true; };
  EXPECT_LE(bill({.output = UINT32_MAX}, unlimited).output_tokens, options_for_tests().context_tokens);
  EXPECT_EQ(bill({.output = 3'000, .seen = {}}).output_tokens, 3'000U) << "an answer without text shows nothing";
}

TEST_F(UsageCheckTest, TheTextOfAWholeAnswerBoundsItsTokensFromBelow) {
  const auto whole = [](RequestInfo& info) { info.stream = false, info.max_tokens = 5'000; };
  for (const std::uint32_t truth : {10U, 100U, 5'000U})
    EXPECT_EQ(bill({.output = truth, .seen = {0, 0, 400}}, whole).output_tokens, truth);
  EXPECT_EQ(bill({.output = UINT32_MAX, .seen = {0, 0, 400}}, whole).output_tokens, 5'000U);
  for (const std::uint32_t lie : {0U, 5U})
    EXPECT_EQ(bill({.output = lie, .seen = {0, 0, 400}}, whole).output_tokens, 100U) << lie;
  const auto repeats = [&](RequestInfo& info) { whole(info), info.repeats_prompt = true; };
  EXPECT_EQ(bill({.output = 5, .seen = {0, 0, 4'400}}, repeats).output_tokens, 5U) << "the text has the prompt";
}

TEST_F(UsageCheckTest, MoreCachedThanPromptTokensAreNotCharged) {
  const ledger::Entry& entry = bill({.cached = 1001});
  EXPECT_EQ(entry.prompt_tokens, 1000U);
  EXPECT_EQ(entry.cached_tokens, 0U);
}

TEST_F(UsageCheckTest, TheEstimateOfTokensLearnsNothingFromFalseCounts) {
  for (int i = 0; i < 200; ++i) bill({.prompt = UINT32_MAX, .output = UINT32_MAX});
  EXPECT_EQ(bill({.prompt = 0}).prompt_tokens, 1000U);
  EXPECT_EQ(closed.back().output_tokens, 100U);
}

// Engines that report usage or not, with one or several tokens an event; clients that leave; engines that report zeros.
TEST(Bills, AreWhatWasComputedWithinAPercent) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    core::RandomStream random{seed};
    std::vector<ledger::Entry> opened, closed;
    TestListener listener;
    core::Instant now = core::kStart + 100s;
    Dispatcher dispatcher{options_for_tests(), std::make_unique<GrowingSink>(opened, closed), core::kStart, 1'000'000s};
    dispatcher.set_replicas({replica_named("r1")}, now);
    const bool reports = random.below(3) > 0;
    // Two short tokens are not told from a long one before any usage was reported.
    const auto several = static_cast<std::uint32_t>((reports ? 2 : 3) + random.below(7));
    const std::uint32_t per_event = random.below(2) == 0 ? 1 : several;
    double computed = 0.0, billed = 0.0;
    for (int i = 0; i < 400; ++i) {
      RequestInfo info = info_of(2000);
      info.prompt_tokens_given = static_cast<std::uint32_t>(1 + random.below(1000));
      info.stream = true;
      info.received_at = now;
      const ArrivalResult result = dispatcher.arrive(info, listener, now);
      ASSERT_TRUE(result.grant);
      const auto events = static_cast<std::uint32_t>(1 + random.below(300));
      const bool leaves = i > 0 && random.below(3) == 0, before_the_first = leaves && random.below(4) == 0;
      RequestOutcome how;
      how.outcome = leaves ? Outcome::kCancelled : Outcome::kCompleted;
      how.output.events = before_the_first ? 0 : events;
      const std::uint32_t tokens = how.output.events * per_event;
      how.output.bytes = std::uint64_t{tokens} * 4;
      if (!before_the_first) dispatcher.answered(result.ticket, now + 10ms);
      if (!leaves && reports)
        how.usage = random.below(20) == 0 ? TokenUsage{0, 0, 0} : TokenUsage{info.prompt_tokens_given, tokens, 0};
      now += 100ms;
      how.last_token_at = now;
      dispatcher.ended(result.ticket, how, now);
      computed += info.prompt_tokens_given + tokens;
      billed += static_cast<double>(closed.back().prompt_tokens + closed.back().output_tokens);
      EXPECT_GT(closed.back().prompt_tokens, 0U);
    }
    EXPECT_NEAR(billed / computed, 1.0, 0.01) << "seed " << seed << ", " << per_event << " tokens an event";
    EXPECT_EQ(dispatcher.invariant_violation(now), "");
  }
}

}  // namespace
}  // namespace penstock::dispatch
