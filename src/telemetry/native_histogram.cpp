#include "telemetry/native_histogram.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/result.h"

namespace penstock::telemetry {
namespace {

// Merges pairs of buckets.
NativeHistogram halved(const NativeHistogram& histogram) {
  // Of the bucket that contains the bucket: half of the index, rounded up.
  const auto merged = [](int index) { return (index + 1) >> 1; };
  NativeHistogram coarse = histogram;
  --coarse.schema;
  coarse.first = merged(histogram.first);
  const int last = merged(histogram.first + static_cast<int>(histogram.counts.size()) - 1);
  coarse.counts.assign(static_cast<std::size_t>(last - coarse.first + 1), 0);
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const int index = merged(histogram.first + static_cast<int>(i));
    coarse.counts[static_cast<std::size_t>(index - coarse.first)] += histogram.counts[i];
  }
  return coarse;
}

}  // namespace

std::uint64_t NativeHistogram::count() const { return std::accumulate(counts.begin(), counts.end(), zero_count); }

std::size_t NativeHistogram::populated() const {
  return counts.size() - static_cast<std::size_t>(std::count(counts.begin(), counts.end(), 0));
}

void add_counts(NativeHistogram& to, const NativeHistogram& from) {
  PENSTOCK_ASSERT(to.schema == from.schema && to.zero_threshold == from.zero_threshold, "they are recorded alike");
  to.zero_count += from.zero_count;
  if (from.counts.empty()) return;
  if (to.counts.empty()) to.first = from.first;
  const int first = std::min(to.first, from.first);
  to.counts.insert(to.counts.begin(), static_cast<std::size_t>(to.first - first), 0);
  to.first = first;
  const auto shift = static_cast<std::size_t>(from.first - first);
  to.counts.resize(std::max(to.counts.size(), shift + from.counts.size()));
  for (std::size_t i = 0; i < from.counts.size(); ++i) to.counts[shift + i] += from.counts[i];
}

NativeHistogram reduced(NativeHistogram histogram, std::size_t buckets_max) {
  constexpr int kSchemaMin = -4;
  while (histogram.schema > kSchemaMin && histogram.populated() > buckets_max) histogram = halved(histogram);
  return histogram;
}

BucketSpans to_spans(const NativeHistogram& histogram) {
  constexpr int kGapMax = 2;  // A span with so many empty buckets is shorter than two spans.
  BucketSpans made;
  int next = 0;
  std::int64_t previous = 0;
  const auto append = [&](std::int64_t count) {
    ++made.spans.back().length;
    made.deltas.push_back(count - std::exchange(previous, count));
  };
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    const int index = histogram.first + static_cast<int>(i);
    const int gap = std::exchange(next, index + 1);
    if (made.spans.empty() || index - gap > kGapMax)
      made.spans.push_back({index - gap, 0});
    else
      for (int empty = gap; empty < index; ++empty) append(0);
    append(static_cast<std::int64_t>(histogram.counts[i]));
  }
  return made;
}

NativeHistogram NativeBuckets::read(std::span<const std::uint64_t, kSize> counts) {
  NativeHistogram histogram;
  histogram.zero_count = counts[0];
  histogram.first = kFirst;
  histogram.counts.assign(counts.begin() + 1, counts.end());
  return histogram;
}

}  // namespace penstock::telemetry
