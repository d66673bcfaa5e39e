#include "routing/prefix_reuse.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace penstock::routing {
namespace {

constexpr core::Duration kReuseStep = PrefixReuse::kFades / 60;

std::ptrdiff_t bucket(core::Duration idle) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(std::max(idle, core::Duration{})).count();
  return std::min<std::ptrdiff_t>(std::bit_width(static_cast<std::uint64_t>(seconds)), PrefixReuse::kBuckets - 1);
}

}  // namespace

void PrefixReuse::sent(std::uint32_t tokens, std::uint32_t cached, core::Duration idle, core::Instant now) {
  if (now - faded_at_ >= kReuseStep) {
    const double kept = std::exp(-core::to_seconds(now - faded_at_) / core::to_seconds(kFades));
    for (double& used_again : used_again_) used_again *= kept;
    sent_ *= kept;
    faded_at_ = now;
  }
  sent_ += tokens;
  used_again_[static_cast<std::size_t>(bucket(idle))] += cached;
}

double PrefixReuse::probability(core::Duration idle) const {
  const double later = std::accumulate(used_again_.begin() + bucket(idle), used_again_.end(), 0.0);
  if (later <= 0.0) return 0.0;
  const double never = std::max(0.0, sent_ - std::accumulate(used_again_.begin(), used_again_.end(), 0.0));
  return later / (later + never);
}

}  // namespace penstock::routing
