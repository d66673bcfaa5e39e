// A mergeable quantile sketch with a stated relative error: logarithmic buckets, as DDSketch (Masson et al., VLDB
// 2019).
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::core {

// Holds non-negative values in buckets whose bounds grow by (1+e)/(1-e), so that any quantile is within the relative
// error e of a true sample. Values below kSmallest count as zero. Merging is exact. 8 bytes per bucket; values between
// 1e-6 and 1e9 fill at most about 1,730 buckets at e = 1 %.
class QuantileSketch {
 public:
  static constexpr double kRelativeError = 0.01;
  static constexpr double kSmallest = 1e-6;

  void add(double value, std::uint64_t times = 1);  // The value must be finite and not negative.
  void merge(const QuantileSketch& other);
  void clear();

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double sum() const { return sum_; }
  [[nodiscard]] double mean() const;                 // 0 if empty.
  [[nodiscard]] double max() const { return max_; }  // Exact; 0 if empty.
  // `quantile` is in [0, 1]. Returns 0 if empty.
  [[nodiscard]] double quantile(double quantile) const;
  // Returns the share of values that are at most `limit`; 1 if empty.
  [[nodiscard]] double share_at_most(double limit) const;

 private:
  [[nodiscard]] static int bucket_of(double value);

  std::vector<std::uint64_t> counts_;  // counts_[i] counts bucket first_ + i.
  int first_ = 0;
  std::uint64_t zeros_ = 0;
  std::uint64_t count_ = 0;
  double sum_ = 0.0;
  double max_ = 0.0;
};

// Exact summary of a sample, by linear interpolation between closest ranks (the definition of numpy.percentile).
struct Summary {
  double mean = 0.0, p50 = 0.0, p90 = 0.0, p95 = 0.0, p99 = 0.0, max = 0.0;
};
// Reorders `values`. All fields are 0 if it is empty.
[[nodiscard]] Summary summarize(std::vector<float>& values);
[[nodiscard]] Summary summarize(const QuantileSketch& sketch);

}  // namespace penstock::core
