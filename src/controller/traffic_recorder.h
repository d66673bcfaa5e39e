// The traffic of a gateway as a planner needs it: windows, segments, and recent requests.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "controller/gateway_feed.h"
#include "controller/output_tokens.h"
#include "core/time.h"
#include "decision/gpu_costs.h"
#include "signals/observation.h"
#include "signals/request_ends.h"
#include "signals/request_meter.h"
#include "signals/slo.h"
#include "telemetry/engine_sample.h"

namespace penstock::controller {

struct TrafficOptions {
  core::Duration memory = std::chrono::minutes{10};  // Of single requests.
  std::size_t requests_max = 100'000;
  signals::SloPolicy slo;
  bool disaggregated = false;
  std::string model;                              // Requests for other models are left out; empty for all models.
  core::Instant tokens_from = core::kStart;       // Tokens of requests that ended later are counted.
  std::vector<signals::RequestSelector> pools{};  // What several aggregated pools serve; empty if there is only one.
};

// Takes the pages of each gateway in their order and fills observations. Requests that were open when a gateway
// restarted never end here; they are dropped with time. Not thread-safe.
class TrafficRecorder {
 public:
  explicit TrafficRecorder(const TrafficOptions& options);

  // `received_at` is the time of the response on the clock of the observations; the times of the page are moved to it.
  void take(const TrafficPage& page, core::Instant received_at);

  // The windows, counters and details of the pools: of several aggregated ones, of their own requests each. `pools`
  // contains their replicas, whose counters of output tokens are read.
  void fill(std::vector<signals::PoolObservation>& pools, core::Instant now);
  // Requests that arrived at `from` or later, oldest first, without rejected ones; valid until the next call or take().
  [[nodiscard]] std::span<const signals::RecentRequest> recent(core::Instant from);
  [[nodiscard]] std::span<const std::string> tenants() const { return tenants_; }  // By RecentRequest::tenant.

  // Gaps between the tokens of the answers that the replica, by its id, has completed. 0 before the first one.
  [[nodiscard]] telemetry::HistogramTotals gaps_of(const std::string& replica) const;
  [[nodiscard]] std::uint64_t lost_events() const { return lost_; }
  [[nodiscard]] core::Instant received_at() const { return received_at_; }
  // Of all requests so far, without refused and rejected ones.
  [[nodiscard]] const signals::RequestEnds& ends() const { return ends_; }
  // Tokens of requests that completed since the last call, by tenant and model.
  [[nodiscard]] std::vector<decision::TenantTokens> take_tokens();
  // Requests that ended since the start, and those of them that met their SLO. Without an objective from arrival to
  // end, answers that are not streamed are left out.
  [[nodiscard]] std::uint64_t judged() const { return judged_; }
  [[nodiscard]] std::uint64_t met() const { return met_; }
  [[nodiscard]] std::optional<double> attainment() const { return share_of_judged(met_); }
  // Of each limit alone. A failed request is within none; an answer that is not streamed is within both.
  [[nodiscard]] std::optional<double> ttft_attainment() const { return share_of_judged(ttft_met_); }
  [[nodiscard]] std::optional<double> itl_attainment() const { return share_of_judged(itl_met_); }

 private:
  struct Remembered {
    signals::RecentRequest shape;
    std::vector<std::uint32_t> blocks;
    std::uint32_t cached_tokens = 0;
    bool batch = false, answered = false, rejected = false;
    std::string_view route;  // One of routes_.
    std::string_view model;  // One of models_.

    [[nodiscard]] signals::RequestTraits traits() const {
      return {shape.input_tokens, shape.tenant, batch, cached_tokens > 0, route};
    }
  };
  using RequestNumber = std::pair<std::uint32_t, std::uint64_t>;  // Of the gateway, and its number of the request.
  // The requests that enter at one pool.
  struct PoolTraffic {
    explicit PoolTraffic(core::Duration ttft) : meter(ttft) {}

    signals::RequestMeter meter;
    signals::RequestMeter shed;  // Its arrivals are ends of refused requests.
    OutputTokens output;
  };
  // Of a request that is not known, the last pool.
  [[nodiscard]] PoolTraffic& traffic_of(const Remembered* request);
  static void fill(signals::PoolObservation& pool, const signals::RequestMeter& meter, OutputTokens& output,
                   const std::vector<std::string>& tenants, core::Instant now);
  void arrived(const TrafficItem& item, core::Instant at);
  void first_token(const TrafficItem& item, core::Instant at);
  void ended(const TrafficItem& item, core::Instant at);
  static void remember_end(const TrafficItem& item, core::Instant at, Remembered& known);
  // Of an end since the start. `known` is null if its arrival is not.
  void count_end(const TrafficItem& item, core::Instant at, PoolTraffic& traffic, const Remembered* known);
  void judge(const TrafficItem& item, core::Instant at, const Remembered& known);
  void add_gaps(const TrafficItem& item);
  [[nodiscard]] Remembered* find(std::uint64_t request);
  [[nodiscard]] bool knows_gateway(const std::string& boot);  // Makes it the one whose page is taken.
  [[nodiscard]] core::Instant metered(core::Instant at);
  [[nodiscard]] std::string_view route_named(const std::string& route);
  [[nodiscard]] std::string_view model_named(const std::string& model);
  [[nodiscard]] std::uint32_t tenant_number(const std::string& tenant);
  [[nodiscard]] std::uint32_t block_number(std::uint64_t key);
  void forget(core::Instant now);
  [[nodiscard]] std::optional<double> share_of_judged(std::uint64_t requests) const {
    return judged_ == 0 ? std::nullopt : std::optional{static_cast<double>(requests) / static_cast<double>(judged_)};
  }

  TrafficOptions options_;
  std::deque<std::string> boots_;  // The newest gateways.
  std::uint32_t first_boot_ = 0;   // Number of the first of them.
  std::uint32_t boot_ = 0;         // Number of the gateway whose page is taken.
  std::deque<Remembered> requests_;
  std::uint64_t first_serial_ = 0;  // Of requests_.front().
  std::map<RequestNumber, std::uint64_t> serials_;
  std::deque<RequestNumber> numbers_;                        // Of requests_.
  std::unordered_map<std::uint64_t, std::uint32_t> blocks_;  // By key.
  std::uint32_t next_block_ = 0;
  std::vector<std::string> tenants_;
  std::map<std::pair<std::string, std::string>, decision::TenantTokens> tokens_;  // By tenant and model.
  std::set<std::string, std::less<>> routes_, models_;
  std::vector<PoolTraffic> entries_;  // Of the pools at which requests enter.
  signals::RequestMeter decode_;
  OutputTokens decode_output_;
  std::vector<signals::RecentRequest> recent_;
  std::map<std::string, telemetry::HistogramTotals> gaps_;  // By replica.
  std::uint64_t lost_ = 0, met_ = 0, ttft_met_ = 0, itl_met_ = 0, judged_ = 0;
  signals::RequestEnds ends_;
  core::Instant received_at_, newest_;
};

}  // namespace penstock::controller
