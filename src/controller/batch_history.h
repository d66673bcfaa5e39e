// How full the batches of a pool were in the last hour, to see whether they are filled less at no less load.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "core/time.h"

namespace penstock::controller {

// Keeps means by minute. Not thread-safe.
class BatchHistory {
 public:
  // `efficiency` is the mean of the ready replicas; unknown values are left out. O(1).
  void observe(core::Instant at, std::optional<double> efficiency, std::optional<double> output_tokens_per_s);

  struct Comparison {
    double now = 0.0, before = 0.0;  // Efficiency of the last ten minutes, and of ten minutes an hour earlier.
  };
  // Empty unless both are known and at least 90 % of the tokens of then are generated now. O(minutes).
  [[nodiscard]] std::optional<Comparison> at_no_less_load() const;

 private:
  struct Minute {
    std::int64_t number = 0;
    double efficiency = 0.0, tokens_per_s = 0.0;  // Sums of the samples.
    std::uint32_t samples = 0;
  };
  struct Means {
    double efficiency = 0.0, tokens_per_s = 0.0;
  };
  // Of the minutes with these ages; empty if fewer than half of them have samples.
  [[nodiscard]] std::optional<Means> means(std::int64_t youngest, std::int64_t oldest) const;

  std::deque<Minute> minutes_;
};

}  // namespace penstock::controller
