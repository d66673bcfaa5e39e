// What a planner exports to Prometheus: its own series, and those of NVIDIA Dynamo's planner under their names, so that
// dashboards and alerts made for that one continue to work.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/time.h"
#include "decision/decision.h"
#include "decision/policy.h"
#include "decision/run_result.h"
#include "decision/totals.h"
#include "signals/data_state.h"
#include "signals/observation.h"
#include "signals/request_ends.h"
#include "signals/slo.h"
#include "telemetry/exposition_format.h"
#include "telemetry/histogram.h"

namespace penstock::report {

// Changes of a pool's replicas, and how requests ended meanwhile.
struct ScalingCount {
  std::string pool;
  std::uint64_t events = 0;
  signals::RequestEnds ends;
};

// Replicas that left one pool since the start and serve in the other one with its role.
struct RoleSwitchCount {
  std::string from, to;  // Pools.
  std::uint64_t switches = 0;
};

// A pool whose replicas are pods of Kubernetes.
struct PodScaling {
  std::string pool;
  std::string held_by_cause, held_by;  // Why nothing is scaled; "none": nothing holds the pool.
  std::uint32_t asked = 0;             // Replicas asked for.
  std::uint32_t pending = 0;           // Replicas without a pod, and pods that have no node or cannot start.
  std::uint64_t conflicts = 0;         // Writes that came after a change by another client.
  std::vector<std::pair<std::string, double>> start_up_s{};  // Statistic and value; empty: nothing is learned yet.
};

// GPU cost that the tokens of a tenant for a model bear.
struct TenantGpuCostTotal {
  std::string tenant, model;
  double usd = 0.0;
};

// A pool as llm-d's workload-variant-autoscaler (WVA) names it.
struct Variant {
  std::string pool, name, in_namespace, accelerator;
};

// What a planner of live traffic sees of its gateway and its fleet.
struct DataSources {
  signals::DataState state = signals::DataState::kKnown;
  bool gateway_up = true;             // Its last answers could be read.
  bool has_target = true;             // Whether another system may follow the target.
  std::size_t replicas_left_out = 0;  // Listed by the gateway, and of no pool.
  std::optional<bool> leads{};        // Empty: there is no other planner.
};

// Batch requests that the gateway defers, and its totals.
struct DeferralFigures {
  std::uint64_t waiting = 0;
  std::optional<double> next_due_s{};  // Until the deadline of the first one is near; empty: none waits.
  std::uint64_t deferred = 0, sent_spare = 0, sent_due = 0, missed = 0;
};

// Durations of ticks, from the observation to the end of the decision.
struct TickTimes {
  TickTimes();
  telemetry::Histogram wall_s, cpu_s;  // CPU time is that of the planner's thread.
};

// The values that the series are made of. An empty optional means that the figure is unknown and has no series.
struct PlannerMetrics {
  std::string policy{};   // The label of every series; empty means no such label.
  std::string model{};    // The same, of a planner with several deployments.
  std::string version{};  // Of the program; empty in a replay.
  // The last observation, without single requests, and the decision on it. No pools: nothing was decided.
  signals::Observation observation{};
  decision::Decision decision{};
  decision::DecisionTotals totals{};
  std::optional<signals::SloTarget> slo{};
  std::optional<double> slo_attainment{}, ttft_attainment{}, itl_attainment{};  // Shares, 0 to 1.
  std::optional<double> request_duration_s{};                                   // Of a whole replay.
  std::optional<double> gpu_hours{};  // Of a policy that never decides; otherwise `totals` has them.
  std::vector<ScalingCount> scaling{};
  std::vector<RoleSwitchCount> role_switches{};  // Both directions; empty in a replay, and where no role changes.
  std::vector<TenantGpuCostTotal> tenants{};     // Empty in a replay.
  std::vector<PodScaling> pods{};
  std::vector<Variant> variants{};    // Empty: there are no series of WVA.
  std::optional<DataSources> data{};  // Empty in a replay.
  // Empty in a replay, and with several deployments: the gateway's figures are those of all models.
  std::optional<DeferralFigures> deferral{};
  std::optional<TickTimes> ticks{};  // Empty in a replay.
};

// A sample older than this has no information about an engine.
inline constexpr core::Duration kSampleAgeMax = std::chrono::seconds{30};

// An exposition: families in a fixed order, samples in the order of the values, labels escaped. A
// figure that is not finite is left out.
[[nodiscard]] std::string to_prometheus_text(const PlannerMetrics& metrics,
                                             telemetry::ExpositionFormat format = telemetry::ExpositionFormat::kText);
// Of several planners, whose policies or models differ.
[[nodiscard]] std::string to_prometheus_text(std::span<const PlannerMetrics> metrics,
                                             telemetry::ExpositionFormat format = telemetry::ExpositionFormat::kText);

// The reference page of all series, docs/reference/metrics.md.
[[nodiscard]] std::string metrics_markdown();

// Forwards to a policy, and keeps its last observation and decision. `policy` must outlive it.
class MeteredPolicy final : public decision::Policy {
 public:
  // Prices as DecisionTotals takes them.
  explicit MeteredPolicy(decision::Policy& policy, std::vector<double> prices_per_gpu_hour = {}) : policy_(policy) {
    last_.policy = policy.name();
    last_.totals = decision::DecisionTotals{std::move(prices_per_gpu_hour)};
  }

  [[nodiscard]] std::string_view name() const override { return policy_.name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_.interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_.memory(); }
  [[nodiscard]] bool wants_segments() const override { return policy_.wants_segments(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override;
  void archive(core::StateArchive& state) override { policy_.archive(state); }

  // What a scrape after the last decision would have returned, with the attainment of the whole run. A policy that
  // never decided has the figures of the run only.
  [[nodiscard]] PlannerMetrics at_end(const decision::RunResult& result, const signals::SloTarget& slo) const;

 private:
  decision::Policy& policy_;
  PlannerMetrics last_;
};

}  // namespace penstock::report
