#include "net/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

namespace penstock::net {
namespace {

TEST(SignalWatch, ReportsSignalsOnTheLoop) {
  Loop loop;
  std::vector<int> seen;
  SignalWatch watch{loop, {SIGUSR1, SIGUSR2}, [&](int signal) {
                      seen.push_back(signal);
                      if (seen.size() == 2) loop.stop();
                    }};
  raise(SIGUSR1);
  loop.post([] { raise(SIGUSR2); });
  loop.run();
  EXPECT_EQ(seen, (std::vector<int>{SIGUSR1, SIGUSR2}));
}

TEST(SignalWatch, MayBeDestroyedWithinItsCallback) {
  Loop loop;
  std::unique_ptr<SignalWatch> watch;
  int calls = 0;
  watch = std::make_unique<SignalWatch>(loop, std::initializer_list<int>{SIGUSR1}, [&](int) {
    watch.reset();
    ++calls;
    loop.stop();
  });
  raise(SIGUSR1);
  loop.run();
  EXPECT_EQ(calls, 1);
}

TEST(SignalWatch, RestoresTheSignalMask) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    Loop loop;
    const SignalWatch watch{loop, {SIGUSR1}, [](int) {}};
    sigset_t during;
    pthread_sigmask(SIG_SETMASK, nullptr, &during);
    EXPECT_EQ(sigismember(&during, SIGUSR1), 1);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGUSR1), sigismember(&after, SIGUSR1));
}

}  // namespace
}  // namespace penstock::net
