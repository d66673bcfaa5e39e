// Batch requests that wait for spare capacity, at the dispatcher.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <vector>

#include "core/random.h"
#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace std::chrono_literals;
using testing::info_of;
using testing::options_for_tests;
using testing::replica_named;
using testing::TestListener;

constexpr core::Instant kAt = core::kStart + 100s;

DispatchOptions deferring() {
  DispatchOptions options = options_for_tests();
  options.batch.completion_window = 10min;
  options.batch.queue_time = 5s;
  return options;
}

class DeferringDispatcher : public ::testing::Test {
 protected:
  void use(const DispatchOptions& options) {
    dispatcher_ = std::make_unique<Dispatcher>(options, nullptr, kAt, 1'000h);
    dispatcher_->set_replicas({replica_named("r")}, kAt);
  }
  ArrivalResult arrive(admission::Class traffic_class, core::Instant now = kAt, std::uint32_t prompt_tokens = 100,
                       std::optional<core::Duration> window = {}) {
    RequestInfo info = info_of(0);
    info.prompt_tokens_given = prompt_tokens;
    info.max_tokens = 100;
    info.stream = true;
    info.traffic_class = traffic_class;
    info.received_at = now;
    info.completion_window = window;
    return dispatcher_->arrive(info, listener_, now);
  }
  ArrivalResult batch(core::Instant now = kAt) { return arrive(admission::Class::kBatch, now); }
  ArrivalResult interactive(core::Instant now = kAt) { return arrive(admission::Class::kInteractive, now); }
  void end(Ticket ticket, core::Instant now) { dispatcher_->ended(ticket, {}, now); }

  TestListener listener_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

TEST_F(DeferringDispatcher, BatchGoesAtOnceWhileTheReplicaComputesNoPrompt) {
  use(deferring());
  const ArrivalResult first = batch();
  ASSERT_TRUE(first.grant);
  EXPECT_EQ(first.completion_window, 10min);
  EXPECT_EQ(dispatcher_->counters().deferral.sent_spare, 1U);
}

TEST_F(DeferringDispatcher, BatchWaitsWhileAPromptIsComputed) {
  use(deferring());
  const Ticket chat = interactive().ticket;
  const ArrivalResult waits = batch();
  EXPECT_FALSE(waits.grant || waits.refusal);
  EXPECT_TRUE(waits.is_work) << "planners count it when it arrives";
  EXPECT_EQ(dispatcher_->overview(kAt).deferred_requests, 1U);
  EXPECT_EQ(dispatcher_->overview(kAt).waiting_batch, 0U);
  EXPECT_EQ(dispatcher_->waiting_for_room(0, 0).requests, 0U) << "it is no backlog";
  dispatcher_->tick(kAt + 4min);
  EXPECT_TRUE(listener_.grants.empty() && listener_.refusals.empty()) << "its queue time is 5 s";
  dispatcher_->answered(chat, kAt + 4min);
  EXPECT_LE(dispatcher_->next_wake(kAt + 4min), kAt + 4min);
  dispatcher_->tick(kAt + 4min);
  EXPECT_TRUE(listener_.grants.contains(waits.ticket));
}

TEST_F(DeferringDispatcher, TheOverviewHasTheTimeAtWhichTheFirstDeferredRequestIsDue) {
  use(deferring());
  const Ticket chat = interactive().ticket;
  EXPECT_EQ(dispatcher_->overview(kAt).next_due, core::kNever);
  const Ticket first = batch().ticket;  // Due a tenth of 10 min before its end.
  const Ticket second = arrive(admission::Class::kBatch, kAt + 1s, 100, 2min).ticket;  // Of 2 min, likewise.
  EXPECT_EQ(dispatcher_->overview(kAt + 1s).next_due, kAt + 1s + 108s);
  RequestOutcome left;
  left.outcome = ledger::Outcome::kCancelled;
  dispatcher_->ended(second, left, kAt + 2s);
  EXPECT_EQ(dispatcher_->overview(kAt + 2s).next_due, kAt + 9min);
  dispatcher_->answered(chat, kAt + 3s);
  dispatcher_->tick(kAt + 3s);
  EXPECT_TRUE(listener_.grants.contains(first));
  EXPECT_EQ(dispatcher_->overview(kAt + 3s).next_due, core::kNever);
}

TEST_F(DeferringDispatcher, WithoutTheOptionBatchIsSentLikeBefore) {
  DispatchOptions options = deferring();
  options.batch.completion_window = {};
  use(options);
  interactive();
  EXPECT_TRUE(batch().grant);
  EXPECT_EQ(dispatcher_->counters().deferral.sent_spare, 0U);
}

TEST_F(DeferringDispatcher, NearItsDeadlineBatchIsSentLikeAnInteractiveRequest) {
  use(deferring());
  interactive();
  const Ticket waits = batch().ticket;
  // A tenth of the window before the deadline: two answers of 1 s + 100 x 33 ms take less.
  dispatcher_->tick(kAt + 539s);
  EXPECT_TRUE(listener_.grants.empty());
  EXPECT_EQ(dispatcher_->next_wake(kAt + 539s),
            std::min(kAt + 540s, kAt + 539s + dispatcher_->options().picker.load_report_age));
  dispatcher_->tick(kAt + 540s);
  ASSERT_TRUE(listener_.grants.contains(waits));
  EXPECT_EQ(listener_.grants.at(waits).due_at, kAt + 540s);
  EXPECT_EQ(dispatcher_->counters().deferral.sent_due, 1U);
  end(waits, kAt + 599s);
  EXPECT_EQ(dispatcher_->counters().deferral.missed, 0U);
}

TEST_F(DeferringDispatcher, AnAnswerAfterItsDeadlineIsMissed) {
  use(deferring());
  const Ticket sent = batch().ticket;
  end(sent, kAt + 601s);
  EXPECT_EQ(dispatcher_->counters().deferral.missed, 1U);
}

TEST_F(DeferringDispatcher, ADeadlineThatNoReplicaCanKeepIsRefusedAndCounted) {
  use(deferring());
  interactive();
  const Ticket waits = batch().ticket;
  dispatcher_->set_replicas({}, kAt + 1s);
  dispatcher_->tick(kAt + 540s);
  EXPECT_TRUE(listener_.refusals.empty());
  dispatcher_->tick(kAt + 600s);
  ASSERT_TRUE(listener_.refusals.contains(waits));
  EXPECT_EQ(dispatcher_->counters().deferral.missed, 1U);
}

TEST_F(DeferringDispatcher, NearItsDeadlineBatchIsRefusedIfTheOptionSaysSo) {
  DispatchOptions options = deferring();
  options.batch.near_deadline = NearDeadline::kRefuse;
  use(options);
  interactive();
  const Ticket waits = batch().ticket;
  dispatcher_->tick(kAt + 540s);
  ASSERT_TRUE(listener_.refusals.contains(waits));
  EXPECT_EQ(listener_.refusals.at(waits).reason, RefusalReason::kQueueTimeout);
  EXPECT_EQ(listener_.refusals.at(waits).retry_after_s, 60U);
  EXPECT_EQ(dispatcher_->counters().deferral.missed, 1U);
  EXPECT_EQ(dispatcher_->invariant_violation(kAt + 540s), "");
}

TEST_F(DeferringDispatcher, AShorterWindowOfTheRequestCounts) {
  use(deferring());
  interactive();
  const ArrivalResult waits = arrive(admission::Class::kBatch, kAt, 100, 2min);
  EXPECT_EQ(waits.completion_window, 2min);
  dispatcher_->tick(kAt + 107s);
  EXPECT_TRUE(listener_.grants.empty());
  dispatcher_->tick(kAt + 108s);
  EXPECT_TRUE(listener_.grants.contains(waits.ticket));
  EXPECT_EQ(arrive(admission::Class::kBatch, kAt + 108s, 100, 20min).completion_window, 10min) << "never longer";
}

TEST_F(DeferringDispatcher, AWindowOfLessThanFourAnswersDefersNothing) {
  use(deferring());
  interactive();
  // An answer is expected to take 1 s and 100 x 33 ms.
  const ArrivalResult sent = arrive(admission::Class::kBatch, kAt, 100, 17s);
  EXPECT_TRUE(sent.grant);
  EXPECT_EQ(sent.completion_window, core::Duration{});
  EXPECT_FALSE(arrive(admission::Class::kBatch, kAt, 100, 18s).grant);
}

TEST_F(DeferringDispatcher, APromptThatWouldDelayInteractiveRequestsTooLongWaits) {
  DispatchOptions options = deferring();
  options.slo.target.ttft = 1s;  // Half of it are 4,000 tokens at 8,000 tokens/s.
  use(options);
  EXPECT_FALSE(arrive(admission::Class::kBatch, kAt, 4'100).grant);
  use(options);
  EXPECT_TRUE(arrive(admission::Class::kBatch, kAt, 3'900).grant);
}

TEST_F(DeferringDispatcher, ALongPromptGoesWhileHalfOfTheOtherReplicasComputeNone) {
  DispatchOptions options = deferring();
  options.slo.target.ttft = 1s;
  use(options);
  dispatcher_->set_replicas({replica_named("r"), replica_named("s"), replica_named("t")}, kAt);
  EXPECT_TRUE(arrive(admission::Class::kBatch, kAt, 5'000).grant) << "two are free";
  EXPECT_TRUE(arrive(admission::Class::kBatch, kAt, 5'000).grant) << "one of two is free";
  EXPECT_FALSE(arrive(admission::Class::kBatch, kAt, 5'000).grant);
  EXPECT_TRUE(arrive(admission::Class::kInteractive, kAt, 5'000).grant);
}

TEST_F(DeferringDispatcher, BatchWaitsWhileTheKvCacheIsFullerThanItsShareOfTheThrottle) {
  use(deferring());  // 0.7 x 0.85 = 0.595.
  const std::uint32_t slot = *dispatcher_->slot_of("r");
  const auto report = [&](double usage, core::Instant now) {
    routing::ReportedLoad load;
    load.at = now;
    load.running = 1;
    load.kv_usage = usage;
    load.kv_capacity_tokens = 100'000;
    dispatcher_->report_load(slot, load);
  };
  const Ticket chat = interactive().ticket;
  dispatcher_->answered(chat, kAt);
  report(0.60, kAt + 1s);
  EXPECT_FALSE(batch(kAt + 1s).grant);
  report(0.50, kAt + 2s);
  dispatcher_->tick(kAt + 2s);
  EXPECT_EQ(listener_.grants.size(), 1U);
}

// 70 % of the objective are 35 ms.
TEST_F(DeferringDispatcher, BatchWaitsWhileTheItlIsAboveItsShareOfTheObjective) {
  DispatchOptions options = deferring();
  options.slo.target.itl = 50ms;
  for (const auto& [itl, is_sent] : {std::pair{30ms, true}, std::pair{45ms, false}}) {
    use(options);
    core::Instant now = kAt;
    for (int i = 0; i < 50; ++i) {
      const Ticket chat = interactive(now).ticket;
      dispatcher_->answered(chat, now);
      now += 100 * itl;
      RequestOutcome outcome;
      outcome.usage = TokenUsage{100, 101, 0};
      outcome.last_token_at = now;
      dispatcher_->ended(chat, outcome, now);
    }
    EXPECT_EQ(batch(now).grant.has_value(), is_sent) << itl.count();
  }
}

TEST_F(DeferringDispatcher, AClientThatLeavesFreesItsPlace) {
  use(deferring());
  interactive();
  const Ticket waits = batch().ticket;
  RequestOutcome left;
  left.outcome = ledger::Outcome::kCancelled;
  dispatcher_->ended(waits, left, kAt + 1s);
  EXPECT_EQ(dispatcher_->overview(kAt + 1s).deferred_requests, 0U);
  EXPECT_EQ(dispatcher_->counters().deferral.missed, 0U);
  EXPECT_EQ(dispatcher_->invariant_violation(kAt + 1s), "");
}

TEST_F(DeferringDispatcher, PlannersSeeTheArrivalAtOnceAndLatenciesFromTheEndOfTheWait) {
  use(deferring());
  const Ticket chat = interactive().ticket;
  const Ticket waits = batch(kAt + 1s).ticket;
  dispatcher_->answered(chat, kAt + 60s);
  dispatcher_->tick(kAt + 61s);
  dispatcher_->answered(waits, kAt + 62s);
  const auto events = dispatcher_->traffic(0, 100).events;
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[1].kind, TrafficEvent::Kind::kArrival);
  EXPECT_EQ(events[1].at, kAt + 1s);
  EXPECT_DOUBLE_EQ(events[1].completion_window_s, 600.0);
  EXPECT_EQ(events[3].kind, TrafficEvent::Kind::kFirstToken);
  EXPECT_DOUBLE_EQ(events[3].own_limit_ms, 60'000.0);
  EXPECT_DOUBLE_EQ(events[3].ttft_ms, 1'000.0);
}

// ---- a replica that serves ------------------------------------------------------------------------------------------

// One replica with a prefill rate and a fixed ITL, random interactive traffic and bursts of batch. It has room for both
// on average.
class ServingWorld final : public GrantListener {
 public:
  explicit ServingWorld(std::uint64_t seed)
      : random_(core::RandomStream{seed}), dispatcher_(options(), nullptr, now_, 1'000h) {
    dispatcher_.set_replicas({replica_named("r")}, now_);
  }

  void run() {
    core::Instant next_chat = now_, next_burst = now_, next_tick = now_;
    const core::Instant until = now_ + 40min;
    while (now_ < until + 15min) {
      const core::Instant end = events_.empty() ? core::kNever : std::get<0>(events_.top());
      now_ = std::min({next_chat, next_burst, next_tick, end});
      if (now_ == end) {
        const auto [at, ticket, first] = events_.top();
        events_.pop();
        first ? answered(ticket) : ended(ticket);
      } else if (now_ == next_tick) {
        dispatcher_.tick(now_);
        next_tick = now_ + 100ms;
      } else if (now_ == next_chat) {
        arrive(admission::Class::kInteractive);
        next_chat = now_ < until ? now_ + core::from_seconds(random_.exponential(0.25)) : core::kNever;
      } else {
        for (std::uint64_t i = 0; i < 100 + random_.below(200); ++i) arrive(admission::Class::kBatch);
        next_burst = now_ < until ? now_ + core::from_seconds(random_.exponential(300.0)) : core::kNever;
      }
    }
  }

  void deliver(Ticket ticket, const Grant& grant) override {
    Open& open = open_.at(ticket);
    if (open.batch && !grant.due_at) {
      EXPECT_EQ(waiting_chats_, 0) << "interactive requests go first";
    }
    waiting_chats_ -= open.batch ? 0 : 1;
    sent(ticket, open);
  }
  void deliver(Ticket ticket, const Refusal& refusal) override { ADD_FAILURE() << ticket << ": " << refusal.message; }

  int late_batch_ = 0, batches_ = 0;
  double worst_chat_s_ = 0.0;
  [[nodiscard]] const Dispatcher& dispatcher() const { return dispatcher_; }

 private:
  struct Open {
    bool batch = false;
    core::Instant arrival;
    std::uint32_t prompt = 0, output = 0;
  };
  static DispatchOptions options() {
    DispatchOptions made = deferring();
    made.interactive.queue_time = 60s;
    return made;
  }
  void arrive(admission::Class traffic_class) {
    RequestInfo info = info_of(0);
    Open open{traffic_class == admission::Class::kBatch, now_, 200 + static_cast<std::uint32_t>(random_.below(1'000)),
              50 + static_cast<std::uint32_t>(random_.below(100))};
    info.prompt_tokens_given = open.prompt;
    info.max_tokens = open.output;
    info.stream = true;
    info.traffic_class = traffic_class;
    info.received_at = now_;
    const ArrivalResult result = dispatcher_.arrive(info, *this, now_);
    ASSERT_FALSE(result.refusal);
    open_[result.ticket] = open;
    if (result.grant) return sent(result.ticket, open_.at(result.ticket));
    waiting_chats_ += open.batch ? 0 : 1;
  }
  // Prompts are computed one after another, at 8,000 tokens/s.
  void sent(Ticket ticket, const Open& open) {
    free_at_ = std::max(free_at_, now_) + core::from_seconds(open.prompt / 8'000.0);
    events_.push({free_at_, ticket, true});
  }
  void answered(Ticket ticket) {
    const Open& open = open_.at(ticket);
    dispatcher_.answered(ticket, now_);
    if (!open.batch) worst_chat_s_ = std::max(worst_chat_s_, core::to_seconds(now_ - open.arrival));
    events_.push({now_ + open.output * 20ms, ticket, false});
  }
  void ended(Ticket ticket) {
    const Open open = open_.at(ticket);
    RequestOutcome outcome;
    outcome.usage = TokenUsage{open.prompt, open.output, 0};
    outcome.last_token_at = now_;
    dispatcher_.ended(ticket, outcome, now_);
    batches_ += open.batch ? 1 : 0;
    late_batch_ += open.batch && now_ > open.arrival + 10min ? 1 : 0;
    open_.erase(ticket);
  }

  core::RandomStream random_;
  core::Instant now_ = kAt, free_at_ = kAt;
  Dispatcher dispatcher_;
  std::map<Ticket, Open> open_;
  std::priority_queue<std::tuple<core::Instant, Ticket, bool>, std::vector<std::tuple<core::Instant, Ticket, bool>>,
                      std::greater<>>
      events_;
  int waiting_chats_ = 0;
};

TEST(DeferralProperty, OneReplicaKeepsEveryDeadlineAndInteractiveRequestsGoFirst) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ServingWorld world{seed};
    world.run();
    EXPECT_GT(world.batches_, 500);
    EXPECT_EQ(world.late_batch_, 0);
    EXPECT_EQ(world.dispatcher().counters().deferral.missed, 0U);
    EXPECT_EQ(world.dispatcher().open_requests(), 0U);
    EXPECT_GT(world.dispatcher().counters().deferral.deferred, 300U);
    // An interactive request waits for those before it, and for one prompt of a deferred request.
    EXPECT_LT(world.worst_chat_s_, 2.0);
  }
}

TEST(DeferralCounts, AreAddedAndSubtractedOneByOne) {
  Counters counters;
  counters.deferral = {7, 4, 2, 1};
  Counters sum = counters;
  sum += counters;
  EXPECT_EQ(sum.deferral.deferred, 14U);
  EXPECT_EQ(sum.deferral.sent_spare, 8U);
  EXPECT_EQ(sum.deferral.sent_due, 4U);
  EXPECT_EQ(sum.deferral.missed, 2U);
  sum.deferral -= {3, 2, 1, 2};
  EXPECT_EQ(sum.deferral.deferred, 11U);
  EXPECT_EQ(sum.deferral.sent_spare, 6U);
  EXPECT_EQ(sum.deferral.sent_due, 3U);
  EXPECT_EQ(sum.deferral.missed, 0U);
}

}  // namespace
}  // namespace penstock::dispatch
