// The integral of a rate curve: the expected number of arrivals up to a time, and its inverse.
#pragma once

#include <optional>

#include "core/time.h"
#include "workload/synthetic.h"

namespace penstock::workload {

// Gaps that are drawn for one arrival per second become arrivals of any rate curve if the n-th is placed at the time at
// which the integral reaches its value. The spread of the gaps relative to the local mean gap is preserved (time
// rescaling; Brown et al. 2002, https://doi.org/10.1162/08997660252741149).
class ExpectedArrivals {
 public:
  ExpectedArrivals(const RateCurve& curve, core::Duration duration);

  [[nodiscard]] double until(double time_s) const;  // From the start.
  [[nodiscard]] double all() const { return all_; }

  // Returns the first time by which `count` arrivals are expected, or nothing if the duration ends before. Calls with
  // ascending counts need a few evaluations of the curve each.
  [[nodiscard]] std::optional<double> time_s_of(double count);

 private:
  RateCurve curve_;
  double duration_s_;
  double all_;
  double last_time_s_ = 0.0, last_count_ = 0.0;
};

}  // namespace penstock::workload
