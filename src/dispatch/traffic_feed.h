// What planners and metrics learn of requests: latencies by model, and the traffic log.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/sketch.h"
#include "dispatch/active_requests.h"
#include "dispatch/options.h"
#include "dispatch/traffic_log.h"
#include "signals/segment_meter.h"

namespace penstock::dispatch {

// Requests that a tenant's or class's own limits hold up or refuse are no work for replicas: planners are not told of
// them before such a limit lets them go. Not thread-safe.
class TrafficFeed {
 public:
  static constexpr std::uint32_t kMetersMax = 1024;  // Models with meters of their own; the others share the last ones.

  explicit TrafficFeed(const DispatchOptions& options) : options_(options) {}

  // Meters of each model that had a request, in the order of their first requests.
  struct ModelMeters {
    std::string model;
    signals::SegmentMeter segments;
    core::QuantileSketch ttft_ms, itl_ms;  // since the start
  };
  std::uint32_t meters_of(std::uint32_t model_number, std::string_view model);
  [[nodiscard]] const std::vector<std::unique_ptr<ModelMeters>>& meters() const { return meters_; }
  [[nodiscard]] const TrafficLog& log() const { return log_; }

  void options_changed();  // The options have another SLO.
  void arrived(ActiveRequest& request, core::Instant at);
  // A deferred request, which has arrived, goes to a replica or waits for one from now on: its times begin now.
  void released(ActiveRequest& request, core::Instant at) { request.wanted_at = at; }
  void first_token(const ActiveRequest& request, core::Instant now);
  // With its entry as closed.
  void ended(const ActiveRequest& request, ledger::Outcome outcome, core::Instant now, core::Duration client_wait = {});

 private:
  const DispatchOptions& options_;
  std::vector<std::unique_ptr<ModelMeters>> meters_;
  std::vector<std::uint32_t> meter_numbers_;  // By number of the model; UINT32_MAX before its first request.
  TrafficLog log_;
};

}  // namespace penstock::dispatch
