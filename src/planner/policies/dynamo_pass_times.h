// How long a forward pass of an engine takes, learned from the passes that its pool reports.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>

#include "core/iteration_totals.h"
#include "core/state_archive.h"

namespace penstock::planner {

// The work of one forward pass. Counts may be fractions, because estimates are made of scaled loads.
struct ForwardPass {
  double prefill_requests = 0.0, prefill_tokens = 0.0;
  double prefill_context_tokens = 0.0;  // Tokens of the same prompts that were in the cache before.
  double decode_sequences = 0.0;
  double decode_tokens = 0.0;  // Sum of their lengths.
};

// The estimator "fpm_regression" of AISimulate, which Dynamo's planner 1.6.1 uses with its defaults:
//   time = c + a · attention + f · tokens, with a, f >= 0, by least squares
//   attention = decode tokens + context + prompt tokens · (context / requests + (prompt tokens / requests + 1) / 2)
//   context = tokens of the same prompts that were in the cache before
//   tokens = prompt tokens + decoding sequences
// Passes that only prefill, only decode, or do both have regressions of their own, each ready from the fifth pass. A
// regression keeps 64 passes. Above that it drops the first one of the fullest of 4 · 4 buckets, which divide the range
// of ln(1 + feature). A fit with a = f = 0 is discarded, and the one before stays. AISimulate publishes no formula;
// this one reproduces its answers (docs/policies.md).
class DynamoPassTimes {
 public:
  static constexpr std::size_t kPassesMax = 64, kPassesMin = 5, kBucketsPerAxis = 4;

  // Passes without work or time are ignored.
  void observe(const core::Iteration& pass);
  // In seconds; empty while there is no fit for passes of this kind.
  [[nodiscard]] std::optional<double> estimate(const ForwardPass& pass) const;
  // Whether there is a fit for passes of some kind.
  [[nodiscard]] bool ready() const { return kinds_[0].fitted || kinds_[1].fitted || kinds_[2].fitted; }
  [[nodiscard]] std::size_t passes() const;

  void archive(core::StateArchive& state) { state.values_of(kinds_); }

 private:
  using Features = std::array<double, 2>;
  struct Sample {
    Features x{};
    double seconds = 0.0;
    void archive(core::StateArchive& state) { state.values_of(x, seconds); }
  };
  struct Regression {
    // When the range grows, all samples are put into their new buckets, in the order of the old ones.
    std::array<std::deque<Sample>, kBucketsPerAxis * kBucketsPerAxis> buckets;
    std::size_t size = 0;
    Features least{}, most{};  // Of the logarithms of all samples so far.
    double constant = 0.0;
    Features slopes{};
    bool fitted = false;
    void add(const Sample& sample);
    void fit();
    [[nodiscard]] std::size_t bucket_of(const Sample& sample) const;
    void archive(core::StateArchive& state) { state.values_of(buckets, size, least, most, constant, slopes, fitted); }
  };
  [[nodiscard]] static std::size_t kind_of(const ForwardPass& pass);
  [[nodiscard]] static Features features_of(const ForwardPass& pass);

  std::array<Regression, 3> kinds_{};  // Prefill, decode, both.
};

}  // namespace penstock::planner
