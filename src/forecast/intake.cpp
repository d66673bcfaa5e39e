#include "forecast/intake.h"

#include <cmath>

namespace penstock::forecast {
namespace {

// Differences of timestamps within this range, about 73 years on either side of the start, do not overflow.
constexpr core::Duration kFarthest{core::Duration::max() / 4};

std::int64_t rounded_steps(core::Duration time, core::Duration interval) {
  return std::llround(static_cast<double>(time.count()) / static_cast<double>(interval.count()));
}

}  // namespace

std::optional<Point> Intake::accept(const Sample& sample) {
  if (!std::isfinite(sample.value)) {
    ++rejections_.not_finite;
    return std::nullopt;
  }
  if (sample.value < 0.0 || sample.value > kLargestValue) {
    ++rejections_.out_of_range;
    return std::nullopt;
  }
  const core::Duration since_start = sample.at.time_since_epoch();
  if (since_start > kFarthest || since_start < -kFarthest) {
    ++rejections_.time_jumps;
    return std::nullopt;
  }
  if (!last_) {
    anchor_at_ = sample.at;
    last_ = Point{0, sample.at, sample.value, false};
    return last_;
  }
  std::int64_t step = anchor_step_ + rounded_steps(sample.at - anchor_at_, interval_);
  const bool behind = step <= last_->step;
  const bool jumped = behind || sample.at - last_->at > gap_max_;
  if (jumped) {
    ++(behind ? rejections_.out_of_order : rejections_.time_jumps);
    if (!accepts_jump_to(sample.at)) return std::nullopt;
    step = last_->step + 1;
    anchor_at_ = sample.at;
    anchor_step_ = step;
  }
  jump_samples_ = 0;
  last_ = Point{step, sample.at, sample.value, jumped};
  return last_;
}

bool Intake::accepts_jump_to(core::Instant at) {
  const bool agrees = jump_samples_ > 0 && at > jump_at_ && at - jump_at_ <= gap_max_;
  jump_samples_ = agrees ? jump_samples_ + 1 : 1;
  jump_at_ = at;
  return jump_samples_ > kSamplesForJump;
}

}  // namespace penstock::forecast
