#include "net/loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace penstock::net {
namespace {

using std::chrono::milliseconds;

// Two connected sockets; the first one is watched.
class Pair final : public Watcher {
 public:
  explicit Pair(Loop& loop) : loop_{loop} {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_.data()), 0);
    loop_.watch(ends_[0], EPOLLIN, *this);
  }
  ~Pair() {
    unwatch();
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void unwatch() {
    if (watched_) loop_.unwatch(ends_[0], *this);
    watched_ = false;
  }
  void change(std::uint32_t events) { loop_.change(ends_[0], events, *this); }
  void fill() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  void on_ready(std::uint32_t events) override {
    last_events = events;
    ++calls;
    char byte = 0;
    if ((events & EPOLLIN) != 0) {
      EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
    }
    if (then) then();
  }

  int calls = 0;
  std::uint32_t last_events = 0;
  std::function<void()> then;

 private:
  Loop& loop_;
  std::array<int, 2> ends_{};
  bool watched_ = true;
};

TEST(Loop, ReportsReadyDescriptors) {
  Loop loop;
  Pair pair{loop};
  pair.then = [&] { loop.stop(); };
  pair.fill();
  loop.run();
  EXPECT_EQ(pair.calls, 1);
  EXPECT_EQ(pair.last_events, static_cast<std::uint32_t>(EPOLLIN));
}

TEST(Loop, AChangeOfInterestTakesEffect) {
  Loop loop;
  Pair pair{loop};
  pair.fill();
  pair.change(EPOLLOUT);
  pair.then = [&] { loop.stop(); };
  loop.run();
  EXPECT_EQ(pair.last_events, static_cast<std::uint32_t>(EPOLLOUT));
}

TEST(Loop, DoesNotCallWatchersRemovedInTheSameBatch) {
  Loop loop;
  std::vector<std::unique_ptr<Pair>> pairs;
  int calls = 0;
  for (int i = 0; i < 10; ++i) {
    pairs.push_back(std::make_unique<Pair>(loop));
    pairs.back()->fill();
    pairs.back()->then = [&] {
      // The first call closes all other pairs.
      if (++calls > 1) return;
      for (auto& pair : pairs)
        if (pair->calls == 0) pair.reset();
    };
  }
  loop.after(milliseconds{20}, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(calls, 1);
}

TEST(Loop, DropsEventsOfAReusedDescriptor) {
  Loop loop;
  auto first = std::make_unique<Pair>(loop), second = std::make_unique<Pair>(loop);
  std::unique_ptr<Pair> successor;
  int calls = 0;
  const auto replace = [&](std::unique_ptr<Pair>& other) {
    return [&] {
      if (++calls > 1) return;
      other.reset();
      successor = std::make_unique<Pair>(loop);  // It reuses the descriptor numbers that were just closed.
    };
  };
  first->then = replace(second);
  second->then = replace(first);
  first->fill();
  second->fill();
  loop.after(milliseconds{20}, [&] { loop.stop(); });
  loop.run();
  ASSERT_NE(successor, nullptr);
  EXPECT_EQ(successor->calls, 0);
}

TEST(Loop, RunsTimersInOrder) {
  Loop loop;
  std::string order;
  loop.after(milliseconds{3}, [&] { order += 'c'; });
  loop.after(milliseconds{1}, [&] { order += 'a'; });
  loop.after(milliseconds{1}, [&] { order += 'b'; });
  loop.after(milliseconds{5}, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(order, "abc");
}

TEST(Loop, NoTimerFiresEarly) {
  Loop loop;
  const core::Instant begin = loop.now();
  core::Instant then;
  loop.after(std::chrono::microseconds{1500}, [&] {
    then = Loop::read_clock();
    loop.stop();
  });
  loop.run();
  EXPECT_GE(then - begin, std::chrono::microseconds{1500});
}

TEST(Loop, ACancelledTimerDoesNotRun) {
  Loop loop;
  int runs = 0;
  const auto cancelled = loop.after(milliseconds{1}, [&] { ++runs; });
  loop.cancel(cancelled);
  loop.cancel(cancelled);
  loop.cancel(0);
  loop.after(milliseconds{5}, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(runs, 0);
}

TEST(Loop, ATimerRepeatsUntilItCancelsItself) {
  Loop loop;
  int runs = 0;
  Loop::Timer timer = 0;
  timer = loop.every(milliseconds{1}, [&] {
    if (++runs == 3) loop.cancel(timer);
  });
  loop.after(milliseconds{20}, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(runs, 3);
}

TEST(Loop, ATimerMayCancelAnotherThatIsDue) {
  Loop loop;
  int runs = 0;
  Loop::Timer first = 0, second = 0;
  first = loop.after(milliseconds{1}, [&] { ++runs, loop.cancel(second); });
  second = loop.after(milliseconds{1}, [&] { ++runs, loop.cancel(first); });
  loop.after(milliseconds{5}, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(runs, 1);
}

TEST(Loop, ImmediateTimersDoNotStarveSockets) {
  Loop loop;
  Pair pair{loop};
  pair.then = [&] { loop.stop(); };
  pair.fill();
  std::function<void()> again = [&] { loop.after(core::Duration{0}, again); };
  again();
  loop.run();
  EXPECT_EQ(pair.calls, 1);
}

TEST(Loop, RepostingTasksDoNotStarveSockets) {
  Loop loop;
  Pair pair{loop};
  pair.then = [&] { loop.stop(); };
  pair.fill();
  std::function<void()> again = [&] { loop.post(again); };
  again();
  loop.run();
  EXPECT_EQ(pair.calls, 1);
}

TEST(Loop, RunsTasksOfEachThreadInOrder) {
  Loop loop;
  constexpr int kThreads = 4, kTasks = 5000;
  std::array<int, kThreads> next{};
  int done = 0, out_of_order = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kTasks; ++i)
        loop.post([&, thread, i] {
          out_of_order += next[static_cast<std::size_t>(thread)]++ != i ? 1 : 0;
          if (++done == kThreads * kTasks) loop.stop();
        });
    });
  loop.run();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(done, kThreads * kTasks);
  EXPECT_EQ(out_of_order, 0);
}

TEST(Loop, StopsFromAnotherThreadAndBeforeItRuns) {
  Loop loop;
  loop.stop();
  loop.run();
  for (int i = 0; i < 100; ++i) {
    std::thread other{[&] { loop.stop(); }};
    loop.run();
    other.join();
  }
}

TEST(Loop, DropsPendingTasksAtTheEnd) {
  auto owned = std::make_shared<int>(0);
  {
    Loop loop;
    loop.post([owned] { ++*owned; });
    loop.stop();
    loop.run();
  }
  EXPECT_EQ(*owned, 0);
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace penstock::net
