// Latency histograms of requests, in buckets that several gateways share, so that their sums can be aggregated.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "telemetry/exposition_writer.h"
#include "telemetry/histogram.h"

namespace penstock::gateway {

// Times of a request that has ended.
struct RequestTimes {
  std::string_view model, traffic_class;
  core::Duration queue{};                // From its arrival to its first grant.
  std::optional<core::Duration> ttft{};  // Of a stream.
  std::optional<core::Duration> tpot{};  // Of a stream with several tokens: mean time of each after the first.
  std::optional<core::Duration> e2e{};   // Of a whole answer.
};

// Any thread may call all functions.
class RequestHistograms {
 public:
  void add(const RequestTimes& times);
  void write(telemetry::ExpositionWriter& text) const;

 private:
  static constexpr std::size_t kRowsMax = 1024;  // Rows of further models are not kept.
  struct Row {
    std::string model, traffic_class;
    telemetry::Histogram queue, ttft, tpot, e2e;
  };
  [[nodiscard]] Row* row_of(std::string_view model, std::string_view traffic_class);

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Row>> rows_;
};

}  // namespace penstock::gateway
