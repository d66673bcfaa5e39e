// Estimates the prefill rate of a replica from the times to first token of its requests.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace penstock::routing {

// Model: TTFT = (tokens ahead + own tokens) / rate + constant. The rate is averaged in logarithms, so that one outlier
// moves it by a bounded factor. Requests with few tokens update the constant instead. Without new samples the estimate
// decays to the fleet's rate, so that a replica that was slow once receives requests again.
class PrefillRate {
 public:
  static constexpr double kLowest = 50.0, kHighest = 2e6;  // Bounds in tokens per second.
  static constexpr double kEnoughTokens = 256.0;           // Minimum own tokens of a sample that updates the rate.
  // Maximum tokens ahead plus own tokens of a sample that updates the constant.
  static constexpr double kFewTokens = 64.0;
  static constexpr double kConstantMsMax = 500.0;
  // The estimate keeps its full weight for this time after a sample.
  static constexpr core::Duration kKept = std::chrono::seconds{30};
  // The estimate then decays over this time.
  static constexpr core::Duration kFades = std::chrono::seconds{120};

  // Returns true if the sample updated the rate. `fleet_tokens_per_s` is the expected rate of a replica without
  // samples.
  bool observe(double tokens_ahead, double own_tokens, core::Duration ttft, core::Instant now,
               double fleet_tokens_per_s);

  [[nodiscard]] double tokens_per_s(core::Instant now, double fleet_tokens_per_s) const;
  [[nodiscard]] double constant_ms() const { return constant_ms_; }
  // Returns the time at which tokens_per_s() will have changed through decay.
  [[nodiscard]] core::Instant changes_after(core::Instant now) const;

 private:
  [[nodiscard]] double faded(core::Instant now) const;  // Share of the estimate that has decayed, 0 to 1.

  double log_rate_ = 0.0;
  double constant_ms_ = 0.0;
  std::uint32_t samples_ = 0;
  core::Instant learned_{};
};

}  // namespace penstock::routing
