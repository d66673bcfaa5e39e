// How long answers of a model take, and how their ITL depends on the requests that a replica runs at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/time.h"

namespace penstock::dispatch {

// Learned from the answers of all replicas of a model; a sample counts half after about 140 later ones. The ITL is a
// line over the concurrent requests of a replica, fitted by least squares with a weak prior for its slope. A line says
// little about loads that were never seen, so that the ITL is unknown far beyond them.
class AnswerTimes {
 public:
  // The first token of an answer came this long after its request went to a replica.
  void first_token(core::Duration ttft) {
    const double ms = core::to_milliseconds(ttft);
    ttft_ms_ = ttft_known_ ? ttft_ms_ + kTtftShare * (ms - ttft_ms_) : ms;
    ttft_known_ = true;
  }
  // An answer with this ITL ended. `concurrent`: requests that ran on its replica, itself included, on average.
  void ended(double concurrent, double itl_ms) {
    if (!std::isfinite(itl_ms) || itl_ms < 0.0 || !(concurrent >= 1.0)) return;
    weight_ = kKept * weight_ + 1.0;
    n_ += (concurrent - n_) / weight_;
    itl_ += (itl_ms - itl_) / weight_;
    nn_ += (concurrent * concurrent - nn_) / weight_;
    n_itl_ += (concurrent * itl_ms - n_itl_) / weight_;
    most_ = std::max(concurrent, most_ - kMostFalls * (most_ - n_));
  }

  // Expected ITL with so many concurrent requests; infinite for more than were seen, by a margin.
  [[nodiscard]] double itl_ms(double concurrent) const {
    if (concurrent > std::max(kUnseen, kBeyond * most_)) return INFINITY;
    return weight_ > 0.0 ? std::max(0.0, itl_ + slope() * (concurrent - n_)) : 0.0;
  }
  // Expected time from the dispatch of a request to its end, at the load of recent answers.
  [[nodiscard]] core::Duration answer_time(std::uint32_t output_tokens) const {
    const double itl = weight_ > 0.0 ? itl_ : kFirstItlMs;
    return core::from_milliseconds((ttft_known_ ? ttft_ms_ : kFirstTtftMs) + itl * output_tokens);
  }

 private:
  static constexpr double kKept = 0.995, kTtftShare = 0.02, kMostFalls = 0.001;
  static constexpr double kFirstTtftMs = 1000.0, kFirstItlMs = 33.0;  // Until answers have been measured.
  static constexpr double kSlopePriorMs = 0.15, kSlopePriorWeight = 100.0;
  static constexpr double kUnseen = 8.0, kBeyond = 1.25;

  [[nodiscard]] double slope() const {
    const double varied = weight_ * std::max(0.0, nn_ - n_ * n_), both = weight_ * (n_itl_ - n_ * itl_);
    return std::max(0.0, (both + kSlopePriorWeight * kSlopePriorMs) / (varied + kSlopePriorWeight));
  }

  double ttft_ms_ = 0.0;
  bool ttft_known_ = false;
  double weight_ = 0.0, n_ = 0.0, itl_ = 0.0, nn_ = 0.0, n_itl_ = 0.0;  // Means of the samples.
  double most_ = 0.0;                                                   // Concurrent requests, falling slowly.
};

}  // namespace penstock::dispatch
