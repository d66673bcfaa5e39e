// CPU time, which unlike the time on the wall hardly depends on what else a machine does.
#pragma once

#include <ctime>

namespace penstock::evaluation {

// Measures the CPU time of the calling thread since its construction.
class CpuTimer {
 public:
  [[nodiscard]] double seconds() const { return thread_seconds() - start_; }

 private:
  static double thread_seconds() {
    std::timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double start_ = thread_seconds();
};

}  // namespace penstock::evaluation
