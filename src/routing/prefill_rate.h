// Estimates the prefill rate of a replica from the times to first token of its requests.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/time.h"

namespace penstock::routing {

// The part of a TTFT that does not depend on the prompt, in milliseconds. Queues of other clients only lengthen it, so
// that short samples are closer to the true value and weigh more.
class TtftConstant {
 public:
  // Without an earlier value, the first sample is averaged with `first_ms`, or taken as it is.
  void observe(double sample_ms, std::optional<double> first_ms = {});
  [[nodiscard]] const std::optional<double>& ms() const { return ms_; }
  [[nodiscard]] std::uint32_t samples() const { return samples_; }

 private:
  std::optional<double> ms_;
  std::uint32_t samples_ = 0;
};

// What is known of the rates of all replicas, from which each differs by a factor.
class FleetSpeed {
 public:
  // A rate to begin with, in tokens per second.
  explicit FleetSpeed(double tokens_per_s) : all_{std::log(tokens_per_s)} {}

  [[nodiscard]] double tokens_per_s() const { return std::exp(all_.log_rate); }
  [[nodiscard]] double constant_ms() const { return constant_.ms().value_or(0.0); }

 private:
  friend class PrefillRate;
  // Mean of the logarithms of the rates that samples show.
  struct Mean {
    double log_rate = 0.0;
    std::uint32_t samples = 0;
    void observe(double log_sample, double weight);
  };
  [[nodiscard]] Mean& of_size(double tokens);

  Mean all_;
  std::array<Mean, 8> by_size_{};  // Prompts of 256 to 511 tokens, of 512 to 1,023, and so on.
  TtftConstant constant_;
};

// Model: TTFT = (tokens ahead + own tokens) / rate + constant. Rates are averaged in logarithms, so that one outlier
// moves them by a bounded factor. Requests with few tokens update the constant instead. Without new samples the
// estimate decays to the fleet's rate, so that a replica that was slow once receives requests again.
//
// The fixed time of an iteration makes short prompts look slow. A replica is therefore compared with the fleet's rate
// for prompts of the same size. Otherwise one with short prompts would look slower than the others and would receive no
// long ones, which would show the opposite. The constant begins with that of the fleet, because a difference of some
// milliseconds moves requests to another replica and few samples do not show one.
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

  // Updates the rate or the constant, and those of the fleet.
  void observe(double tokens_ahead, double own_tokens, core::Duration ttft, core::Instant now, FleetSpeed& fleet);

  [[nodiscard]] double tokens_per_s(core::Instant now, const FleetSpeed& fleet) const;
  [[nodiscard]] double constant_ms(const FleetSpeed& fleet) const;
  // Returns the time at which tokens_per_s() will have changed through decay.
  [[nodiscard]] core::Instant changes_after(core::Instant now) const;

 private:
  [[nodiscard]] double log_factor(core::Instant now) const;
  [[nodiscard]] double faded(core::Instant now) const;  // Share of the estimate that has decayed, 0 to 1.

  double log_factor_ = 0.0;  // Of the fleet's rate.
  double samples_ = 0.0;     // Sum of their weights.
  TtftConstant constant_;
  core::Instant learned_{};
};

}  // namespace penstock::routing
