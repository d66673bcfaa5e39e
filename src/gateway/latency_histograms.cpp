#include "gateway/latency_histograms.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::gateway {
namespace {

// One thread writes, so that no locked instruction is needed. A reader that sees the new number sees what the thread
// wrote before.
template <class Number>
void increase(std::atomic<Number>& number, Number by) {
  number.store(number.load(std::memory_order_relaxed) + by, std::memory_order_release);
}

}  // namespace

LatencyHistogram::LatencyHistogram(std::span<const double> bounds_s) : bounds_s_(bounds_s) {
  PENSTOCK_ASSERT(bounds_s.size() <= kBoundsMax, "the bounds are constants");
}

void LatencyHistogram::add(core::Duration value, std::uint64_t times) {
  value = std::max(value, core::Duration{});
  const double seconds = core::to_seconds(value);
  const auto at = std::lower_bound(bounds_s_.begin(), bounds_s_.end(), seconds) - bounds_s_.begin();
  increase(native_[telemetry::NativeBuckets::position_of(seconds)], times);
  increase(counts_[static_cast<std::size_t>(at)], times);
  increase(sum_ns_, value.count() * static_cast<std::int64_t>(times));
}

LatencyCounts LatencyHistogram::read() const {
  LatencyCounts read{telemetry::Histogram{bounds_s_}, {}};
  telemetry::Histogram& classic = read.classic;
  for (std::size_t i = 0; i < classic.counts.size(); ++i)
    classic.counts[i] = counts_[i].load(std::memory_order_acquire);
  classic.sum = core::to_seconds(core::Duration{sum_ns_.load(std::memory_order_acquire)});
  std::array<std::uint64_t, telemetry::NativeBuckets::kSize> native{};
  for (std::size_t i = 0; i < native.size(); ++i) native[i] = native_[i].load(std::memory_order_relaxed);
  read.native = telemetry::NativeBuckets::read(native);
  return read;
}

LatencyHistograms::Row::Row()
    : histograms_{LatencyHistogram{telemetry::ttft_bounds_s()}, LatencyHistogram{telemetry::ttft_bounds_s()},
                  LatencyHistogram{telemetry::itl_bounds_s()}, LatencyHistogram{telemetry::itl_bounds_s()},
                  LatencyHistogram{telemetry::request_bounds_s()}} {}

LatencyHistograms::Row* LatencyHistograms::find(std::string_view model, std::string_view traffic_class) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry->key.first == model && entry->key.second == traffic_class;
  });
  return found == entries_.end() ? nullptr : &(*found)->row;
}

LatencyHistograms::Row& LatencyHistograms::row(std::string_view model, std::string_view traffic_class) {
  if (Row* const known = find(model, traffic_class)) return *known;
  if (entries_.size() >= kRowsMax && model != kOther) return row(kOther, traffic_class);
  auto entry = std::make_unique<Entry>();
  entry->key = LatencyKey{model, traffic_class};
  const std::scoped_lock lock{mutex_};
  entries_.push_back(std::move(entry));
  return entries_.back()->row;
}

void LatencyHistograms::add_to(LatencyTotals& totals) const {
  const std::scoped_lock lock{mutex_};
  for (const auto& entry : entries_) {
    auto& sums = totals[entry->key];
    for (std::size_t i = 0; i < kLatencies; ++i) {
      const LatencyCounts counts = entry->row.histograms_[i].read();
      telemetry::add_counts(sums[i].classic, counts.classic);
      telemetry::add_counts(sums[i].native, counts.native);
    }
  }
}

void add_latencies(telemetry::ExpositionWriter& text, const LatencyTotals& totals,
                   std::span<const LatencyFamily> families, Buckets buckets,
                   const std::function<std::string(const LatencyKey&)>& labels_of) {
  for (const LatencyFamily& family : families) {
    text.family(family.name, "histogram", family.help);
    for (const auto& [key, histograms] : totals) {
      const LatencyCounts& counts = histograms[static_cast<std::size_t>(family.latency)];
      text.samples(labels_of(key), counts.classic, buckets == Buckets::kClassicAndNative ? &counts.native : nullptr);
    }
  }
}

}  // namespace penstock::gateway
