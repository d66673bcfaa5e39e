// Event loop of one thread: file descriptors by epoll, timers, and tasks from other threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/time.h"

namespace penstock::net {

// Receives the events of a descriptor. It must outlive its registration.
class Watcher {
 public:
  virtual void on_ready(std::uint32_t events) = 0;  // EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLHUP and EPOLLERR.

 protected:
  ~Watcher() = default;
};

// The loop is level-triggered, so that a handler that reads once costs one system call. All calls except post() and
// stop() belong to the loop's thread, or happen before run(). The process ends if the system cannot provide the loop's
// descriptors.
class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();   // Runs until stop().
  void stop();  // May be called from any thread and from a signal handler.
  // Runs the task on the loop's thread. May be called from any thread. Pending tasks are dropped when the loop ends.
  void post(std::function<void()> task);

  // Time since the process started on the monotonic clock, read when the loop woke up.
  [[nodiscard]] core::Instant now() const { return now_; }
  // Reads the same clock now. May be called from any thread.
  [[nodiscard]] static core::Instant read_clock();

  // Calls the watcher whenever one of the events is pending. A descriptor has at most one watcher.
  void watch(int descriptor, std::uint32_t events, Watcher& watcher);
  void change(int descriptor, std::uint32_t events, Watcher& watcher);
  // No call follows, not even from the current batch of events.
  void unwatch(int descriptor, Watcher& watcher);

  using Timer = std::uint64_t;  // 0 means no timer.
  // O(log timers). For per-request deadlines, use a list that is swept once per second instead.
  Timer after(core::Duration delay, std::function<void()> task);
  Timer every(core::Duration interval, std::function<void()> task);
  void cancel(Timer timer);  // Expired timers and 0 are ignored.

 private:
  struct State;
  std::unique_ptr<State> state_;
  core::Instant now_;
};

}  // namespace penstock::net
