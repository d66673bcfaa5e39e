#include "net/signals.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "core/result.h"

namespace penstock::net {

struct SignalWatch::State final : Watcher {
  State(Loop& loop_, std::initializer_list<int> signals, std::function<void(int)> on_signal_)
      : loop{loop_}, on_signal{std::move(on_signal_)} {
    sigemptyset(&watched);
    for (const int signal : signals) sigaddset(&watched, signal);
    pthread_sigmask(SIG_BLOCK, &watched, &before);
    descriptor = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
    PENSTOCK_ASSERT(descriptor >= 0, "a process that starts has a descriptor for its signals");
    loop.watch(descriptor, EPOLLIN, *this);
  }
  ~State() {
    loop.unwatch(descriptor, *this);
    close(descriptor);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void on_ready(std::uint32_t) override {
    signalfd_siginfo info{};
    if (read(descriptor, &info, sizeof info) != sizeof info) return;
    // A copy, because the call may destroy this watch.
    const auto call = on_signal;
    call(static_cast<int>(info.ssi_signo));
  }

  Loop& loop;
  std::function<void(int)> on_signal;
  sigset_t watched{}, before{};
  int descriptor = -1;
};

SignalWatch::SignalWatch(Loop& loop, std::initializer_list<int> signals, std::function<void(int)> on_signal)
    : state_{std::make_unique<State>(loop, signals, std::move(on_signal))} {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

SignalWatch::~SignalWatch() = default;

}  // namespace penstock::net
