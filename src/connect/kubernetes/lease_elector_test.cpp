#include "connect/kubernetes/lease_elector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"

namespace penstock::connect {
namespace {

using namespace std::chrono_literals;
using Kind = LeaseElector::Request::Kind;

core::Instant at(core::Duration time) { return core::kStart + time; }

LeaseElector elector(const std::string& identity, std::uint64_t seed = 1) {
  return {LeaseOptions{identity}, core::RandomStream{seed}};
}

Lease held_by(const std::string& holder, int version, core::Duration duration = 10s) {
  Lease lease;
  lease.holder = holder;
  lease.duration = duration;
  lease.resource_version = std::to_string(version);
  return lease;
}

// Makes the elector the holder by a write that began at `sent`.
void acquire(LeaseElector& elector, core::Duration sent, core::Duration answered, int version) {
  EXPECT_EQ(elector.next(at(sent)).kind, Kind::kRead);
  elector.on_read(at(sent), held_by("", version));
  EXPECT_EQ(elector.next(at(sent)).kind, Kind::kWrite);
  elector.on_written(at(sent), at(answered), held_by("a", version + 1));
}

TEST(LeaseElector, StopsTwoThirdsOfTheDurationAfterTheStartOfTheLastRenewal) {
  LeaseElector a = elector("a");
  EXPECT_FALSE(a.may_act(at(0s)));
  acquire(a, 1s, 3s, 7);
  EXPECT_TRUE(a.may_act(at(3s)));
  EXPECT_EQ(a.deadline(), at(1s) + 20'000'000'000ns / 3);
  EXPECT_TRUE(a.may_act(at(7600ms)));
  EXPECT_FALSE(a.may_act(at(7700ms)));
  // It renews after a fifth of the duration.
  EXPECT_EQ(a.next(at(3100ms)).kind, Kind::kWrite);
  a.on_failed(at(5s), LeaseFailure::kUnknown);
  EXPECT_TRUE(a.may_act(at(5s)));
  EXPECT_EQ(a.next(at(6s)).kind, Kind::kRead) << "the write may have been carried out";
  a.on_read(at(6s), held_by("a", 9));
  EXPECT_EQ(a.next(at(6s)).kind, Kind::kWrite);
  EXPECT_FALSE(a.may_act(at(7700ms))) << "only an answer counts";
  a.on_written(at(6s), at(9s), held_by("a", 10));
  EXPECT_TRUE(a.may_act(at(9s)));
  EXPECT_EQ(a.term(), 1U);
}

TEST(LeaseElector, AStoppedProcessDoesNotActBeforeItHasRenewed) {
  LeaseElector a = elector("a");
  acquire(a, 1s, 1s, 7);
  EXPECT_FALSE(a.may_act(at(31s)));
  // An answer that waited in the socket is as old as its request.
  EXPECT_EQ(a.next(at(3s)).kind, Kind::kWrite);
  a.on_written(at(3s), at(31s), held_by("a", 9));
  EXPECT_FALSE(a.may_act(at(31s)));
  EXPECT_EQ(a.next(at(31s)).kind, Kind::kWrite);
  a.on_failed(at(31s), LeaseFailure::kConflict);
  EXPECT_EQ(a.next(at(31s)).kind, Kind::kRead);
  a.on_read(at(31s), held_by("b", 20));
  EXPECT_EQ(a.holder(), "b");
  EXPECT_EQ(a.next(at(31s)).kind, Kind::kNone);
  EXPECT_FALSE(a.may_act(at(31s)));
}

TEST(LeaseElector, TakesOverOneDurationAfterItSawTheLastChange) {
  LeaseElector a = elector("a");
  EXPECT_EQ(a.next(at(0s)).kind, Kind::kRead);
  a.on_read(at(100s), held_by("b", 1, 15s));
  core::Instant now = at(100s);
  int reads = 0;
  for (;;) {
    now = std::max(now, a.due());
    const auto request = a.next(now);
    ASSERT_NE(request.kind, Kind::kNone);
    if (request.kind == Kind::kWrite) {
      EXPECT_EQ(request.lease.holder, "a");
      EXPECT_EQ(request.lease.resource_version, "1");
      EXPECT_EQ(request.lease.transitions, 1);
      EXPECT_TRUE(request.is_transition);
      break;
    }
    ++reads;
    a.on_read(now, held_by("b", 1, 15s));
  }
  EXPECT_EQ(now, at(115s)) << "the holder's own duration counts";
  EXPECT_GE(reads, 6);
  a.on_failed(now, LeaseFailure::kConflict);
  EXPECT_FALSE(a.may_act(now));
}

TEST(LeaseElector, TakesAReleasedLeaseAtOnce) {
  LeaseElector a = elector("a");
  acquire(a, 0s, 0s, 3);
  a.end(at(1s));
  EXPECT_FALSE(a.may_act(at(1s)));
  EXPECT_FALSE(a.is_ended());
  const auto request = a.next(at(1s));
  EXPECT_EQ(request.kind, Kind::kWrite);
  EXPECT_EQ(request.lease.holder, "");
  a.on_written(at(1s), at(1s), held_by("", 5));
  EXPECT_TRUE(a.is_ended());
  EXPECT_EQ(a.next(at(10s)).kind, Kind::kNone);
  EXPECT_FALSE(a.may_act(at(1s)));

  LeaseElector b = elector("b");
  EXPECT_EQ(b.next(at(1s)).kind, Kind::kRead);
  b.on_read(at(1s), held_by("", 5));
  EXPECT_EQ(b.next(at(1s)).kind, Kind::kWrite);
}

TEST(LeaseElector, WhoCreatesTheLeaseActsOneDurationLater) {
  LeaseElector a = elector("a");
  EXPECT_EQ(a.next(at(0s)).kind, Kind::kRead);
  a.on_failed(at(0s), LeaseFailure::kNotFound);
  const core::Instant now = a.due();
  EXPECT_LT(now, at(1s));
  const auto request = a.next(now);
  EXPECT_EQ(request.kind, Kind::kWrite);
  EXPECT_EQ(request.lease.resource_version, "");
  // Whether it was carried out is unknown at first.
  a.on_failed(at(2s), LeaseFailure::kUnknown);
  EXPECT_EQ(a.next(a.due()).kind, Kind::kRead);
  a.on_read(at(3s), held_by("a", 1));
  for (int version = 2; a.due() < at(12s); ++version) {
    const core::Instant sent = a.due();
    EXPECT_EQ(a.next(sent).kind, Kind::kWrite);
    a.on_written(sent, sent, held_by("a", version));
    EXPECT_FALSE(a.may_act(sent));
  }
  EXPECT_EQ(a.acts_from(), at(13s));
  EXPECT_TRUE(a.may_act(at(13s)));

  LeaseElector b = elector("b");
  EXPECT_EQ(b.next(at(0s)).kind, Kind::kRead);
  b.on_failed(at(0s), LeaseFailure::kNotFound);
  EXPECT_EQ(b.next(at(1s)).kind, Kind::kWrite);
  b.on_written(at(1s), at(1s), held_by("b", 1));
  b.end(at(2s));
  EXPECT_TRUE(b.is_ended()) << "a Lease that is given up would be taken at once";
  EXPECT_EQ(b.next(at(2s)).kind, Kind::kNone);
}

TEST(LeaseElector, TermsTellWhetherAnotherHeldTheLease) {
  LeaseElector a = elector("a");
  acquire(a, 0s, 0s, 1);
  EXPECT_EQ(a.next(at(20s)).kind, Kind::kWrite);
  a.on_written(at(20s), at(20s), held_by("a", 3));
  EXPECT_EQ(a.term(), 1U) << "no other planner held it";
  EXPECT_EQ(a.next(at(40s)).kind, Kind::kWrite);
  a.on_failed(at(40s), LeaseFailure::kConflict);
  EXPECT_EQ(a.next(at(40s)).kind, Kind::kRead);
  a.on_read(at(40s), held_by("", 9));
  EXPECT_EQ(a.next(at(40s)).kind, Kind::kWrite);
  a.on_written(at(40s), at(40s), held_by("a", 10));
  EXPECT_EQ(a.term(), 2U);
}

// ---- properties -----------------------------------------------------------------------------------------------------

// An API server, a network that delays and loses, and processes that stop, die and come back, in steps of simulated
// time. Each process has a clock of its own offset.
class World {
 public:
  World(std::uint64_t seed, std::size_t planners, bool has_faults) : random_{seed}, has_faults_{has_faults} {
    for (std::size_t i = 0; i < planners; ++i) processes_.push_back(born());
  }

  void run(core::Duration time) {
    for (const core::Instant end = now_ + time; now_ < end; now_ += kStep) step();
  }
  // Processes whose elector says that they may act, stopped ones included: they could wake up now.
  [[nodiscard]] std::size_t acting() const {
    return static_cast<std::size_t>(
        std::count_if(processes_.begin(), processes_.end(), [&](const Process& each) { return acts(each); }));
  }
  void kill_holder() {
    for (Process& process : processes_)
      if (acts(process)) process = born();
  }
  void end_holder() {
    for (Process& process : processes_)
      if (acts(process)) process.elector->end(now_ + process.offset);
  }
  [[nodiscard]] core::Instant now() const { return now_; }
  // How long no planner acted, at its longest since the last call.
  core::Duration longest_pause() { return std::exchange(pause_, core::Duration{}); }
  std::size_t most = 0, changes = 0;

 private:
  static constexpr core::Duration kStep = 10ms;
  struct Message {
    core::Instant arrives, answered;
    LeaseElector::Request request;
    core::Instant sent;    // On the clock of the process.
    bool is_lost = false;  // Before the server.
    bool answer_is_lost = false;
    bool has_arrived = false;
    std::optional<Lease> lease{};  // The answer; none: a failure.
    LeaseFailure failure = LeaseFailure::kUnknown;
  };
  struct Process {
    std::unique_ptr<LeaseElector> elector;
    core::Duration offset{};
    std::optional<Message> in_flight{};
    core::Instant wakes{};
    std::uint64_t number = 0;
  };

  [[nodiscard]] bool acts(const Process& process) const { return process.elector->may_act(now_ + process.offset); }

  Process born() {
    const std::uint64_t number = ++born_;
    return {std::make_unique<LeaseElector>(LeaseOptions{"planner-" + std::to_string(number)}, random_.fork(number)),
            core::from_seconds(random_.uniform(0.0, 1e6)),
            {},
            now_ + core::from_seconds(random_.uniform(0.0, 2.0)),
            number};
  }
  bool happens(double probability) { return has_faults_ && random_.uniform() < probability; }
  core::Duration delay() {
    if (!has_faults_) return 5ms;
    return core::from_seconds(happens(0.05) ? random_.uniform(0.0, 12.0) : random_.uniform(0.001, 0.2));
  }

  void serve(Message& message) {
    message.has_arrived = true;
    if (message.is_lost) return;
    if (message.request.kind == Kind::kRead) {
      message.lease = stored_;
      message.failure = LeaseFailure::kNotFound;
      return;
    }
    const Lease& wanted = message.request.lease;
    const bool is_create = wanted.resource_version.empty();
    if (happens(0.03)) {
      message.failure = LeaseFailure::kRefused;
    } else if (!is_create && !stored_) {
      message.failure = LeaseFailure::kNotFound;
    } else if (is_create ? stored_.has_value() : stored_->resource_version != wanted.resource_version) {
      message.failure = LeaseFailure::kConflict;
    } else {
      stored_ = wanted;
      stored_->resource_version = std::to_string(++version_);
      message.lease = stored_;
    }
  }

  void step() {
    if (happens(0.0002)) stored_.reset();                                                    // A person deletes it.
    if (stored_ && happens(0.0005)) stored_->resource_version = std::to_string(++version_);  // Or labels it.
    for (Process& process : processes_) {
      if (process.in_flight && !process.in_flight->has_arrived && now_ >= process.in_flight->arrives)
        serve(*process.in_flight);
      // What a dead process sent still arrives.
      if (happens(0.0002)) {
        if (process.in_flight) orphans_.push_back(*process.in_flight);
        process = born();
      }
      if (happens(0.0002)) process.elector->end(now_ + process.offset);
      if (!process.in_flight && process.elector->is_ended()) process = born();
      if (happens(0.0005)) process.wakes = now_ + core::from_seconds(random_.uniform(0.0, 40.0));
      if (now_ >= process.wakes) run(process);
    }
    for (Message& message : orphans_)
      if (!message.has_arrived && now_ >= message.arrives) serve(message);
    std::erase_if(orphans_, [](const Message& message) { return message.has_arrived; });
    watch();
  }

  void run(Process& process) {
    const core::Instant local = now_ + process.offset;
    LeaseElector& elector = *process.elector;
    if (process.in_flight && now_ >= process.in_flight->answered) {
      const Message done = *process.in_flight;
      if (!done.has_arrived) orphans_.push_back(done);  // The client gave up; the request is still on its way.
      process.in_flight.reset();
      if (!done.has_arrived || done.answer_is_lost)
        elector.on_failed(local, LeaseFailure::kUnknown);
      else if (!done.lease)
        elector.on_failed(local, done.is_lost ? LeaseFailure::kUnknown : done.failure);
      else if (done.request.kind == Kind::kRead)
        elector.on_read(local, *done.lease);
      else
        elector.on_written(done.sent, local, *done.lease);
    }
    if (process.in_flight) return;
    auto request = elector.next(local);
    if (request.kind == Kind::kNone) return;
    Message message;
    message.request = std::move(request);
    message.sent = local;
    message.arrives = now_ + delay();
    message.is_lost = happens(0.05);
    message.answer_is_lost = happens(0.05);
    message.answered = message.arrives + delay();
    const core::Instant timeout = now_ + LeaseOptions{}.request_timeout();
    if (message.answered > timeout) {
      message.answer_is_lost = true;
      message.answered = timeout;
    }
    process.in_flight = std::move(message);
  }

  void watch() {
    const std::size_t count = acting();
    most = std::max(most, count);
    if (count == 0) {
      quiet_ += kStep;
      pause_ = std::max(pause_, quiet_);
      return;
    }
    quiet_ = {};
    for (const Process& process : processes_)
      if (acts(process) && std::exchange(leader_, process.number) != process.number) ++changes;
  }

  core::RandomStream random_;
  bool has_faults_;
  core::Instant now_ = core::kStart + 1h;
  std::uint64_t born_ = 0, version_ = 0, leader_ = 0;
  std::vector<Process> processes_;
  std::vector<Message> orphans_;
  std::optional<Lease> stored_;
  core::Duration quiet_{}, pause_{};
};

TEST(LeaseElectorProperty, AtMostOneMayActUnderLossesDelaysPausesAndDeletions) {
  std::size_t changes = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    World world{seed, 2 + seed % 2, true};
    world.run(10min);
    ASSERT_LE(world.most, 1U) << "seed " << seed;
    changes += world.changes;
  }
  EXPECT_GT(changes, 1000U) << "the test must see many changes of the leader";
}

TEST(LeaseElectorProperty, AnotherPlannerActsWithin15SecondsAfterTheLeaderDied) {
  core::Duration longest{};
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    World world{seed, 2 + seed % 2, false};
    world.run(14s);
    ASSERT_EQ(world.acting(), 1U) << "seed " << seed;
    for (int i = 0; i < 5; ++i) {
      world.run(std::chrono::milliseconds{300 * i});
      static_cast<void>(world.longest_pause());
      world.kill_holder();
      world.run(20s);
      ASSERT_EQ(world.acting(), 1U);
      longest = std::max(longest, world.longest_pause());
    }
    ASSERT_LE(world.most, 1U);
  }
  EXPECT_GT(longest, 10s);
  EXPECT_LT(longest, 12500ms);
}

TEST(LeaseElectorProperty, AnotherPlannerActsAtOnceAfterACleanEnd) {
  core::Duration longest{};
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    World world{seed, 2, false};
    world.run(14s);
    static_cast<void>(world.longest_pause());
    world.end_holder();
    world.run(5s);
    ASSERT_EQ(world.acting(), 1U);
    ASSERT_LE(world.most, 1U);
    longest = std::max(longest, world.longest_pause());
  }
  EXPECT_LT(longest, 2500ms);
}

}  // namespace
}  // namespace penstock::connect
