#include "load/arrivals.h"

namespace penstock::load {
namespace {

constexpr core::Duration kSlice = std::chrono::milliseconds{10};
constexpr double kBurstCv = 3.0;

}  // namespace

double RateProfile::at_time(core::Duration since_start) const {
  const double rate = curve.at_time(since_start);
  if (bursts.every.count() == 0 || since_start < bursts.every) return rate;
  return since_start % bursts.every < bursts.length ? rate * bursts.factor : rate;
}

Arrivals::Arrivals(const RateProfile& profile, ArrivalKind kind, core::Duration duration, core::RandomStream random)
    : profile_{profile}, kind_{kind}, duration_{duration}, random_{random} {}

double Arrivals::draw_gap() {
  switch (kind_) {
    case ArrivalKind::kPoisson: return random_.exponential(1.0);
    case ArrivalKind::kUniform: return is_first_ ? 0.0 : 1.0;
    case ArrivalKind::kBurst: return random_.gamma(1.0 / (kBurstCv * kBurstCv), kBurstCv * kBurstCv);
  }
  return 1.0;
}

// Gaps are drawn for one arrival per second and placed where the integral of the rate reaches them (see
// workload/rate_curve.h).
std::optional<core::Duration> Arrivals::next() {
  due_count_ += draw_gap();
  is_first_ = false;
  while (slice_ < duration_) {
    const double rate = profile_.at_time(slice_ + kSlice / 2);
    const double within = rate * core::to_seconds(kSlice);
    if (count_before_ + within > due_count_) {
      const core::Duration at = slice_ + core::from_seconds((due_count_ - count_before_) / rate);
      if (at >= duration_) break;
      return at;
    }
    count_before_ += within;
    slice_ += kSlice;
  }
  return std::nullopt;
}

}  // namespace penstock::load
