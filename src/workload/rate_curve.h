// A rate curve as what it adds up to: how many arrivals are expected by a time, and the time by which so many are.
#pragma once

#include <optional>

#include "core/time.h"
#include "workload/synthetic.h"

namespace penstock::workload {

// Gaps that are drawn for one arrival a second become arrivals of any rate curve when the n-th is put where the curve
// has added up to its time; that keeps the spread of the gaps, in units of the mean gap of the moment, what it was
// drawn as (time rescaling; Brown et al. 2002, https://doi.org/10.1162/08997660252741149).
class ExpectedArrivals {
 public:
  ExpectedArrivals(const RateCurve& curve, core::Duration duration);

  [[nodiscard]] double until(double time_s) const;  // from the start
  [[nodiscard]] double all() const { return all_; }

  // The first time by which `count` arrivals are expected; none if the duration ends before. Calls with rising counts
  // take a few evaluations of the curve each.
  [[nodiscard]] std::optional<double> time_s_of(double count);

 private:
  RateCurve curve_;
  double duration_s_;
  double all_;
  double last_time_s_ = 0.0, last_count_ = 0.0;
};

}  // namespace penstock::workload
