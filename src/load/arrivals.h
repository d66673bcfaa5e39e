// When requests are meant to start: a rate over time, and how evenly they come.
#pragma once

#include <optional>

#include "core/random.h"
#include "core/time.h"
#include "workload/synthetic.h"

namespace penstock::load {

enum class ArrivalKind : std::uint8_t {
  kPoisson,  // independent users
  kUniform,  // evenly spaced, the first at once
  kBurst,    // gaps of a gamma process, with a standard deviation of three times their mean
};

// Every so often the rate is that many times higher for a while.
struct Bursts {
  double factor = 1.0;
  core::Duration every{}, length{};  // 0: none; the first begins after `every`
};

struct RateProfile {
  workload::RateCurve curve;
  Bursts bursts;
  [[nodiscard]] double at_time(core::Duration since_start) const;  // requests per second
};

class Arrivals {
 public:
  Arrivals(const RateProfile& profile, ArrivalKind kind, core::Duration duration, core::RandomStream random);

  // None once the duration is over. Steps through the rate in slices of 10 ms.
  [[nodiscard]] std::optional<core::Duration> next();

 private:
  [[nodiscard]] double draw_gap();

  RateProfile profile_;
  ArrivalKind kind_;
  core::Duration duration_;
  core::RandomStream random_;
  bool is_first_ = true;
  double due_count_ = 0.0;     // expected arrivals by which the next one comes
  core::Duration slice_{};     // start of the slice that is looked at …
  double count_before_ = 0.0;  // … and the arrivals expected before it
};

}  // namespace penstock::load
