// Intended start times of requests: a rate over time and an arrival process.
#pragma once

#include <optional>

#include "core/random.h"
#include "core/time.h"
#include "workload/synthetic.h"

namespace penstock::load {

enum class ArrivalKind : std::uint8_t {
  kPoisson,  // Independent users.
  kUniform,  // Evenly spaced, the first one at once.
  kBurst,    // Gaps of a gamma process whose standard deviation is three times the mean.
};

// Periodic bursts during which the rate is multiplied.
struct Bursts {
  double factor = 1.0;
  core::Duration every{}, length{};  // 0 means no bursts; the first one starts after `every`.
};

struct RateProfile {
  workload::RateCurve curve;
  Bursts bursts;
  [[nodiscard]] double at_time(core::Duration since_start) const;  // Requests per second.
};

class Arrivals {
 public:
  Arrivals(const RateProfile& profile, ArrivalKind kind, core::Duration duration, core::RandomStream random);

  // Returns nothing once the duration is over. Integrates the rate in slices of 10 ms.
  [[nodiscard]] std::optional<core::Duration> next();

 private:
  [[nodiscard]] double draw_gap();

  RateProfile profile_;
  ArrivalKind kind_;
  core::Duration duration_;
  core::RandomStream random_;
  bool is_first_ = true;
  double due_count_ = 0.0;     // Expected number of arrivals at which the next one occurs.
  core::Duration slice_{};     // Start of the current slice.
  double count_before_ = 0.0;  // Expected arrivals before the slice.
};

}  // namespace penstock::load
