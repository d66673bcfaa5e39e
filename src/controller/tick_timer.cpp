#include "controller/tick_timer.h"

#include <ctime>

#include "net/loop.h"

namespace penstock::controller {
namespace {

core::Duration thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

}  // namespace

TickTimer::TickTimer(report::TickTimes& times)
    : times_(times), began_(net::Loop::read_clock()), cpu_began_(thread_cpu_time()) {}

TickTimer::~TickTimer() {
  times_.wall_s.add(core::to_seconds(net::Loop::read_clock() - began_));
  times_.cpu_s.add(core::to_seconds(thread_cpu_time() - cpu_began_));
}

}  // namespace penstock::controller
