// SIGINT, SIGTERM and other signals as events of a loop.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "net/loop.h"

namespace penstock::net {

// Blocks the signals for the thread that creates it and all threads started later, and calls `on_signal(number)` on the
// loop. It must be created before other threads. SIGPIPE and SIGXFSZ are ignored permanently: a closed peer and a full
// file are errors of a write.
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
