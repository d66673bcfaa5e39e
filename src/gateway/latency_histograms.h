// Latency histograms of requests by model and traffic class. Their buckets are the same in all gateways, so that the
// sums over several gateways can be aggregated.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/time.h"
#include "telemetry/exposition_writer.h"
#include "telemetry/histogram.h"
#include "telemetry/native_histogram.h"

namespace penstock::gateway {

enum class Latency : std::uint8_t {
  kQueue,  // From the arrival of a request to its first grant.
  kTtft,   // From the arrival of a stream to its first token.
  kItl,    // Between two tokens of a stream. Of several tokens that arrive together, only the first has a gap above 0.
  kTpot,   // Mean time of each token of a complete stream after its first one.
  kE2e,    // From the arrival of a request to the end of its complete answer.
};
inline constexpr std::size_t kLatencies = 5;

// The same values in classic and in native buckets.
struct LatencyCounts {
  telemetry::Histogram classic;
  telemetry::NativeHistogram native;
};

// Counts what LatencyCounts has. One thread adds, and any thread reads meanwhile.
class LatencyHistogram {
 public:
  explicit LatencyHistogram(std::span<const double> bounds_s);
  void add(core::Duration value, std::uint64_t times = 1);  // O(log bounds). A negative value counts as 0.
  // The native buckets contain each value that the classic ones contain.
  [[nodiscard]] LatencyCounts read() const;

 private:
  static constexpr std::size_t kBoundsMax = 31;
  std::span<const double> bounds_s_;
  std::array<std::atomic<std::uint64_t>, kBoundsMax + 1> counts_{};
  std::array<std::atomic<std::uint64_t>, telemetry::NativeBuckets::kSize> native_{};
  std::atomic<std::int64_t> sum_ns_{0};
};

using LatencyKey = std::pair<std::string, std::string>;  // Model, and name of the traffic class.
using LatencyTotals = std::map<LatencyKey, std::array<LatencyCounts, kLatencies>>;

// How an exposition names one latency.
struct LatencyFamily {
  Latency latency;
  std::string_view name, help;
};

// Appends the histograms of each family, one for each key. `labels_of` returns the labels of a key as text. A
// Prometheus that reads native buckets ignores the classic ones.
enum class Buckets : std::uint8_t { kClassic, kClassicAndNative };
void add_latencies(telemetry::ExpositionWriter& text, const LatencyTotals& totals,
                   std::span<const LatencyFamily> families, Buckets buckets,
                   const std::function<std::string(const LatencyKey&)>& labels_of);

// The histograms of one worker.
class LatencyHistograms {
 public:
  static constexpr std::size_t kRowsMax = 100;
  static constexpr std::string_view kOther = "other";  // Model of requests for further models.

  class Row {
   public:
    Row();
    void add(Latency latency, core::Duration value, std::uint64_t times = 1) {
      histograms_[static_cast<std::size_t>(latency)].add(value, times);
    }

   private:
    friend class LatencyHistograms;
    std::array<LatencyHistogram, kLatencies> histograms_;
  };

  // Called on the worker's thread only, as are the functions of the row. The row lives as long as the histograms.
  [[nodiscard]] Row& row(std::string_view model, std::string_view traffic_class);
  void add_to(LatencyTotals& totals) const;  // May be called on any thread.

 private:
  struct Entry {
    LatencyKey key;
    Row row;
  };
  [[nodiscard]] Row* find(std::string_view model, std::string_view traffic_class) const;

  mutable std::mutex mutex_;  // Guards the list against a reader while it grows.
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace penstock::gateway
