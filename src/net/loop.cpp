#include "net/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/result.h"
#include "net/containment.h"

namespace penstock::net {

namespace {

using core::Duration;
using core::Instant;

constexpr std::size_t kEventsMax = 256;

[[noreturn]] void end_process(const char* what) {
  std::fprintf(stderr, "penstock: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// The loop of this thread, so that a task posted from the loop itself needs no wake-up.
thread_local const void* running_loop = nullptr;

// A task that finds no memory is dropped, and the thread goes on. Tasks that must not be lost handle the failure
// themselves.
void report_dropped_task() { std::fputs("penstock: a task was dropped because an allocation failed\n", stderr); }

}  // namespace

struct Loop::State {
  struct Slot {
    Watcher* watcher = nullptr;
    // Distinguishes events of a descriptor from those of an earlier one with the same number.
    std::uint32_t generation = 0;
  };
  struct Alarm {
    std::function<void()> task;
    Duration interval{0};  // 0 for a timer that runs once.
  };
  using Due = std::pair<Instant, Timer>;

  State();
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void wake() const;
  void control(int operation, int descriptor, std::uint32_t events) const;
  int wait(Instant until, Instant now);
  void handle_events(int count);
  void run_timers(Instant now);
  bool run_tasks();
  Timer add_timer(Instant due, Alarm alarm);

  int epoll = -1;
  int event = -1;
  bool has_fine_wait = true;  // epoll_pwait2() is available (Linux 5.11).
  std::vector<Slot> slots;    // Indexed by descriptor.
  std::array<epoll_event, kEventsMax> events{};

  std::map<Due, Alarm> alarms;
  std::unordered_map<Timer, Instant> due_of;
  Timer last_timer = 0;
  Timer running_timer = 0;  // Reset to 0 if the timer's task cancels the timer.

  std::atomic<bool> stopped{false};
  std::mutex mutex;
  std::vector<std::function<void()>> tasks;  // Guarded by the mutex.
  std::vector<std::function<void()>> batch;  // The running batch of tasks; keeps its memory.
};

Loop::State::State() : epoll{epoll_create1(EPOLL_CLOEXEC)}, event{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)} {
  if (epoll < 0 || event < 0) end_process("cannot make an event loop");
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.u64 = static_cast<std::uint64_t>(event);
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, event, &interest) != 0) end_process("cannot make an event loop");
}

Loop::State::~State() {
  close(event);
  close(epoll);
}

void Loop::State::wake() const {
  const std::uint64_t one = 1;
  // The write fails only if the counter is full, and then the loop wakes up anyway.
  static_cast<void>(!write(event, &one, sizeof one));
}

void Loop::State::control(int operation, int descriptor, std::uint32_t interest) const {
  epoll_event wanted{};
  wanted.events = interest;
  wanted.data.u64 = (static_cast<std::uint64_t>(slots[static_cast<std::size_t>(descriptor)].generation) << 32) |
                    static_cast<std::uint32_t>(descriptor);
  if (epoll_ctl(epoll, operation, descriptor, &wanted) != 0) end_process("cannot watch a descriptor");
}

int Loop::State::wait(Instant until, Instant now) {
  const Duration left = std::max(until - now, Duration{0});
  const bool forever = until == core::kNever;
  const int room = static_cast<int>(events.size());
  if (has_fine_wait) {
    timespec timeout{};
    timeout.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
    timeout.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
    const int count = epoll_pwait2(epoll, events.data(), room, forever ? nullptr : &timeout, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    has_fine_wait = false;
  }
  // The wait is rounded up: a slightly late timer is better than a spinning loop.
  const auto rounded = (left.count() + 999'999) / 1'000'000;
  return epoll_wait(epoll, events.data(), room,
                    forever ? -1 : static_cast<int>(std::min<std::int64_t>(rounded, 1 << 30)));
}

void Loop::State::handle_events(int count) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const auto descriptor = static_cast<std::size_t>(events[i].data.u64 & 0xffff'ffffU);
    if (descriptor == static_cast<std::size_t>(event)) {
      std::uint64_t wakes = 0;
      static_cast<void>(!read(event, &wakes, sizeof wakes));
      continue;
    }
    const Slot slot = slots[descriptor];
    if (slot.watcher == nullptr || slot.generation != events[i].data.u64 >> 32) continue;
    contain([&] { slot.watcher->on_ready(events[i].events); }, report_dropped_task);
  }
}

void Loop::State::run_timers(Instant now) {
  // Timers that become due through these tasks wait for the next round, so that sockets get their turn.
  const Timer newest = last_timer;
  auto next = alarms.begin();
  while (next != alarms.end() && next->first.first <= now) {
    if (next->first.second > newest) {
      ++next;
      continue;
    }
    auto node = alarms.extract(next);
    running_timer = node.key().second;
    contain(node.mapped().task, report_dropped_task);
    if (node.mapped().interval.count() > 0 && running_timer != 0) {
      // Missed intervals are skipped.
      const Instant due = node.key().first + node.mapped().interval;
      node.key().first = due > now ? due : now + node.mapped().interval;
      due_of[node.key().second] = node.key().first;
      alarms.insert(std::move(node));
    } else {
      due_of.erase(node.key().second);
    }
    running_timer = 0;
    next = alarms.begin();
  }
}

bool Loop::State::run_tasks() {
  {
    const std::lock_guard lock{mutex};
    std::swap(tasks, batch);
  }
  for (auto& task : batch) {
    contain(task, report_dropped_task);
    task = nullptr;
  }
  batch.clear();
  const std::lock_guard lock{mutex};
  return !tasks.empty();
}

Loop::Timer Loop::State::add_timer(Instant due, Alarm alarm) {
  const Timer timer = ++last_timer;
  due_of.emplace(timer, due);
  alarms.emplace(Due{due, timer}, std::move(alarm));
  return timer;
}

Loop::Loop() : state_{std::make_unique<State>()}, now_{read_clock()} {}
Loop::~Loop() = default;

void Loop::run() {
  const void* outer = std::exchange(running_loop, state_.get());
  now_ = read_clock();
  while (!state_->stopped.exchange(false)) {
    const bool has_more = state_->run_tasks();
    if (state_->stopped.load()) continue;
    const Instant next = state_->alarms.empty() ? core::kNever : state_->alarms.begin()->first.first;
    const int count = state_->wait(has_more ? now_ : next, has_more || next == core::kNever ? now_ : read_clock());
    if (count < 0 && errno != EINTR) end_process("cannot wait for events");
    now_ = read_clock();
    state_->handle_events(std::max(count, 0));
    state_->run_timers(now_);
  }
  running_loop = outer;
}

void Loop::stop() {
  const int saved = errno;  // Preserves errno of the interrupted code.
  state_->stopped.store(true);
  state_->wake();
  errno = saved;
}

void Loop::post(std::function<void()> task) {
  bool is_first = false;
  {
    const std::lock_guard lock{state_->mutex};
    is_first = state_->tasks.empty();
    state_->tasks.push_back(std::move(task));
  }
  if (is_first && running_loop != state_.get()) state_->wake();
}

core::Instant Loop::read_clock() {
  static const auto start = std::chrono::steady_clock::now();
  return core::kStart + std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - start);
}

void Loop::watch(int descriptor, std::uint32_t events, Watcher& watcher) {
  const auto index = static_cast<std::size_t>(descriptor);
  if (index >= state_->slots.size()) state_->slots.resize(index + 1);
  State::Slot& slot = state_->slots[index];
  PENSTOCK_ASSERT(slot.watcher == nullptr, "a descriptor is watched once");
  slot.watcher = &watcher;
  ++slot.generation;
  state_->control(EPOLL_CTL_ADD, descriptor, events);
}

void Loop::change(int descriptor, std::uint32_t events, Watcher& watcher) {
  PENSTOCK_ASSERT(state_->slots[static_cast<std::size_t>(descriptor)].watcher == &watcher, "who watches may change it");
  state_->control(EPOLL_CTL_MOD, descriptor, events);
}

void Loop::unwatch(int descriptor, Watcher& watcher) {
  State::Slot& slot = state_->slots[static_cast<std::size_t>(descriptor)];
  PENSTOCK_ASSERT(slot.watcher == &watcher, "who watches may end it");
  state_->control(EPOLL_CTL_DEL, descriptor, 0);
  slot.watcher = nullptr;
}

Loop::Timer Loop::after(core::Duration delay, std::function<void()> task) {
  return state_->add_timer(now_ + delay, {std::move(task), Duration{0}});
}

Loop::Timer Loop::every(core::Duration interval, std::function<void()> task) {
  PENSTOCK_ASSERT(interval.count() > 0, "a timer that repeats has an interval");
  return state_->add_timer(now_ + interval, {std::move(task), interval});
}

void Loop::cancel(Timer timer) {
  if (timer == 0) return;
  if (timer == state_->running_timer) {
    state_->running_timer = 0;
    return;
  }
  const auto found = state_->due_of.find(timer);
  if (found == state_->due_of.end()) return;
  state_->alarms.erase({found->second, timer});
  state_->due_of.erase(found);
}

}  // namespace penstock::net
