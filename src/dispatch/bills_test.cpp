// What requests are charged: the tokens that replicas computed, also if none are reported or the client left.
#include <gtest/gtest.h>

#include <cmath>
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
    made.output_events = events;
    made.output_bytes = bytes;
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
  const Progress first{ticket, 40, 160, {}}, second{ticket, 90, 360, {}};
  dispatcher.report_progress({&first, 1});
  dispatcher.report_progress({&second, 1});
  ASSERT_EQ(opened.size(), 3U);
  EXPECT_EQ(opened[2].id, opened[0].id);
  EXPECT_EQ(opened[2].prompt_tokens, 1000U);
  EXPECT_EQ(opened[2].output_tokens, 90U);
  EXPECT_GT(opened[2].cost, opened[1].cost);
  EXPECT_EQ(end(ticket, outcome(Outcome::kCancelled, 100, 400)).output_tokens, 100U);
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
      how.output_events = before_the_first ? 0 : events;
      const std::uint32_t tokens = how.output_events * per_event;
      how.output_bytes = std::uint64_t{tokens} * 4;
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
