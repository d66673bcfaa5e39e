// The planner at work: looks, decides, asks for replicas, and remembers what it saw and said.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/fleet.h"
#include "controller/gateway_feed.h"
#include "controller/scaling_recorder.h"
#include "controller/traffic_recorder.h"
#include "core/time.h"
#include "decision/decision_loop.h"
#include "decision/policy.h"
#include "logging/log.h"
#include "net/address.h"
#include "net/client.h"
#include "net/loop.h"
#include "report/metrics.h"
#include "signals/slo.h"

namespace penstock::controller {

struct DaemonPool {
  std::string name;
  signals::Role role = signals::Role::kAggregated;
  std::uint32_t gpus_per_replica = 1, min_replicas = 1, max_replicas = 1;
  core::Duration start_up{};
  double price_per_gpu_hour = 1.0;
};

struct DaemonOptions {
  std::vector<DaemonPool> pools;  // one aggregated, or one prefill and one decode
  signals::SloPolicy slo;
  double kv_bytes_per_token = 131'072.0;  // for token metrics in bytes
  std::string model;                      // whose requests and replicas these are; empty: of all
  bool observe_only = true;               // decides, says so, and does nothing
  net::Address gateway;                   // its admin address
  core::Duration gateway_interval = std::chrono::milliseconds{500};
  core::Duration prefix_interval = std::chrono::seconds{5};   // their texts may be long
  core::Duration gateway_timeout = std::chrono::seconds{30};  // a gateway that was heard longer ago is not heard
  core::Duration point_interval = std::chrono::seconds{2};
  std::size_t points_max = 1800;
  std::size_t decisions_max = 1000;
  // The file in which the policy's state is kept, so that a restarted planner continues where this one stopped. Empty: the
  // state is not kept.
  std::string policy_state_file;
  core::Duration policy_state_interval = std::chrono::seconds{30};  // between writes; the end writes once more
};

// One moment of what is charted.
struct LivePoint {
  core::Instant at;
  double arrivals_per_s = 0.0, input_tokens_per_s = 0.0, output_tokens_per_s = 0.0;
  std::vector<std::uint32_t> target, starting, ready, draining;  // by pool
  signals::LatencyWindow ttft, itl;                              // of the last minute
  std::uint64_t queued = 0, running = 0;                         // at the engines
  std::uint32_t waiting = 0;                                     // at the gateway
  // 0..1, hits as a share of the prompts' tokens since the point before; none: no engine said.
  std::optional<double> kv_usage, hit_ratio;
};

// On one loop, with everything it is given.
class PlannerDaemon {
 public:
  // `record` takes every record as it is made.
  PlannerDaemon(net::Loop& loop, net::Client& client, Fleet& fleet, decision::Policy& policy, DaemonOptions options,
                logging::Log& log, std::function<void(const decision::DecisionRecord&)> record);
  ~PlannerDaemon();
  PlannerDaemon(const PlannerDaemon&) = delete;
  PlannerDaemon& operator=(const PlannerDaemon&) = delete;

  [[nodiscard]] const DaemonOptions& options() const { return options_; }
  [[nodiscard]] const Fleet& fleet() const { return fleet_; }
  [[nodiscard]] std::string_view policy_name() const { return policy_.name(); }
  [[nodiscard]] const std::deque<LivePoint>& points() const { return points_; }
  [[nodiscard]] const std::deque<decision::DecisionRecord>& decisions() const { return decisions_; }
  [[nodiscard]] const std::optional<signals::Observation>& last_seen() const { return seen_; }
  [[nodiscard]] const std::optional<decision::Decision>& last_decision() const { return decided_; }
  [[nodiscard]] const std::optional<GatewayState>& gateway() const { return gateway_; }
  [[nodiscard]] const TrafficRecorder& book() const { return book_; }
  [[nodiscard]] const ScalingRecorder& scaling() const { return scaling_; }
  [[nodiscard]] const decision::DecisionTotals& totals() const { return control_loop_.totals(); }
  [[nodiscard]] core::Duration slowest_tick() const { return slowest_tick_; }
  [[nodiscard]] std::string metrics_text() const;
  [[nodiscard]] std::string token_metrics_text() const;  // of the engines that are heard

 private:
  void request_overview();
  void request_traffic();
  void request_prefixes();
  void report_gateway(const std::string& failure);  // empty: a document was read
  void look_at_scaling();
  void tick();
  void restore_policy();
  void save_policy();
  void add_point();
  [[nodiscard]] signals::Observation observe(core::Instant now);  // without single requests
  [[nodiscard]] GatewayWaiting waiting() const;                   // for our model

  net::Loop& loop_;
  net::Client& client_;
  Fleet& fleet_;
  decision::Policy& policy_;
  DaemonOptions options_;
  logging::Log& log_;
  std::function<void(const decision::DecisionRecord&)> record_;
  TrafficRecorder book_;
  ScalingRecorder scaling_;
  decision::DecisionLoop control_loop_;
  std::uint64_t next_event_ = 0;
  std::string boot_;  // of the gateway whose events these are
  bool overview_in_flight_ = false, traffic_in_flight_ = false, prefixes_in_flight_ = false;
  std::optional<bool> gateway_reachable_;  // none: no response yet
  std::optional<GatewayState> gateway_;
  std::optional<signals::Observation> seen_;
  std::optional<decision::Decision> decided_;
  std::deque<decision::DecisionRecord> decisions_;
  std::deque<LivePoint> points_;
  std::uint64_t prompt_tokens_before_ = 0, hit_tokens_before_ = 0;
  core::Duration slowest_tick_{};
  core::Instant policy_saved_at_{};
  std::int64_t ticked_unix_ms_ = 0;
  std::string policy_save_error_;
  std::vector<net::Loop::Timer> timers_;
};

}  // namespace penstock::controller
