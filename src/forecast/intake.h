// Input validation of a predictor: samples become points on a regular grid; invalid or out-of-order samples are counted
// and dropped, so that no state contains them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/state_archive.h"
#include "core/time.h"

namespace penstock::forecast {

// Mean of a series over the interval that ends at `at`. An interval without a measurement has no sample, rather than 0.
struct Sample {
  core::Instant at;
  double value = 0.0;
};

// Dropped samples by reason.
struct Rejections {
  std::uint64_t not_finite = 0;    // NaN or infinite.
  std::uint64_t out_of_range = 0;  // Below 0 or above kLargestValue.
  std::uint64_t out_of_order = 0;  // Earlier than half an interval after the last sample.
  std::uint64_t time_jumps = 0;    // Later than the largest allowed gap.

  [[nodiscard]] std::uint64_t total() const { return not_finite + out_of_range + out_of_order + time_jumps; }
  void archive(core::StateArchive& state) { state.values_of(not_finite, out_of_range, out_of_order, time_jumps); }
};

// A sample on the grid. Steps count intervals; missing intervals are gaps in the steps.
struct Point {
  std::int64_t step = 0;
  core::Instant at;
  double value = 0.0;
  bool after_jump = false;  // The clock jumped, so the number of missing intervals is unknown.
  void archive(core::StateArchive& state) { state.values_of(step, at, value, after_jump); }
};

class Intake {
 public:
  static constexpr double kLargestValue = 1e12;  // The square and sums of squares keep sufficient precision.
  // A clock jump is accepted after this many dropped samples in a row that are consistent with each other.
  static constexpr int kSamplesForJump = 5;

  Intake(core::Duration interval, core::Duration gap_max) : interval_(interval), gap_max_(gap_max) {}

  // Empty: the sample was dropped and counted. After an accepted jump the next step follows the last one, with the new
  // time.
  [[nodiscard]] std::optional<Point> accept(const Sample& sample);

  [[nodiscard]] const Rejections& rejections() const { return rejections_; }
  [[nodiscard]] const std::optional<Point>& last() const { return last_; }

  void archive(core::StateArchive& state) {
    state("intake", anchor_at_, anchor_step_, last_, rejections_, jump_samples_, jump_at_);
  }

 private:
  [[nodiscard]] bool accepts_jump_to(core::Instant at);

  core::Duration interval_, gap_max_;
  core::Instant anchor_at_;
  std::int64_t anchor_step_ = 0;
  std::optional<Point> last_;
  Rejections rejections_;
  int jump_samples_ = 0;  // Number of dropped samples in a row, each shortly after the previous one.
  core::Instant jump_at_;
};

}  // namespace penstock::forecast
