#include "forecast/intake.h"

#include <cmath>

namespace penstock::forecast {
namespace {

// Differences of moments within it do not overflow: about 73 years to either side of the start.
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
    if (!believes_jump_to(sample.at)) return std::nullopt;
    step = last_->step + 1;
    anchor_at_ = sample.at;
    anchor_step_ = step;
  }
  elsewhere_ = 0;
  last_ = Point{step, sample.at, sample.value, jumped};
  return last_;
}

bool Intake::believes_jump_to(core::Instant at) {
  const bool agrees = elsewhere_ > 0 && at > elsewhere_at_ && at - elsewhere_at_ <= gap_max_;
  elsewhere_ = agrees ? elsewhere_ + 1 : 1;
  elsewhere_at_ = at;
  return elsewhere_ > kSamplesToBelieve;
}

}  // namespace penstock::forecast
