// How fast a replica prefills, learned from the first tokens of what was sent there.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace penstock::routing {

// A first token comes after (tokens ahead of it + its own) / rate + a constant. The rate is a mean of logarithms, so that
// one odd sample moves it by a bounded factor; requests with few tokens teach the constant instead. What was learned
// fades into the fleet's rate when nothing confirms it: a replica that was slow once must get a chance to be fast.
class PrefillRate {
 public:
  static constexpr double kLowest = 50.0, kHighest = 2e6;  // tokens a second
  static constexpr double kEnoughTokens = 256.0;           // own ones, to teach the rate
  static constexpr double kFewTokens = 64.0;               // ahead and own, to teach the constant
  static constexpr double kConstantMsMax = 500.0;
  static constexpr core::Duration kKept = std::chrono::seconds{30};    // without a sample, fully believed
  static constexpr core::Duration kFades = std::chrono::seconds{120};  // then, until only the fleet's counts

  // Returns true when it observed the rate. `fleet_tokens_per_s` is what is expected of a replica that is not known.
  bool observe(double tokens_ahead, double own_tokens, core::Duration ttft, core::Instant now,
               double fleet_tokens_per_s);

  [[nodiscard]] double tokens_per_s(core::Instant now, double fleet_tokens_per_s) const;
  [[nodiscard]] double constant_ms() const { return constant_ms_; }
  // When tokens_per_s() will have changed by itself.
  [[nodiscard]] core::Instant changes_after(core::Instant now) const;

 private:
  [[nodiscard]] double faded(core::Instant now) const;  // share of what was learned that is lost, 0..1

  double log_rate_ = 0.0;
  double constant_ms_ = 0.0;
  std::uint32_t samples_ = 0;
  core::Instant learned_{};
};

}  // namespace penstock::routing
