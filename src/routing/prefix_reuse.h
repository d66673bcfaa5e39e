// Learns how likely a cached prefix is used again, by the time since its last use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/time.h"

namespace penstock::routing {

// Of the prompt tokens that were sent, some are used again as the prefix of a later prompt. What was not used again
// counts as never used again, so that the probability is low at first and for traffic without shared prefixes. Tokens
// count 1/e after kFades. Not thread-safe.
class PrefixReuse {
 public:
  static constexpr core::Duration kFades = std::chrono::minutes{30};
  static constexpr std::ptrdiff_t kBuckets = 13;

  // `tokens` of a prompt were sent; `cached` of them were last used `idle` ago.
  void sent(std::uint32_t tokens, std::uint32_t cached, core::Duration idle, core::Instant now);
  // Returns the probability that a prefix which was last used `idle` ago is used again.
  [[nodiscard]] double probability(core::Duration idle) const;

 private:
  // Tokens used again, by the time since their last use: below 1 s, below 2 s, below 4 s, …, at least 2,048 s.
  std::array<double, kBuckets> used_again_{};
  double sent_ = 0.0;
  core::Instant faded_at_{};
};

}  // namespace penstock::routing
