// One thread's event loop: file descriptors by epoll, timers, and tasks from other threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/time.h"

namespace penstock::net {

// Who is told that a descriptor is ready. It lives until it has been unwatched.
class Watcher {
 public:
  virtual void on_ready(std::uint32_t events) = 0;  // EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLHUP, EPOLLERR

 protected:
  ~Watcher() = default;
};

// Level-triggered, so that a handler that reads once costs one system call. All calls are for the thread that runs the
// loop, or for before it runs, but for post() and stop(). What it cannot get from the system at its start (no more
// descriptors) ends the process.
class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();   // until stop()
  void stop();  // from any thread, and from a signal handler
  // Runs the task on the loop's thread, soon. From any thread. Tasks that are left when the loop ends are dropped.
  void post(std::function<void()> task);

  // Time since the process started, on the monotonic clock, as it was when the loop woke up.
  [[nodiscard]] core::Instant now() const { return now_; }
  // The same clock, read now; any thread.
  [[nodiscard]] static core::Instant read_clock();

  // Calls the watcher whenever one of the events is there. A descriptor is watched once.
  void watch(int descriptor, std::uint32_t events, Watcher& watcher);
  void change(int descriptor, std::uint32_t events, Watcher& watcher);
  // No call comes after this, not even one of the batch that is being handled.
  void unwatch(int descriptor, Watcher& watcher);

  using Timer = std::uint64_t;  // 0 is none
  // O(log timers). For what every request needs, keep deadlines in a list and look at it once a second instead.
  Timer after(core::Duration delay, std::function<void()> task);
  Timer every(core::Duration interval, std::function<void()> task);
  void cancel(Timer timer);  // of one that has run, or 0: nothing happens

 private:
  struct State;
  std::unique_ptr<State> state_;
  core::Instant now_;
};

}  // namespace penstock::net
