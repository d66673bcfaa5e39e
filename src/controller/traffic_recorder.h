// A gateway's traffic as a planner sees it: windows, segments, and the single requests of the last while.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "controller/gateway_feed.h"
#include "core/time.h"
#include "signals/observation.h"
#include "signals/request_ends.h"
#include "signals/segment_meter.h"
#include "signals/slo.h"
#include "signals/traffic_meter.h"

namespace penstock::controller {

struct BookOptions {
  core::Duration memory = std::chrono::minutes{10};  // of single requests
  std::size_t requests_max = 100'000;
  signals::SloPolicy slo;
  bool disaggregated = false;
  std::string model;  // requests for others are left out; empty: none is
};

// Takes pages in their order and tells observations. Requests that were open when a gateway began anew never end here;
// they are forgotten with time. Not thread-safe.
class TrafficRecorder {
 public:
  explicit TrafficRecorder(const BookOptions& options);

  // `received_at` is when the page came, on the clock of the observations: the page's own times are moved onto it.
  void take(const TrafficPage& page, core::Instant received_at);

  // The windows, counters and details of the entry pool (aggregated or prefill) and, disaggregated, of the decode pool.
  void fill(signals::PoolObservation& entry, signals::PoolObservation* decode, core::Instant now);
  // Those that arrived at `from` or later, oldest first; valid until the next call or take().
  [[nodiscard]] std::span<const signals::RecentRequest> recent(core::Instant from);

  [[nodiscard]] std::uint64_t lost_events() const { return lost_; }
  [[nodiscard]] core::Instant heard_at() const { return heard_at_; }
  // Of all requests so far; refused ones are none of them.
  [[nodiscard]] const signals::RequestEnds& ends() const { return ends_; }
  // Requests that kept their SLO, of those that were streamed and ended, since the start.
  [[nodiscard]] std::uint64_t kept() const { return kept_; }
  [[nodiscard]] std::uint64_t judged() const { return judged_; }

 private:
  struct Kept {
    signals::RecentRequest request;
    std::vector<std::uint32_t> blocks;
    std::uint32_t tenant_number = 0, cached_tokens = 0;
    bool batch = false, answered = false;
    std::string_view route;  // one of routes_

    [[nodiscard]] signals::RequestTraits traits() const {
      return {request.input_tokens, tenant_number, batch, cached_tokens > 0, route};
    }
  };
  void arrived(const TrafficItem& item, core::Instant at);
  void first_token(const TrafficItem& item, core::Instant at);
  void ended(const TrafficItem& item, core::Instant at);
  [[nodiscard]] Kept* find(std::uint64_t request);
  [[nodiscard]] core::Instant metered(core::Instant at);
  [[nodiscard]] std::string_view route_named(const std::string& route);
  [[nodiscard]] std::uint32_t tenant_number(const std::string& tenant);
  [[nodiscard]] std::uint32_t block_number(std::uint64_t key);
  void forget(core::Instant now);

  BookOptions options_;
  std::string boot_;
  std::deque<Kept> kept_requests_;
  std::uint64_t first_serial_ = 0;                            // of kept_requests_.front()
  std::unordered_map<std::uint64_t, std::uint64_t> serials_;  // by the gateway's number of the request
  std::deque<std::uint64_t> numbers_;                         // of kept_requests_, for forgetting
  std::unordered_map<std::uint64_t, std::uint32_t> blocks_;   // by key
  std::uint32_t next_block_ = 0;
  std::vector<std::string> tenants_;
  std::set<std::string, std::less<>> routes_;
  signals::TrafficMeter entry_meter_, decode_meter_;
  signals::TrafficMeter shed_meter_;  // "arrivals" are ends of requests that were refused
  signals::SegmentMeter entry_segments_, decode_segments_;
  std::deque<std::pair<core::Instant, std::uint64_t>> output_;  // tokens of ends, for the last minute's sum
  std::uint64_t output_total_ = 0;
  std::vector<signals::RecentRequest> recent_;
  std::uint64_t lost_ = 0, kept_ = 0, judged_ = 0;
  signals::RequestEnds ends_;
  core::Instant heard_at_, newest_;
};

}  // namespace penstock::controller
