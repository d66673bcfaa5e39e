// Ctrl-C and polite kills as events of a loop.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "net/loop.h"

namespace penstock::net {

// While it lives, the signals are blocked for the thread that made it (and for threads that it starts) and call
// `on_signal(number)` on the loop. To be made before other threads. It ignores SIGPIPE and
// SIGXFSZ for good: a peer that has gone and a file that may not grow are errors of a write, not the end.
class SignalWatch {
 public:
  SignalWatch(Loop& loop, std::initializer_list<int> signals, std::function<void(int)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::net
