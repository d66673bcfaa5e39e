// Prometheus' native histogram: sparse buckets whose bounds grow exponentially, so that every quantile has about the
// same relative error. Source: https://prometheus.io/docs/specs/native_histograms/
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::telemetry {

// Bucket i contains the values above g^(i-1) and up to g^i, where g = 2^(2^-schema).
struct NativeHistogram {
  // Of what Penstock records: g is 1.09, so the middle of a bucket is at most 4.4 % from each of its values.
  static constexpr int kSchema = 3;
  static constexpr double kZeroThreshold = 0x1p-16;  // 15 microseconds, if the values are seconds.
  static constexpr std::size_t kBucketsMax = 160;    // As Prometheus' client libraries.

  int schema = kSchema;
  double zero_threshold = kZeroThreshold;
  std::uint64_t zero_count = 0;       // Values up to the threshold.
  int first = 0;                      // Index of the bucket counts[0].
  std::vector<std::uint64_t> counts;  // Of consecutive buckets. Those beyond are empty.

  [[nodiscard]] std::uint64_t count() const;
  [[nodiscard]] std::size_t populated() const;  // Number of buckets that are not empty, without the zero bucket.
  [[nodiscard]] double upper_bound(int index) const { return std::exp2(std::ldexp(index, -schema)); }
};

// Adds the counts of a histogram with the same schema and zero threshold.
void add_counts(NativeHistogram& to, const NativeHistogram& from);
// Merges pairs of buckets until at most so many are populated; each step squares g.
[[nodiscard]] NativeHistogram reduced(NativeHistogram histogram, std::size_t buckets_max);

// Runs of buckets, and the difference of each count from the one before, as expositions have them.
struct BucketSpan {
  int offset = 0;  // Of the first one: its index. Of others: empty buckets since the previous span.
  std::uint32_t length = 0;
  friend bool operator==(const BucketSpan&, const BucketSpan&) = default;
};
struct BucketSpans {
  std::vector<BucketSpan> spans;
  std::vector<std::int64_t> deltas;  // One for each bucket of the spans.
};
[[nodiscard]] BucketSpans to_spans(const NativeHistogram& histogram);

// The buckets that Penstock records into, as one array: first the zero bucket, then the others in order. Values above
// the last bound (36 h, if they are seconds) count in the last bucket.
class NativeBuckets {
 public:
  static constexpr int kFirst = -127, kLast = 136;  // Indices of kSchema.
  static constexpr std::size_t kSize = kLast - kFirst + 2;

  // Position in the array. Negative values count as 0.
  [[nodiscard]] static std::size_t position_of(double value) {
    if (!(value > NativeHistogram::kZeroThreshold)) return 0;
    constexpr int kMantissaBits = 52, kExponentBias = 1023;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const std::uint64_t mantissa = bits & ((std::uint64_t{1} << kMantissaBits) - 1);
    int index = (static_cast<int>(bits >> kMantissaBits) - kExponentBias) << NativeHistogram::kSchema;
    for (const std::uint64_t bound : kMantissas) index += mantissa > bound ? 1 : 0;
    return static_cast<std::size_t>((index < kLast ? index : kLast) - kFirst) + 1;
  }
  [[nodiscard]] static NativeHistogram read(std::span<const std::uint64_t, kSize> counts);

 private:
  // Of 2^(k/8), the bounds within a power of two.
  static constexpr std::array<std::uint64_t, 1 << NativeHistogram::kSchema> kMantissas = [] {
    std::array<std::uint64_t, 8> mantissas{};
    std::size_t k = 0;
    for (const double bound : {1.0, 1.0905077326652577, 1.189207115002721, 1.2968395546510096, 1.4142135623730951,
                               1.5422108254079407, 1.681792830507429, 1.8340080864093424})
      mantissas[k++] = std::bit_cast<std::uint64_t>(bound) & ((std::uint64_t{1} << 52) - 1);
    return mantissas;
  }();
};

}  // namespace penstock::telemetry
