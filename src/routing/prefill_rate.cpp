#include "routing/prefill_rate.h"

#include <algorithm>
#include <cmath>

namespace penstock::routing {
namespace {

constexpr double kGain = 0.1;  // Weight of a sample.
// Samples of fewer tokens have less weight: the fixed time of an iteration makes short prompts look slow, and replicas
// with short prompts would look slower than others.
constexpr double kFullTokens = 4096.0;
constexpr double kFirstGain = 0.5;  // Weight of the first sample.
// A sample counts as at most this much faster or slower than the current estimate.
constexpr double kOddFactor = 4.0;

}  // namespace

double PrefillRate::faded(core::Instant now) const {
  if (samples_ == 0) return 1.0;
  return std::clamp(core::to_seconds(now - learned_ - kKept) / core::to_seconds(kFades), 0.0, 1.0);
}

core::Instant PrefillRate::changes_after(core::Instant now) const {
  if (samples_ > 0 && now < learned_ + kKept) return learned_ + kKept;
  return now + std::chrono::seconds{2};
}

double PrefillRate::tokens_per_s(core::Instant now, double fleet_tokens_per_s) const {
  const double lost = faded(now);
  if (lost >= 1.0) return fleet_tokens_per_s;
  if (lost <= 0.0) return std::exp(log_rate_);
  return std::exp(log_rate_ + lost * (std::log(fleet_tokens_per_s) - log_rate_));
}

bool PrefillRate::observe(double tokens_ahead, double own_tokens, core::Duration ttft, core::Instant now,
                          double fleet_tokens_per_s) {
  const double tokens = tokens_ahead + own_tokens;
  const double ttft_ms = core::to_milliseconds(ttft);
  const double known = tokens_per_s(now, fleet_tokens_per_s);
  if (tokens <= kFewTokens) {
    const double rest_ms = std::clamp(ttft_ms - tokens / known * 1e3, 0.0, kConstantMsMax);
    // Queues of other clients only lengthen the constant, so short samples are closer to the true value and weigh more.
    constant_ms_ += (rest_ms > constant_ms_ ? 0.02 : 0.3) * (rest_ms - constant_ms_);
    return false;
  }
  if (own_tokens < kEnoughTokens) return false;
  const double work_ms = ttft_ms - constant_ms_;
  if (work_ms <= 0.0) return false;
  const double sample =
      std::clamp(std::clamp(tokens / work_ms * 1e3, known / kOddFactor, known * kOddFactor), kLowest, kHighest);
  const double gain =
      std::max(kGain * std::min(1.0, tokens / kFullTokens), kFirstGain * std::max(faded(now), 1.0 / (1.0 + samples_)));
  log_rate_ = std::log(known) + gain * (std::log(sample) - std::log(known));
  learned_ = now;
  if (samples_ < 1000) ++samples_;
  return true;
}

}  // namespace penstock::routing
