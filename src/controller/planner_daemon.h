// The planner as a daemon: observes, decides, requests replicas, and keeps recent observations and decisions.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connect/recommended_replicas.h"
#include "controller/batch_history.h"
#include "controller/fleet.h"
#include "controller/fleet_targets.h"
#include "controller/gateway_feed.h"
#include "controller/gateway_set.h"
#include "controller/gpu_cost_meter.h"
#include "controller/leadership.h"
#include "controller/policy_store.h"
#include "controller/scaling_recorder.h"
#include "controller/traffic_recorder.h"
#include "core/time.h"
#include "decision/decision_loop.h"
#include "decision/policy.h"
#include "logging/log.h"
#include "net/client.h"
#include "net/loop.h"
#include "report/metrics.h"
#include "signals/data_state.h"
#include "signals/request_ends.h"
#include "signals/slo.h"
#include "telemetry/message_metrics.h"
#include "telemetry/token_metrics.h"

namespace penstock::controller {

struct DaemonOptions {
  std::string deployment{};          // Its name among those that are planned together; empty: it is the only one.
  std::vector<signals::Pool> pools;  // Aggregated pools, or one prefill and one decode pool.
  signals::SloPolicy slo;
  std::string model;  // The model of the requests and replicas; empty for all models.
  // For token metrics, by pool: bytes of the KV cache of a token, and sequences that an engine runs at once. Empty, or
  // without the pool: unknown.
  std::vector<std::optional<double>> kv_bytes_per_token{};
  std::vector<std::optional<std::uint32_t>> max_sequences{};
  std::string version{};  // Of the program; empty: it is not exported.
  // Of the series wva_*, by pool, unless annotations name others; no namespace: there are no such series.
  std::vector<std::string> variant_names{};
  std::string variant_namespace{};
  bool observe_only = true;  // Decisions are recorded and change nothing.
  GatewaySetOptions gateways;
  core::Duration point_interval = std::chrono::seconds{2};
  std::size_t points_max = 1800;
  std::size_t decisions_max = 1000;
  std::shared_ptr<PolicyStore> policy_store;                        // Null: the policy's state is not kept.
  core::Duration policy_state_interval = std::chrono::seconds{30};  // Between writes; the end writes once more.
  const Leadership* leadership = nullptr;  // Null: there is no other planner. It outlives the daemon.
  std::function<void()> on_hold{};         // A tick held all pools without a decision of the policy; may be empty.
};

// One moment of the charts.
struct LivePoint {
  core::Instant at;
  // Figures of the gateways are empty while one does not answer; so are the counts of replicas that only it knows.
  std::optional<double> arrivals_per_s, input_tokens_per_s, output_tokens_per_s;
  std::vector<std::optional<std::uint32_t>> target, starting, ready, draining;  // By pool.
  // Of the last minute. Answers without a stream have only e2e and tpot.
  signals::LatencyWindow ttft, itl, e2e, tpot;
  // What the last decision expects of the current fleet, and the requests per second that the ready replicas serve
  // within the SLO; empty where the policy has no such figure.
  std::optional<double> estimated_ttft_ms, estimated_itl_ms, capacity_per_s;
  std::optional<std::uint64_t> queued, running;  // At the engines that report.
  std::optional<std::uint32_t> waiting;          // At the gateway.
  // Shares from 0 to 1; hits as a share of the prompt tokens since the previous point. Empty if no engine reported.
  std::optional<double> kv_usage, hit_ratio;
};

// A rule on the settings of engines, of decision/engine_settings.h, that holds for a pool.
struct EngineAdvice {
  std::string pool;
  std::string_view rule;
  std::string evidence;
};

// Lives on one loop, together with all that it refers to.
class PlannerDaemon {
 public:
  // `record` takes every record as it is made.
  PlannerDaemon(net::Loop& loop, net::Client& client, Fleet& fleet, decision::Policy& policy, DaemonOptions options,
                logging::Log& log, std::function<void(const decision::DecisionRecord&)> record);
  ~PlannerDaemon();
  PlannerDaemon(const PlannerDaemon&) = delete;
  PlannerDaemon& operator=(const PlannerDaemon&) = delete;

  // Puts bounds and prices of pools, the model, the SLO and credentials in force; all other options stay. The policy,
  // whose interval and memory are those of the former one, continues in its state. After a change of the SLO or the
  // model, traffic is judged anew as far as the gateway remembers it.
  void reconfigure(DaemonOptions options, std::unique_ptr<decision::Policy> policy, bool slo_changed);

  // To be called when the leadership has changed.
  void follow_leadership() { tick(); }
  // Saves the policy's state for the next planner. Nothing is decided from then on.
  void end(std::function<void()> done);

  [[nodiscard]] const DaemonOptions& options() const { return options_; }
  [[nodiscard]] const Fleet& fleet() const { return fleet_; }
  [[nodiscard]] std::string_view policy_name() const { return policy_->name(); }
  [[nodiscard]] const std::deque<LivePoint>& points() const { return points_; }
  [[nodiscard]] const std::deque<decision::DecisionRecord>& decisions() const { return decisions_; }
  [[nodiscard]] const std::optional<signals::Observation>& last_seen() const { return seen_; }
  [[nodiscard]] const std::optional<decision::Decision>& last_decision() const { return decided_; }
  [[nodiscard]] const GatewaySet& gateways() const { return gateways_; }
  [[nodiscard]] const TrafficRecorder& traffic() const { return traffic_; }
  [[nodiscard]] const ScalingRecorder& scaling() const { return scaling_; }
  // Whether the data for a decision is there, and since when.
  [[nodiscard]] signals::DataState data() const { return data_; }
  [[nodiscard]] core::Instant data_since() const { return data_since_; }
  // Whether the counts of replicas are known: the planner runs them, or the gateways answer.
  [[nodiscard]] bool counts_replicas() const {
    return data_ != signals::DataState::kNoFleet && (fleet_.acts() || data_ != signals::DataState::kNoGateway);
  }
  // Whether this planner may act on its fleet, and other systems may follow it: no other planner leads.
  [[nodiscard]] bool leads() const { return options_.leadership == nullptr || options_.leadership->may_act(); }
  // Whether calls for targets are answered as the planner that leads answers them.
  [[nodiscard]] bool is_ready() const { return leads() || options_.leadership->follows(); }
  // "act", "observe" or, while another planner leads, "follow".
  [[nodiscard]] const char* mode() const { return !leads() ? "follow" : options_.observe_only ? "observe" : "act"; }
  // Whether another system may follow the target: nothing follows a target that is made without data, or by a planner
  // that does not lead.
  [[nodiscard]] bool has_target() const {
    if (options_.leadership != nullptr && !(leads() && has_decided_)) return false;
    return data_ == signals::DataState::kKnown || (data_ == signals::DataState::kNoTelemetry && had_data_);
  }
  [[nodiscard]] std::vector<connect::RecommendedReplicas> recommended() const;           // By pool.
  [[nodiscard]] const std::vector<FleetEvent>& events() const { return events_.all(); }  // Those of its data.
  [[nodiscard]] const decision::DecisionTotals& totals() const { return control_loop_.totals(); }
  [[nodiscard]] const GpuCostMeter& gpu_costs() const { return gpu_costs_; }
  [[nodiscard]] const report::TickTimes& tick_times() const { return tick_times_; }
  // Whether the last decision on the pool used the default engine model, which nothing has measured yet.
  [[nodiscard]] bool is_uncalibrated(std::size_t pool) const;
  // Share of the sequence slots of an engine that are filled. Where the engine does not report it, it is the share of
  // running requests in the number that the policy has learned, or in the configured one.
  [[nodiscard]] std::optional<double> batch_efficiency(std::size_t pool, const signals::EngineSample& sample) const;
  // Settings of engines that the last minutes suggest: "queue_delay" and "batch_efficiency". Empty without data.
  [[nodiscard]] std::vector<EngineAdvice> engine_advice() const;
  // Of pools that exchange replicas, in both directions.
  [[nodiscard]] std::vector<report::RoleSwitchCount> role_switches() const;
  // Empty before the first decision. With a deployment, its series have the label `model`.
  [[nodiscard]] std::optional<report::PlannerMetrics> metrics() const;
  [[nodiscard]] std::string metrics_text(telemetry::ExpositionFormat format = telemetry::ExpositionFormat::kText) const;
  [[nodiscard]] std::vector<telemetry::TokenFigures> token_figures() const;  // Of the engines with telemetry.
  [[nodiscard]] std::vector<telemetry::ReplicaMessages> message_counts(
      std::optional<telemetry::MessageCounts> ReplicaView::*of) const;

 private:
  [[nodiscard]] GatewaySet::Callbacks gateway_callbacks();
  void take_traffic(const TrafficPage* page);
  void watch_data();
  void observe_scaling();
  void tick();
  void take_tick(decision::Tick tick, signals::Observation seen);
  [[nodiscard]] std::string unknown_because() const;
  [[nodiscard]] TrafficOptions traffic_options() const;
  [[nodiscard]] std::string followed_because() const;
  void look_at_leadership();
  void keep_start_up();
  void restore_policy();
  void save_policy();
  void count_costs();
  void add_point();
  [[nodiscard]] signals::Observation observe(core::Instant now);  // Without single requests.
  void add_batches(const signals::Observation& seen);
  void add_gaps(const std::vector<ReplicaView>& views, signals::PoolObservation& pool) const;
  [[nodiscard]] std::optional<std::uint32_t> max_sequences(std::size_t pool) const;

  net::Loop& loop_;
  net::Client& client_;
  Fleet& fleet_;
  FleetTargets targets_;
  decision::Policy* policy_;
  std::unique_ptr<decision::Policy> reloaded_policy_;  // Null before the first reload.
  DaemonOptions options_;
  logging::Log& log_;
  std::function<void(const decision::DecisionRecord&)> record_;
  GpuCostMeter gpu_costs_;
  core::Instant tokens_from_;  // When traffic_ began. What ended before is not counted, or was.
  TrafficRecorder traffic_;
  signals::RequestEnds ends_;  // Of all requests so far, by all recorders.
  ScalingRecorder scaling_;
  decision::DecisionLoop control_loop_;
  signals::DataState data_ = signals::DataState::kNoGateway;
  core::Instant data_since_;
  bool had_data_ = false;
  std::optional<signals::DataState> reported_data_;
  FleetEvents events_;
  GatewaySet gateways_;
  std::optional<signals::Observation> seen_;
  std::optional<decision::Decision> decided_;
  std::deque<decision::DecisionRecord> decisions_;
  std::deque<LivePoint> points_;
  std::vector<BatchHistory> batches_;  // By pool.
  std::uint64_t prompt_tokens_before_ = 0, hit_tokens_before_ = 0;
  report::TickTimes tick_times_;
  PolicyKeeper keeper_;
  std::string fresh_policy_;  // A snapshot from before the first tick.
  core::Instant policy_saved_at_{};
  bool restores_policy_ = false;  // The saved state is being read; nothing is decided without it.
  bool is_in_restore_ = false;
  bool has_led_ = false;      // At the last look.
  bool has_decided_ = false;  // Since this planner leads.
  bool is_ending_ = false;
  std::uint64_t term_ = 0;
  std::vector<net::Loop::Timer> timers_;
};

}  // namespace penstock::controller
