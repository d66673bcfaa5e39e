#include "telemetry/native_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/random.h"

namespace penstock::telemetry {
namespace {

using Counts = std::array<std::uint64_t, NativeBuckets::kSize>;

NativeHistogram histogram_of(std::span<const double> values) {
  Counts counts{};
  for (const double value : values) ++counts[NativeBuckets::position_of(value)];
  return NativeBuckets::read(counts);
}

NativeHistogram buckets(int first, std::vector<std::uint64_t> counts) {
  NativeHistogram made;
  made.first = first;
  made.counts = std::move(counts);
  return made;
}

// Values over the whole range, and the bounds themselves with their neighbours.
std::vector<double> some_values(core::RandomStream random, int count) {
  std::vector<double> values;
  const NativeHistogram layout;
  for (int i = 0; i < count; ++i) {
    const double bound = layout.upper_bound(static_cast<int>(random.below(260)) - 125);
    switch (random.below(5)) {
      case 0: values.push_back(bound); break;
      case 1: values.push_back(std::nextafter(bound, 0.0)); break;
      case 2: values.push_back(std::nextafter(bound, 1e9)); break;
      case 3: values.push_back(random.uniform() * 1e-5); break;
      default: values.push_back(bound * (0.9 + 0.2 * random.uniform()));
    }
  }
  return values;
}

// The value with this rank, as histogram_quantile estimates it: between the bounds of its bucket.
std::pair<double, double> bucket_of_rank(const NativeHistogram& histogram, std::uint64_t rank) {
  std::uint64_t below = histogram.zero_count;
  if (rank < below) return {0.0, histogram.zero_threshold};
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const int index = histogram.first + static_cast<int>(i);
    below += histogram.counts[i];
    if (rank < below) return {histogram.upper_bound(index - 1), histogram.upper_bound(index)};
  }
  ADD_FAILURE() << "no such rank";
  return {};
}

TEST(NativeHistogram, BucketsContainTheirUpperBound) {
  for (int index = NativeBuckets::kFirst; index < NativeBuckets::kLast; ++index) {
    const double bound = NativeHistogram{}.upper_bound(index);
    const auto position = static_cast<std::size_t>(index - NativeBuckets::kFirst + 1);
    // exp2() may be off by one digit, except at powers of two.
    if (index % 8 == 0) {
      EXPECT_EQ(NativeBuckets::position_of(bound), position) << index;
    }
    EXPECT_EQ(NativeBuckets::position_of(bound * (1 - 1e-15)), position) << index;
    EXPECT_EQ(NativeBuckets::position_of(bound * (1 + 1e-15)), position + 1) << index;
  }
}

TEST(NativeHistogram, EveryValueHasABucket) {
  EXPECT_EQ(NativeBuckets::position_of(0.0), 0U);
  EXPECT_EQ(NativeBuckets::position_of(-1.0), 0U);
  EXPECT_EQ(NativeBuckets::position_of(std::numeric_limits<double>::quiet_NaN()), 0U);
  EXPECT_EQ(NativeBuckets::position_of(0x1p-16), 0U);
  EXPECT_EQ(NativeBuckets::position_of(std::nextafter(0x1p-16, 1.0)), 1U);
  EXPECT_EQ(NativeBuckets::position_of(0x1p17), NativeBuckets::kSize - 1);
  EXPECT_EQ(NativeBuckets::position_of(1e300), NativeBuckets::kSize - 1);
  EXPECT_EQ(NativeBuckets::position_of(std::numeric_limits<double>::infinity()), NativeBuckets::kSize - 1);
}

TEST(NativeHistogramProperty, BoundsContainTheValuesAndCountsAddUp) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    core::RandomStream random{seed};
    std::vector<double> values = some_values(random.fork("values"), 1 + static_cast<int>(random.below(400)));
    NativeHistogram histogram = histogram_of(values);
    std::sort(values.begin(), values.end());
    // Each step of a reduction keeps both.
    for (int schema = 3; schema >= -4; --schema) {
      histogram = reduced(histogram, schema == 3 ? NativeBuckets::kSize : histogram.populated() - 1);
      ASSERT_EQ(histogram.count(), values.size());
      for (std::size_t rank = 0; rank < values.size(); ++rank) {
        const auto [low, high] = bucket_of_rank(histogram, rank);
        ASSERT_GE(values[rank], low * (1 - 1e-15)) << histogram.schema;
        ASSERT_LE(values[rank], high * (1 + 1e-15)) << histogram.schema;
      }
      if (histogram.populated() < 2) break;
    }
  }
}

TEST(NativeHistogramProperty, ASumIsTheHistogramOfAllValues) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    core::RandomStream random{seed};
    std::vector<double> first = some_values(random.fork("first"), static_cast<int>(random.below(50)));
    const std::vector<double> second = some_values(random.fork("second"), static_cast<int>(random.below(50)));
    NativeHistogram sum;
    add_counts(sum, histogram_of(first));
    add_counts(sum, histogram_of(second));
    first.insert(first.end(), second.begin(), second.end());
    const NativeHistogram all = histogram_of(first);
    EXPECT_EQ(sum.counts, all.counts) << seed;
    EXPECT_EQ(sum.zero_count, all.zero_count) << seed;
    EXPECT_EQ(sum.first, all.first) << seed;
  }
  NativeHistogram apart = buckets(5, {1});
  add_counts(apart, buckets(-1, {2, 3}));
  EXPECT_EQ(apart.first, -1);
  EXPECT_EQ(apart.counts, (std::vector<std::uint64_t>{2, 3, 0, 0, 0, 0, 1}));
}

TEST(NativeHistogramProperty, SpansAndDeltasDescribeTheCounts) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    core::RandomStream random{seed};
    NativeHistogram histogram = buckets(static_cast<int>(random.below(40)) - 20, {});
    for (int i = 0; i < 60; ++i) histogram.counts.push_back(random.uniform() < 0.4 ? random.below(1000) : 0);
    const BucketSpans made = to_spans(histogram);
    std::vector<std::uint64_t> read(histogram.counts.size());
    int index = 0;
    std::size_t delta = 0;
    std::int64_t count = 0;
    for (const BucketSpan& span : made.spans) {
      EXPECT_GT(span.length, 0U);
      index += span.offset;
      for (std::uint32_t i = 0; i < span.length; ++i, ++index)
        read.at(static_cast<std::size_t>(index - histogram.first)) =
            static_cast<std::uint64_t>(count += made.deltas.at(delta++));
    }
    EXPECT_EQ(read, histogram.counts) << seed;
    EXPECT_EQ(delta, made.deltas.size()) << seed;
  }
}

TEST(NativeHistogram, SpansAreThoseOfPrometheusClients) {
  const BucketSpans made = to_spans(buckets(-2, {0, 3, 0, 0, 5, 0, 0, 0, 1}));
  EXPECT_EQ(made.spans, (std::vector<BucketSpan>{{-1, 4}, {3, 1}}));
  EXPECT_EQ(made.deltas, (std::vector<std::int64_t>{3, -3, 0, 5, -4}));
  EXPECT_TRUE(to_spans(buckets(7, {0, 0})).spans.empty());
}

TEST(NativeHistogram, ManyBucketsReduceTheSchema) {
  NativeHistogram full = buckets(NativeBuckets::kFirst, std::vector<std::uint64_t>(NativeBuckets::kSize - 1, 2));
  full.zero_count = 7;
  const NativeHistogram coarse = reduced(full, NativeHistogram::kBucketsMax);
  EXPECT_EQ(coarse.schema, 2);
  EXPECT_EQ(coarse.count(), full.count());
  EXPECT_LE(coarse.populated(), NativeHistogram::kBucketsMax);
  EXPECT_EQ(coarse.first, -63);
  EXPECT_EQ(coarse.counts.front(), 4U) << "-127 and -126 are (2^-16, 2^-15.75]";
  EXPECT_EQ(reduced(full, 0).schema, -4) << "there is no coarser schema";
  EXPECT_EQ(reduced(buckets(0, {1, 2}), 160).schema, 3);
}

TEST(NativeHistogram, TheMiddleOfABucketIsCloseToItsValues) {
  const double growth = NativeHistogram{}.upper_bound(1);
  EXPECT_LE(growth - 1.0, 0.1);
  EXPECT_LE(std::sqrt(growth) - 1.0, 0.045);
}

}  // namespace
}  // namespace penstock::telemetry
