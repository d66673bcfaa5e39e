// Closed-loop users and replicas of which some fail, at the dispatcher alone: what share of the requests is lost.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "core/random.h"
#include "dispatch/dispatcher_testing.h"

namespace penstock::dispatch {
namespace {

using namespace testing;
using namespace std::chrono_literals;

struct Behaviour {
  core::Duration ttft = 100ms;
  core::Duration end = 2s;     // After the request was sent.
  double failure_share = 0.0;  // Of the answers, which end when they fail.
  core::Duration failure_after = 150ms;
};

struct Lost {
  int requests = 0, lost = 0;
  std::map<std::string, int> by_replica;
  [[nodiscard]] double share() const { return static_cast<double>(lost) / requests; }
};

class OutlierWorld {
 public:
  OutlierWorld(std::vector<Behaviour> replicas, DispatchOptions options = options_for_tests())
      : replicas_(std::move(replicas)), dispatcher_(std::move(options), nullptr, core::kStart, 0s) {
    std::vector<ReplicaSpec> specs;
    for (std::size_t i = 0; i < replicas_.size(); ++i) specs.push_back(replica_named("r" + std::to_string(i)));
    dispatcher_.set_replicas(specs, now_);
  }

  // Each user sends its next request as soon as the last one has ended.
  Lost run_closed_loop(int users, core::Duration length) {
    for (int i = 0; i < users; ++i) at(now_, [this] { send(true); });
    return run(length);
  }
  Lost run_open_loop(core::Duration interval, core::Duration length) {
    for (core::Duration when{}; when < length; when += interval) at(now_ + when, [this] { send(false); });
    return run(length);
  }
  [[nodiscard]] std::vector<ReplicaStatus> replicas() const { return dispatcher_.replicas(now_); }

 private:
  struct Event {
    core::Instant at;
    std::uint64_t order = 0;
    std::function<void()> run;
    bool operator>(const Event& other) const { return std::pair{at, order} > std::pair{other.at, other.order}; }
  };
  void at(core::Instant when, std::function<void()> run) { events_.push({when, ++order_, std::move(run)}); }

  Lost run(core::Duration length) {
    end_ = now_ + length;
    for (core::Instant tick = now_; tick < end_; tick += 50ms) at(tick, [this] { dispatcher_.tick(now_); });
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.run();
      EXPECT_EQ(dispatcher_.invariant_violation(now_), "");
    }
    return lost_;
  }

  void send(bool again) {
    if (now_ >= end_) return;
    RequestInfo info = info_of(400);
    info.stream = true;
    info.received_at = now_;
    const ArrivalResult result = dispatcher_.arrive(info, listener_, now_);
    ++lost_.requests;
    if (!result.grant) {
      ++lost_.lost;
      if (again) at(now_ + 100ms, [this] { send(true); });
      return;
    }
    const Ticket ticket = result.ticket;
    const std::string name = dispatcher_.replicas(now_)[result.grant->slot].spec.id;
    const Behaviour& how = replicas_[result.grant->slot];
    const bool fails = random_.uniform() < how.failure_share;
    const core::Duration ttft = fails ? std::min(how.ttft, how.failure_after) : how.ttft;
    at(now_ + ttft, [this, ticket] { dispatcher_.answered(ticket, now_); });
    at(now_ + (fails ? how.failure_after : how.end), [this, ticket, fails, again, name] {
      RequestOutcome outcome;
      outcome.outcome = fails ? ledger::Outcome::kTruncated : ledger::Outcome::kCompleted;
      outcome.attempt = fails ? Attempt::kFaulted : Attempt::kAnswered;
      outcome.output.events = 3;
      outcome.last_token_at = now_;
      dispatcher_.ended(ticket, outcome, now_);
      lost_.lost += fails ? 1 : 0;
      lost_.by_replica[name] += fails ? 1 : 0;
      if (again) send(true);
    });
  }

  std::vector<Behaviour> replicas_;
  Dispatcher dispatcher_;
  TestListener listener_;
  core::RandomStream random_{1};
  core::Instant now_ = core::kStart + 1s, end_;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Lost lost_;
};

const Behaviour kGood{}, kBad{20ms, 2s, 1.0, 60ms};

TEST(OutlierWorld, OneOfFourThatTruncatesEveryStreamLosesTwoPercent) {
  const Lost lost = OutlierWorld{{kGood, kGood, kGood, kBad}}.run_closed_loop(30, 60s);
  EXPECT_GT(lost.requests, 800);
  EXPECT_LE(lost.share(), 0.02) << lost.lost << " of " << lost.requests;
}

TEST(OutlierWorld, AnOpenLoopLosesTwoPercent) {
  const Lost lost = OutlierWorld{{kGood, kGood, kGood, kBad}}.run_open_loop(50ms, 25s);
  EXPECT_EQ(lost.requests, 500);
  EXPECT_LE(lost.share(), 0.02) << lost.lost << " of " << lost.requests;
}

TEST(OutlierWorld, OneOfTwoThatTruncatesIsEjected) {
  const Lost lost = OutlierWorld{{kGood, kBad}}.run_closed_loop(10, 40s);
  EXPECT_GE(lost.requests, 190);
  EXPECT_LE(lost.lost, 8) << lost.requests;
}

TEST(OutlierWorld, AReplicaThatFailsNowAndThenIsEjectedForItsSuccessRate) {
  Behaviour flaky = kGood;
  flaky.failure_share = 0.3;
  flaky.failure_after = 1s;
  OutlierWorld world{{kGood, kGood, kGood, flaky}};
  const Lost lost = world.run_closed_loop(40, 300s);
  EXPECT_LE(lost.share(), 0.02) << lost.lost << " of " << lost.requests;
  EXPECT_GE(world.replicas()[3].ejections_total, 1U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(world.replicas()[static_cast<std::size_t>(i)].ejections_total, 0U);
}

TEST(OutlierWorld, RareFailuresOfAllEjectNoReplica) {
  Behaviour flaky = kGood;
  flaky.failure_share = 0.02;
  OutlierWorld world{{flaky, flaky, flaky, flaky}};
  static_cast<void>(world.run_closed_loop(40, 300s));
  for (const ReplicaStatus& status : world.replicas()) EXPECT_EQ(status.ejections_total, 0U) << status.spec.id;
}

TEST(OutlierWorld, TheLastReplicasStayAlsoIfAllFail) {
  OutlierWorld world{{kBad, kBad, kBad, kBad}};
  const Lost lost = world.run_closed_loop(10, 60s);
  int eligible = 0;
  for (const ReplicaStatus& status : world.replicas()) eligible += status.load.eligible ? 1 : 0;
  EXPECT_GE(eligible, 2) << "at most half is ejected";
  for (const auto& [replica, count] : lost.by_replica) EXPECT_GT(count, 0) << replica;
}

TEST(OutlierWorld, TheSlowestTrialIsJudgedByItsEnd) {
  Behaviour late = kBad;
  late.failure_after = 5s;
  const Lost lost = OutlierWorld{{kGood, kGood, kGood, late}}.run_closed_loop(30, 60s);
  EXPECT_LE(lost.share(), 0.03) << lost.lost << " of " << lost.requests;
}

}  // namespace
}  // namespace penstock::dispatch
