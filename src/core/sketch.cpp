#include "core/sketch.h"

#include <algorithm>
#include <cmath>

#include "core/result.h"

namespace penstock::core {
namespace {

constexpr double kGamma = (1.0 + QuantileSketch::kRelativeError) / (1.0 - QuantileSketch::kRelativeError);
const double kLogGamma = std::log(kGamma);

// Returns the representative value of a bucket, which is within the relative error of both its bounds.
double value_of(int bucket) { return 2.0 * std::exp(bucket * kLogGamma) / (kGamma + 1.0); }

}  // namespace

int QuantileSketch::bucket_of(double value) { return static_cast<int>(std::ceil(std::log(value) / kLogGamma)); }

void QuantileSketch::add(double value, std::uint64_t times) {
  PENSTOCK_ASSERT(value >= 0.0 && std::isfinite(value), "a sketch holds finite non-negative values");
  if (times == 0) return;
  count_ += times;
  sum_ += value * static_cast<double>(times);
  max_ = std::max(max_, value);
  if (value < kSmallest) {
    zeros_ += times;
    return;
  }
  const int bucket = bucket_of(value);
  if (counts_.empty()) {
    first_ = bucket;
    counts_.resize(1);
  } else if (bucket < first_) {
    counts_.insert(counts_.begin(), static_cast<std::size_t>(first_ - bucket), 0);
    first_ = bucket;
  } else if (bucket >= first_ + static_cast<int>(counts_.size())) {
    counts_.resize(static_cast<std::size_t>(bucket - first_ + 1));
  }
  counts_[static_cast<std::size_t>(bucket - first_)] += times;
}

void QuantileSketch::merge(const QuantileSketch& other) {
  if (other.count_ == 0) return;
  if (!other.counts_.empty()) {
    if (counts_.empty()) {
      counts_ = other.counts_;
      first_ = other.first_;
    } else {
      const int first = std::min(first_, other.first_);
      const int last =
          std::max(first_ + static_cast<int>(counts_.size()), other.first_ + static_cast<int>(other.counts_.size()));
      counts_.insert(counts_.begin(), static_cast<std::size_t>(first_ - first), 0);
      counts_.resize(static_cast<std::size_t>(last - first));
      first_ = first;
      for (std::size_t i = 0; i < other.counts_.size(); ++i)
        counts_[static_cast<std::size_t>(other.first_ - first) + i] += other.counts_[i];
    }
  }
  zeros_ += other.zeros_;
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

void QuantileSketch::clear() { *this = QuantileSketch{}; }

double QuantileSketch::mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }

double QuantileSketch::quantile(double quantile) const {
  if (count_ == 0) return 0.0;
  const auto rank = static_cast<std::uint64_t>(std::clamp(quantile, 0.0, 1.0) * static_cast<double>(count_ - 1));
  if (rank < zeros_) return 0.0;
  std::uint64_t seen = zeros_;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (rank < seen) return std::min(value_of(first_ + static_cast<int>(i)), max_);
  }
  return max_;
}

double QuantileSketch::share_at_most(double limit) const {
  if (count_ == 0) return 1.0;
  if (limit >= max_) return 1.0;
  std::uint64_t seen = limit >= 0.0 ? zeros_ : 0;
  if (limit >= kSmallest) {
    const int bucket = bucket_of(limit);
    for (std::size_t i = 0; i < counts_.size() && first_ + static_cast<int>(i) <= bucket; ++i) seen += counts_[i];
  }
  return static_cast<double>(seen) / static_cast<double>(count_);
}

Summary summarize(std::vector<float>& values) {
  Summary summary;
  if (values.empty()) return summary;
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value);
  summary.mean = sum / static_cast<double>(values.size());

  // The quantiles ascend, so each search covers only the values above the previous one.
  auto begin = values.begin();
  const auto at = [&](double quantile) {
    const double position = quantile * static_cast<double>(values.size() - 1);
    const auto lower = values.begin() + static_cast<std::ptrdiff_t>(position);
    std::nth_element(begin, lower, values.end());
    begin = lower;
    if (lower + 1 == values.end()) return static_cast<double>(*lower);
    const double next = static_cast<double>(*std::min_element(lower + 1, values.end()));
    const double fraction = position - std::floor(position);
    return static_cast<double>(*lower) + fraction * (next - static_cast<double>(*lower));
  };
  summary.p50 = at(0.50);
  summary.p90 = at(0.90);
  summary.p95 = at(0.95);
  summary.p99 = at(0.99);
  summary.max = static_cast<double>(*std::max_element(begin, values.end()));
  return summary;
}

Summary summarize(const QuantileSketch& sketch) {
  return {sketch.mean(),         sketch.quantile(0.50), sketch.quantile(0.90),
          sketch.quantile(0.95), sketch.quantile(0.99), sketch.max()};
}

}  // namespace penstock::core
