#include "routing/prefill_rate.h"

#include <algorithm>
#include <limits>

namespace penstock::routing {
namespace {

constexpr double kGain = 0.1;  // Weight of a sample.
// Samples of fewer tokens have less weight, because the time of an iteration is most of theirs.
constexpr double kFullTokens = 4096.0;
constexpr double kFirstGain = 0.5;  // Weight of the first sample.
// A sample counts as at most this much faster or slower than expected.
constexpr double kOddFactor = 4.0;
constexpr double kLongerGain = 0.02, kShorterGain = 0.3;  // Weights of a sample of the constant.
constexpr double kConstantSamples = 50.0;  // Samples of a replica's constant that count as much as the fleet's.

const double kLogLowest = std::log(PrefillRate::kLowest), kLogHighest = std::log(PrefillRate::kHighest);
const double kLogOdd = std::log(kOddFactor);

double clamped(double log_rate) { return std::clamp(log_rate, kLogLowest, kLogHighest); }

}  // namespace

void TtftConstant::observe(double sample_ms, std::optional<double> first_ms) {
  const double before_ms = ms_ ? *ms_ : first_ms.value_or(sample_ms);
  ms_ = before_ms + (sample_ms > before_ms ? kLongerGain : kShorterGain) * (sample_ms - before_ms);
  if (samples_ < std::numeric_limits<std::uint32_t>::max()) ++samples_;
}

void FleetSpeed::Mean::observe(double log_sample, double weight) {
  log_rate += std::max(kGain * weight, kFirstGain / (1.0 + samples)) * (log_sample - log_rate);
  samples = std::min(1000U, samples + 1);
}

FleetSpeed::Mean& FleetSpeed::of_size(double tokens) {
  const double doublings = std::log2(std::max(tokens / PrefillRate::kEnoughTokens, 1.0));
  return by_size_[std::min(by_size_.size() - 1, static_cast<std::size_t>(doublings))];
}

double PrefillRate::faded(core::Instant now) const {
  if (samples_ <= 0.0) return 1.0;
  return std::clamp(core::to_seconds(now - learned_ - kKept) / core::to_seconds(kFades), 0.0, 1.0);
}

core::Instant PrefillRate::changes_after(core::Instant now) const {
  if (samples_ > 0.0 && now < learned_ + kKept) return learned_ + kKept;
  return now + std::chrono::seconds{2};
}

double PrefillRate::log_factor(core::Instant now) const { return (1.0 - faded(now)) * log_factor_; }

double PrefillRate::tokens_per_s(core::Instant now, const FleetSpeed& fleet) const {
  return std::exp(clamped(fleet.all_.log_rate + log_factor(now)));
}

double PrefillRate::constant_ms(const FleetSpeed& fleet) const {
  const double samples = constant_.samples();
  return std::lerp(fleet.constant_ms(), constant_.ms().value_or(0.0), samples / (samples + kConstantSamples));
}

void PrefillRate::observe(double tokens_ahead, double own_tokens, core::Duration ttft, core::Instant now,
                          FleetSpeed& fleet) {
  if (ttft <= core::Duration{}) return;  // It was answered before it was sent here.
  const double tokens = tokens_ahead + own_tokens;
  const double ttft_ms = core::to_milliseconds(ttft);
  if (tokens <= kFewTokens) {
    const double rest_ms = std::clamp(ttft_ms - tokens / tokens_per_s(now, fleet) * 1e3, 0.0, kConstantMsMax);
    constant_.observe(rest_ms, fleet.constant_.ms());
    fleet.constant_.observe(rest_ms);
    return;
  }
  const double work_ms = ttft_ms - constant_ms(fleet);
  if (own_tokens < kEnoughTokens || work_ms <= 0.0) return;
  FleetSpeed::Mean& size = fleet.of_size(tokens);
  const double factor = log_factor(now);
  const double expected = size.samples == 0 ? std::log(tokens_per_s(now, fleet)) : size.log_rate + factor;
  const double sample = clamped(std::clamp(std::log(tokens / work_ms * 1e3), expected - kLogOdd, expected + kLogOdd));
  if (size.samples == 0) size.log_rate = sample;
  const double weight = std::min(1.0, tokens / kFullTokens);
  const double gain = weight * std::max(kGain, kFirstGain * std::max(faded(now), 1.0 / (1.0 + samples_)));
  log_factor_ = factor + gain * (sample - size.log_rate - factor);
  learned_ = now;
  samples_ = std::min(1000.0, samples_ + weight);
  size.observe(sample, weight);
  fleet.all_.observe(sample, weight);
}

}  // namespace penstock::routing
