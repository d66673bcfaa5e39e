// The documents of a gateway's admin address, parsed: its traffic and its state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace penstock::controller {

// As docs/gateway.md describes them; times are seconds of the gateway's clock.
struct TrafficItem {
  enum class Kind : std::uint8_t { kArrival, kFirstToken, kEnd };
  Kind kind = Kind::kArrival;
  std::uint64_t request = 0;
  double at_s = 0.0;
  std::string model, traffic_class, tenant;  // Of an arrival.
  std::string route;                         // Its path; empty with an older gateway.
  std::uint32_t input_tokens = 0;
  std::vector<std::uint64_t> keys;
  bool streamed = true;                      // Otherwise it has no first token.
  double completion_window_s = 0.0;          // It may wait for spare capacity that long; 0: it does not.
  std::uint32_t expected_output_tokens = 0;  // 0 with an older gateway.
  double admission_ms = 0.0, ttft_ms = 0.0;  // Of a first token.
  // Time before `ttft_ms` for which limits of the tenant or class held it up; 0 with an older gateway, too.
  double own_limit_ms = 0.0;
  double transfer_ms = 0.0;  // Part of `ttft_ms` after its prefill on another replica.
  std::uint32_t cached_tokens = 0;
  std::string outcome, replica;  // Of an end.
  std::uint32_t prompt_tokens = 0, output_tokens = 0;
  double itl_ms = -1.0;
  double client_ms = 0.0;  // Time for which it waited for its client to read.
};

struct TrafficPage {
  std::string boot;  // Changes with each start of the gateway.
  double now_s = 0.0;
  std::uint64_t next = 0, lost = 0;
  std::vector<TrafficItem> items;
};
// Strict, because the bytes come from a socket. Errors name the event.
[[nodiscard]] core::Result<TrafficPage> read_traffic(std::string_view json);

struct GatewayReplica {
  std::string id, url, model, pool, role;  // role: "aggregated", …
  std::string phase;                       // "warming", "serving", "draining"
  std::uint32_t open_requests = 0;
  std::uint32_t open_transfers = 0;  // Requests whose KV may still be fetched from it; 0 with an older gateway.
  bool eligible = false, healthy = true;
  std::uint32_t workers = 1;     // Engines behind its URL.
  std::vector<std::string> fpm;  // ZeroMQ endpoints of its forward pass metrics.

  // What has to end before it may be stopped.
  [[nodiscard]] std::uint32_t open_work() const { return open_requests + open_transfers; }
};
// Requests that wait for a replica with free capacity, without those that wait for a budget.
struct GatewayWaiting {
  std::uint32_t requests = 0;
  double oldest_s = 0.0;
};
// Batch requests that wait for spare capacity, of all models, and totals since the start of the gateway.
struct GatewayDeferral {
  std::uint64_t requests = 0;
  std::optional<double> next_due_s{};  // Until the deadline of the first one is near; empty if there is none.
  std::uint64_t deferred_total = 0, sent_spare_total = 0, sent_due_total = 0, missed_total = 0;
};
struct GatewayState {
  std::string boot;
  double now_s = 0.0;
  bool draining = false;  // It takes no new requests and ends after those that are open; false with an older gateway.
  std::map<std::string, GatewayReplica> replicas;          // by id
  std::map<std::string, GatewayWaiting> waiting_by_model;  // Models with waiting requests.
  // By model and pool, where the gateway has several aggregated pools.
  std::map<std::pair<std::string, std::string>, GatewayWaiting> waiting_by_pool;
  std::uint64_t refused_total = 0;
  std::optional<GatewayDeferral> deferral{};  // Empty with an older gateway.
  std::string json;                           // The whole document, for the dashboard.

  // Requests that wait for a model, and whose own pool this is; empty: for all models, for all pools.
  [[nodiscard]] GatewayWaiting waiting_for(std::string_view model, std::string_view pool = {}) const;
};
[[nodiscard]] core::Result<GatewayState> read_overview(std::string_view json);

// A hot prefix, as a request that makes an engine compute it.
struct GatewayPrefix {
  std::string model, path, body;  // path: "/v1/…"
  std::uint32_t tokens = 0;       // Approximate.
  std::uint64_t hits = 0;         // Recently.
};
[[nodiscard]] core::Result<std::vector<GatewayPrefix>> read_prefixes(std::string_view json);

}  // namespace penstock::controller
