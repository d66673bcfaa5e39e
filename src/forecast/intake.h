// What a predictor lets in: samples become points on a regular grid, and what is not a value or not in order is counted
// and kept out, so that no state ever holds it.
#pragma once

#include <cstdint>
#include <optional>

#include "core/state_archive.h"
#include "core/time.h"

namespace penstock::forecast {

// The mean of a series over the interval that ends at `at`. An interval that nobody measured has no sample; it is not 0.
struct Sample {
  core::Instant at;
  double value = 0.0;
};

// Samples that were refused, by reason.
struct Rejections {
  std::uint64_t not_finite = 0;    // NaN or infinite
  std::uint64_t out_of_range = 0;  // below 0 or above kLargestValue
  std::uint64_t out_of_order = 0;  // not later than the last sample, by half an interval or more
  std::uint64_t time_jumps = 0;    // further ahead than the greatest gap

  [[nodiscard]] std::uint64_t total() const { return not_finite + out_of_range + out_of_order + time_jumps; }
  void archive(core::StateArchive& state) { state.values_of(not_finite, out_of_range, out_of_order, time_jumps); }
};

// A sample in its place. Steps count intervals; missing intervals leave a hole in the count.
struct Point {
  std::int64_t step = 0;
  core::Instant at;
  double value = 0.0;
  bool after_jump = false;  // the clock jumped: how much is missing before it is unknown
  void archive(core::StateArchive& state) { state.values_of(step, at, value, after_jump); }
};

class Intake {
 public:
  static constexpr double kLargestValue = 1e12;  // its square and sums of squares stay exact enough
  // A clock that jumped and stays there is believed after so many refused samples in a row that agree with each other.
  static constexpr int kSamplesToBelieve = 5;

  Intake(core::Duration interval, core::Duration gap_max) : interval_(interval), gap_max_(gap_max) {}

  // None: refused and counted. After a believed jump the next step follows the last one, at its new time.
  [[nodiscard]] std::optional<Point> accept(const Sample& sample);

  [[nodiscard]] const Rejections& rejections() const { return rejections_; }
  [[nodiscard]] const std::optional<Point>& last() const { return last_; }

  void archive(core::StateArchive& state) {
    state("intake", anchor_at_, anchor_step_, last_, rejections_, elsewhere_, elsewhere_at_);
  }

 private:
  [[nodiscard]] bool believes_jump_to(core::Instant at);

  core::Duration interval_, gap_max_;
  core::Instant anchor_at_;
  std::int64_t anchor_step_ = 0;
  std::optional<Point> last_;
  Rejections rejections_;
  int elsewhere_ = 0;  // refused in a row, each shortly after the one before
  core::Instant elsewhere_at_;
};

}  // namespace penstock::forecast
