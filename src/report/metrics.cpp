#include "report/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <set>

#include "report/family_writer.h"
#include "report/source_writers.h"
#include "telemetry/exposition_writer.h"

namespace penstock::report {
namespace {

using decision::Candidate;
using decision::Forecast;
using decision::PoolDecision;
using signals::PoolObservation;
using F = MetricFigures;
using P = PoolFigures;
using E = EngineFigures;
constexpr std::size_t kCandidatesMax = 64;  // The first ones are exported: each is a series.

// A fleet is one label: "prefill=2,decode=4".
template <auto get>
constexpr FamilyWriter kCandidates{
    "replicas, chosen", [](const F& f, Samples& s) {
      for (std::size_t i = 0; i < std::min(kCandidatesMax, f.candidates.size()); ++i) {
        const Candidate& tried = f.candidates[i];
        std::string fleet;
        for (std::size_t k = 0; k < tried.replicas.size(); ++k)
          fleet += fmt::format("{}{}={}", fleet.empty() ? "" : ",",
                               k < f.pools.size() ? f.pools[k].seen.name : std::to_string(k), tried.replicas[k]);
        s.add(std::invoke(get, tried), {{"replicas", fleet}, {"chosen", tried.chosen ? "true" : "false"}});
      }
    }};

// Every value of the enum is a series, and the current one is 1.
template <class Enum>
void add_named(Samples& samples, std::string_view label, std::optional<Enum> current, std::string_view pool = {}) {
  if (!current) return;
  for (const std::string_view name : decision::names_of<Enum>()) {
    const double holds = name == to_string(*current) ? 1.0 : 0.0;
    pool.empty() ? samples.add(holds, {{label, name}}) : samples.add(holds, {{"pool", pool}, {label, name}});
  }
}

constexpr FamilyWriter kReplicas{
    "pool, state", [](const F& f, Samples& s) {
      for (const PoolObservation& pool : f.from.observation.pools) {
        s.add(pool.starting, {{"pool", pool.name}, {"state", "starting"}});
        s.add(pool.ready, {{"pool", pool.name}, {"state", "ready"}});
        s.add(pool.draining, {{"pool", pool.name}, {"state", "draining"}});
        if (pool.wake_time <= core::Duration{}) continue;
        s.add(pool.asleep, {{"pool", pool.name}, {"state", "asleep"}});
        s.add(pool.starting_to_sleep, {{"pool", pool.name}, {"state", "starting_to_sleep"}});
      }
    }};
constexpr FamilyWriter kDecisions{"pool, reason, limited_by", [](const F& f, Samples& s) {
                                    for (const P& pool : f.pools)
                                      s.add(1.0, {{"pool", pool.seen.name},
                                                  {"reason", to_string(pool.decided.reason)},
                                                  {"limited_by", to_string(pool.decided.limited_by)}});
                                  }};
// A name that comes twice would be one series with two values, which Prometheus rejects: the first one counts.
constexpr FamilyWriter kEvidence{
    "pool, name, unit", [](const F& f, Samples& s) {
      for (const P& pool : f.pools) {
        std::set<std::string_view> names;
        for (const decision::Evidence& evidence : pool.decided.evidence)
          if (names.insert(evidence.name).second)
            s.add(evidence.value, {{"pool", pool.seen.name}, {"name", evidence.name}, {"unit", evidence.unit}});
      }
    }};
constexpr FamilyWriter kDecisionsTotal{
    "pool, reason, limited_by", [](const F& f, Samples& s) {
      for (const decision::DecisionCount& count : f.decisions)
        s.add(static_cast<double>(count.decisions),
              {{"pool", count.pool}, {"reason", to_string(count.reason)}, {"limited_by", to_string(count.limited_by)}});
    }};
constexpr FamilyWriter kDiagnosis{"pool, cause", [](const F& f, Samples& s) {
                                    for (const P& pool : f.pools)
                                      add_named(s, "cause", f.from.decision.cause, pool.seen.name);
                                  }};
constexpr FamilyWriter kPhase{"phase", [](const F& f, Samples& s) { add_named(s, "phase", f.from.decision.phase); }};
constexpr FamilyWriter kForecastErrors{"forecast", [](const F& f, Samples& s) {
                                         s.add(f.forecast.error, {{"forecast", "planner"}});
                                         s.add(f.forecast.naive_error, {{"forecast", "naive"}});
                                       }};
constexpr FamilyWriter kLoadStates{"state",
                                   [](const F& f, Samples& s) { s.add_states(kLoadScalingStates, f.load_scaling); }};
constexpr FamilyWriter kThroughputStates{
    "state", [](const F& f, Samples& s) { s.add_states(kThroughputScalingStates, f.throughput_scaling); }};
constexpr FamilyWriter kScalingEvents{"pool", [](const F& f, Samples& s) {
                                        for (const ScalingCount& count : f.from.scaling)
                                          s.add(static_cast<double>(count.events), {{"pool", count.pool}});
                                      }};
constexpr FamilyWriter kScalingRequests{
    "pool, outcome", [](const F& f, Samples& s) {
      for (const ScalingCount& count : f.from.scaling)
        for (const auto& [outcome, requests] : count.ends.named())
          s.add(static_cast<double>(requests), {{"pool", count.pool}, {"outcome", outcome}});
    }};

constexpr FamilyWriter kTokenCosts{"kind", [](const F& f, Samples& s) {
                                     for (const auto& [kind, usd] : {std::pair{"input", f.usd_per_1m_input_tokens},
                                                                     {"output", f.usd_per_1m_output_tokens}})
                                       if (usd) s.add(*usd, {{"kind", kind}});
                                   }};

// With several deployments each series has the label `model` already, and all requests are for that model.
constexpr FamilyWriter kTenantCosts{"tenant, model", [](const F& f, Samples& s) {
                                      for (const TenantGpuCostTotal& each : f.from.tenants)
                                        f.from.model.empty()
                                            ? s.add(each.usd, {{"tenant", each.tenant}, {"model", each.model}})
                                            : s.add(each.usd, {{"tenant", each.tenant}});
                                    }};

template <auto kTime>
constexpr FamilyWriter kTicks{"",
                              [](const F& f, Samples& s) {
                                if (f.from.ticks) s.add((*f.from.ticks).*kTime);
                              },
                              "histogram"};

constexpr FamilyWriter kBuildInfo{"version", [](const F& f, Samples& s) {
                                    if (!f.from.version.empty()) s.add(1.0, {{"version", f.from.version}});
                                  }};
constexpr FamilyWriter kUncalibrated =
    kPools<[](const P& pool) { return decision::is_uncalibrated(pool.decided) ? 1.0 : 0.0; }>;
constexpr FamilyWriter kEndToEndLimit{"", [](const F& f, Samples& s) {
                                        if (f.from.slo && f.from.slo->e2e) s.add(core::to_seconds(*f.from.slo->e2e));
                                      }};
// Under WVA's names. Like WVA, the ratio of a variant without replicas is the number that it should have.
template <auto get>
constexpr FamilyWriter kVariants{
    "variant_name, namespace, accelerator_type", [](const F& f, Samples& s) {
      for (const P& pool : f.pools)
        for (const Variant& variant : f.from.variants)
          if (variant.pool == pool.seen.name)
            s.add(std::invoke(get, pool),
                  {{"variant_name", variant.name},
                   {"namespace", variant.in_namespace},
                   {"accelerator_type", variant.accelerator.empty() ? "unresolved" : variant.accelerator}});
    }};
constexpr auto kCurrentReplicas = [](const P& pool) {
  return static_cast<double>(pool.seen.starting) + pool.seen.ready + pool.seen.draining;
};
constexpr auto kDesiredReplicas = [](const P& pool) { return static_cast<double>(pool.decided.target); };
constexpr auto kDesiredRatio = [](const P& pool) {
  return kDesiredReplicas(pool) / std::max(1.0, kCurrentReplicas(pool));
};

// A figure that a ready replica has sent in the last 30 s.
template <auto kFigure>
constexpr FamilyWriter kReady{
    "pool, worker_id", [](const F& f, Samples& s) {
      for (const P& pool : f.pools)
        for (const signals::ReplicaObservation& replica : pool.seen.replicas) {
          if (replica.state != signals::ReplicaState::kReady) continue;
          if (!signals::is_reporting(replica, f.from.observation.now, kSampleAgeMax)) continue;
          if (const std::optional<double> figure = kFigure(*replica.sample))
            s.add(*figure, {{"pool", pool.seen.name}, {"worker_id", std::to_string(replica.replica)}});
        }
    }};
template <auto kTime>
constexpr auto kSeconds = [](const signals::EngineSample& sample) {
  return sample.*kTime ? std::optional{core::to_seconds(*(sample.*kTime))} : std::nullopt;
};
template <auto kShare>
constexpr auto kShareOf = [](const signals::EngineSample& sample) { return sample.*kShare; };

// What a family shows without data would be a guess.
enum class Needs : std::uint8_t {
  kNothing,
  kData,    // An answer of the gateway: traffic, and replicas that only the gateway knows.
  kFleet,   // The fleet and its gateway are known.
  kTarget,  // A target that another system may follow.
};

struct Family {
  std::string_view name, help;
  const FamilyWriter& writer;
  Needs needs = Needs::kNothing;

  [[nodiscard]] bool is_known(const PlannerMetrics& from) const {
    if (!from.data || needs == Needs::kNothing) return true;
    if (needs == Needs::kTarget) return from.data->has_target;
    if (needs == Needs::kFleet && from.data->state == signals::DataState::kNoFleet) return false;
    return from.data->state != signals::DataState::kNoGateway;
  }

  [[nodiscard]] std::string_view type() const {
    if (!writer.type.empty()) return writer.type;
    return name.ends_with("_total") ? "counter" : "gauge";
  }
};
constexpr auto kFamilies = std::to_array<Family>({
    // Under Dynamo's names.
    {"dynamo_planner_num_prefill_replicas", "Current number of ready prefill replicas", kOne<&F::prefill_replicas>,
     Needs::kData},
    {"dynamo_planner_num_decode_replicas", "Current number of ready decode replicas; aggregated ones count here",
     kOne<&F::decode_replicas>, Needs::kData},
    {"dynamo_planner_observed_ttft_ms", "Mean time to first token of the last minute (ms)", kOne<&F::ttft_ms>,
     Needs::kData},
    {"dynamo_planner_observed_itl_ms", "Mean ITL of the last minute (ms)", kOne<&F::itl_ms>, Needs::kData},
    {"dynamo_planner_observed_requests_per_second", "Request rate of the last minute (1/s)", kOne<&F::requests_per_s>,
     Needs::kData},
    {"dynamo_planner_observed_request_duration_seconds",
     "Mean time from a request's arrival to its last token: of the last minute, or of a whole replay (s)",
     kOne<&F::request_duration_s>, Needs::kData},
    {"dynamo_planner_observed_input_sequence_tokens", "Mean prompt length of the last minute (tokens)",
     kOne<&F::input_tokens>, Needs::kData},
    {"dynamo_planner_observed_output_sequence_tokens",
     "Mean output length of the requests that completed in the last minute (tokens)", kOne<&F::output_tokens>,
     Needs::kData},
    {"dynamo_planner_predicted_requests_per_second", "Forecast request rate (1/s)",
     kForecast<&Forecast::requests_per_s>, Needs::kData},
    {"dynamo_planner_predicted_input_sequence_tokens", "Forecast mean prompt length (tokens)",
     kForecast<&Forecast::input_tokens>, Needs::kData},
    {"dynamo_planner_predicted_output_sequence_tokens", "Forecast mean output length (tokens)",
     kForecast<&Forecast::output_tokens>, Needs::kData},
    {"dynamo_planner_predicted_num_prefill_replicas", "Decided number of prefill replicas",
     kOne<&F::decided_prefill_replicas>, Needs::kTarget},
    {"dynamo_planner_predicted_num_decode_replicas",
     "Decided number of decode replicas; aggregated replicas count here", kOne<&F::decided_decode_replicas>,
     Needs::kTarget},
    {"dynamo_planner_gpu_hours", "GPU-hours so far, including start-up and drain", kOne<&F::gpu_hours>},
    {"dynamo_planner_sla_target_ttft_ms", "SLO limit of TTFT (ms)", kLimit<&signals::SloTarget::ttft>},
    {"dynamo_planner_sla_target_itl_ms", "SLO limit of ITL (ms)", kLimit<&signals::SloTarget::itl>},
    {"dynamo_planner_estimated_ttft_ms", "Largest estimated TTFT among engines (ms)",
     kOne<[](const F& f) { return f.estimate.ttft_ms; }>, Needs::kData},
    {"dynamo_planner_estimated_itl_ms", "Largest estimated ITL among engines (ms)",
     kOne<[](const F& f) { return f.estimate.itl_ms; }>, Needs::kData},
    {"dynamo_planner_engine_prefill_capacity_requests_per_second",
     "Request rate that one prefill engine can serve within the SLO (1/s)", kOne<&F::prefill_capacity_requests_per_s>,
     Needs::kData},
    {"dynamo_planner_engine_decode_capacity_requests_per_second",
     "Request rate that one decode engine can serve within the SLO (1/s)", kOne<&F::decode_capacity_requests_per_s>,
     Needs::kData},
    {"dynamo_planner_engine_prefill_requests_per_second",
     "The same as engine_prefill_capacity_requests_per_second, under the name of its documentation",
     kOne<&F::prefill_capacity_requests_per_s>, Needs::kData},
    {"dynamo_planner_engine_decode_requests_per_second",
     "The same as engine_decode_capacity_requests_per_second, under the name of its documentation",
     kOne<&F::decode_capacity_requests_per_s>, Needs::kData},
    {"dynamo_planner_load_scaling_decision", "State of the last decision of the loop that reacts to load", kLoadStates,
     Needs::kData},
    {"dynamo_planner_throughput_scaling_decision", "State of the last decision of the loop that plans ahead",
     kThroughputStates, Needs::kData},
    {"dynamo_planner_engine_queued_prefill_tokens", "Prompt tokens that wait at an engine",
     kEngines<&E::queued_prefill_tokens>, Needs::kData},
    {"dynamo_planner_engine_queued_decode_kv_tokens", "KV tokens of sequences that wait to decode at an engine",
     kEngines<&E::queued_kv_tokens>, Needs::kData},
    {"dynamo_planner_engine_inflight_decode_kv_tokens", "KV tokens of sequences that decode at an engine",
     kEngines<&E::scheduled_kv_tokens>, Needs::kData},
    // Under the names of llm-d's workload-variant-autoscaler, for pools of Kubernetes.
    {"wva_current_replicas", "Replicas of the variant: starting, ready and draining", kVariants<kCurrentReplicas>,
     Needs::kFleet},
    {"wva_desired_replicas", "Target replicas of the last decision", kVariants<kDesiredReplicas>, Needs::kTarget},
    {"wva_desired_ratio", "Target replicas divided by the current ones; without any, the target",
     kVariants<kDesiredRatio>, Needs::kTarget},
    // Penstock's own.
    {"penstock_build_info", "Version of the program as a label; the value is always 1", kBuildInfo},
    {"penstock_gateway_up", "1 if the last answers of the gateway could be read, else 0", kGatewayUp},
    {"penstock_leader",
     "1 if this planner leads, 0 if it follows another one; only with leader election. Targets come from the leader",
     kLeader},
    {"penstock_engine_up",
     "1 if the replica has sent telemetry in the last 30 s, else 0; one series for each ready replica", kEngineUp,
     Needs::kData},
    {"penstock_replicas_left_out",
     "Replicas that the gateway lists and the planner does not scale: of another model, or of a role without a pool",
     kLeftOut, Needs::kData},
    {"penstock_data_state",
     "Whether the planner has the data that it needs: one series for each state; the current state is 1", kDataStates},
    {"penstock_engine_model_uncalibrated",
     "1 while the trials of a pool use the default engine model and no step time has been measured, else 0",
     kUncalibrated, Needs::kData},
    {"penstock_replicas",
     "Replicas by state: starting, ready and draining; with a wake_time also asleep and starting_to_sleep", kReplicas,
     Needs::kData},
    {"penstock_replicas_switching",
     "Draining replicas of the other pool that are to serve in this one with its role; pools with a switch_time",
     kSwitching, Needs::kData},
    {"penstock_role_switches_total",
     "Replicas that left the pool `from` and serve in this one with its role; pools with a switch_time", kRoleSwitches},
    {"penstock_target_replicas", "Target replicas of the last decision", kDecided<&PoolDecision::target>,
     Needs::kTarget},
    {"penstock_min_replicas", "Minimum replicas of the pool", kSeen<&PoolObservation::min_replicas>},
    {"penstock_max_replicas", "Maximum replicas of the pool", kSeen<&PoolObservation::max_replicas>},
    {"penstock_decision", "Reason and limit of the last decision as labels; the value is always 1", kDecisions},
    {"penstock_decision_evidence", "Evidence of the last decision: one series for each figure", kEvidence,
     Needs::kData},
    {"penstock_plan_tick_seconds", "Time that a tick of the planner took, from the observation to the decision (s)",
     kTicks<&TickTimes::wall_s>},
    {"penstock_plan_tick_cpu_seconds",
     "CPU time of a tick of the planner; where it is far below penstock_plan_tick_seconds, the planner waited for a "
     "CPU (s)",
     kTicks<&TickTimes::cpu_s>},
    {"penstock_decisions_total", "Decisions so far, including decisions that change nothing", kDecisionsTotal},
    {"penstock_diagnosis",
     "Cause of bad latency in the last decision: one series for each cause; the current cause is 1", kDiagnosis},
    {"penstock_rollout_phase", "Rollout phase of the planner: one series for each phase; the current phase is 1",
     kPhase},
    {"penstock_next_phase_target_replicas", "Target replicas that the next rollout phase would set",
     kDecided<&PoolDecision::next_phase_target>, Needs::kTarget},
    {"penstock_forecast_error_requests_per_second",
     "Recent mean absolute error of the forecast request rate: the planner's, and of a forecast without change "
     "(1/s)",
     kForecastErrors, Needs::kData},
    {"penstock_replica_capacity_requests_per_second",
     "Request rate that one replica can serve within the SLO, as estimated, given or load-tested (1/s)",
     kPools<&P::capacity_requests_per_s>, Needs::kData},
    {"penstock_candidate_slo_attainment_ratio", "SLO attainment of a simulated fleet",
     kCandidates<&Candidate::slo_attainment>, Needs::kData},
    {"penstock_candidate_ttft_attainment_ratio", "Share of requests within the TTFT limit in a simulated fleet",
     kCandidates<&Candidate::ttft_attainment>, Needs::kData},
    {"penstock_candidate_itl_attainment_ratio", "Share of requests within the ITL limit in a simulated fleet",
     kCandidates<&Candidate::itl_attainment>, Needs::kData},
    {"penstock_slo_attainment_ratio", "SLO attainment: share of requests within all limits",
     kRun<&PlannerMetrics::slo_attainment>, Needs::kData},
    {"penstock_ttft_attainment_ratio", "Share of requests within the TTFT limit",
     kRun<&PlannerMetrics::ttft_attainment>, Needs::kData},
    {"penstock_itl_attainment_ratio", "Share of requests within the ITL limit", kRun<&PlannerMetrics::itl_attainment>,
     Needs::kData},
    {"penstock_slo_e2e_seconds", "SLO limit of the time from arrival to end (s)", kEndToEndLimit},
    {"penstock_unstreamed_e2e_seconds",
     "Mean time from arrival to end of the answers without a stream that completed in the last minute (s)",
     kOne<&F::unstreamed_e2e_s>, Needs::kData},
    {"penstock_unstreamed_tpot_seconds",
     "Mean time per output token of the answers without a stream that completed in the last minute (s)",
     kOne<&F::unstreamed_tpot_s>, Needs::kData},
    {"penstock_pool_requests_total", "Requests that arrived at a pool", kSeen<&PoolObservation::arrivals_total>},
    {"penstock_pool_requests_failed_total", "Requests that failed in a pool", kSeen<&PoolObservation::failed_total>},
    {"penstock_scaling_events_total", "Completed changes of a pool's replicas", kScalingEvents},
    {"penstock_scaling_requests_total",
     "Requests that ended while a pool changed, on any replica, by outcome: completed, failed, truncated, "
     "timed_out, cancelled",
     kScalingRequests},
    {"penstock_pool_held",
     "1 while the planner does not scale a pool of Kubernetes; cause: none, no_data, autoscaler, manual, blocked, "
     "rollout, budget, draining; `by` names who or what holds it",
     kHeld},
    {"penstock_replicas_asked", "Replicas that an object of Kubernetes is asked for", kPods<&PodScaling::asked>},
    {"penstock_replicas_pending", "Pods that have no node or cannot start, and replicas without a pod",
     kPods<&PodScaling::pending>},
    {"penstock_scale_conflicts_total", "Writes of a number of replicas that came after a change by another client",
     kPods<&PodScaling::conflicts>},
    {"penstock_start_up_seconds",
     "Time from the creation of a pod until it is ready, of the last 32 pods: median, shortest, longest (s)", kStartUp},
    {"penstock_gateway_deferred_requests", "Batch requests that wait at the gateway for spare capacity",
     kDeferredRequests, Needs::kData},
    {"penstock_gateway_deferred_next_due_seconds",
     "Time until the deadline of the first of them is near (s); no series while none waits", kNextDue, Needs::kData},
    {"penstock_gateway_deferrals_total",
     "Batch requests that had to wait for spare capacity (deferred), went to it (sent_spare), went because their "
     "deadline was near (sent_due), and missed it (missed), since the start of the gateway",
     kDeferrals},
    {"penstock_unrouted_requests", "Requests that wait because no replica is ready",
     kSeen<&PoolObservation::unrouted_requests>, Needs::kData},
    {"penstock_queue_oldest_seconds", "Age of the oldest request that waits at an engine", kPools<&P::oldest_queued_s>,
     Needs::kData},
    {"penstock_kv_usage_ratio", "KV cache in use, mean over the replicas with telemetry", kPools<&P::kv_usage>,
     Needs::kData},
    {"penstock_kv_full_seconds",
     "Time until the KV cache of a ready replica is full by the trend of the last minute; no series without growth",
     kReady<kSeconds<&signals::EngineSample::kv_full_in>>, Needs::kData},
    {"penstock_gpu_utilisation_ratio", "Utilisation of the GPUs of a ready replica, if an exporter reports it",
     kReady<kShareOf<&signals::EngineSample::gpu_utilisation>>, Needs::kData},
    {"penstock_gpu_memory_usage_ratio",
     "Memory in use of the fullest GPU of a ready replica, if an exporter reports it",
     kReady<kShareOf<&signals::EngineSample::gpu_memory_usage>>, Needs::kData},
    {"penstock_gpu_memory_bandwidth_ratio",
     "Use of the memory bandwidth of the GPUs of a ready replica, if an exporter reports it",
     kReady<kShareOf<&signals::EngineSample::gpu_memory_bandwidth>>, Needs::kData},
    {"penstock_gpu_memory_full_seconds",
     "Time until a GPU memory of a ready replica is full by the trend of the last minute; no series without growth",
     kReady<kSeconds<&signals::EngineSample::gpu_memory_full_in>>, Needs::kData},
    {"penstock_telemetry_age_seconds", "Age of the oldest telemetry sample among the ready replicas",
     kPools<&P::telemetry_age_s>, Needs::kData},
    {"penstock_silent_replicas", "Ready replicas without telemetry for 30 s or more", kPools<&P::silent_replicas>,
     Needs::kData},
    {"penstock_gpu_seconds_total", "GPU time so far, including start-up and drain (s)", kPools<&P::gpu_time_s>},
    {"penstock_gpu_cost_per_million_tokens_usd",
     "GPU cost of 1M prompt and of 1M output tokens, at the fleet and the token rates of the last minute (USD)",
     kTokenCosts, Needs::kFleet},
    {"penstock_gpu_cost_usd_total", "GPU cost so far: GPU time times the configured price (USD)", kPools<&P::cost>},
    {"penstock_tenant_gpu_cost_usd_total",
     "Part of the GPU cost that the tokens of a tenant for a model bear (USD); idle time is divided among them",
     kTenantCosts},
});

constexpr std::array kTickBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0};

}  // namespace

TickTimes::TickTimes() : wall_s(kTickBounds), cpu_s(kTickBounds) {}

std::string to_prometheus_text(const PlannerMetrics& metrics, telemetry::ExpositionFormat format) {
  return to_prometheus_text(std::span{&metrics, 1}, format);
}

std::string to_prometheus_text(std::span<const PlannerMetrics> metrics, telemetry::ExpositionFormat format) {
  std::vector<MetricFigures> figures;
  for (const PlannerMetrics& one : metrics) figures.emplace_back(one);
  std::string text;
  telemetry::ExpositionWriter writer{text, format};
  for (const Family& family : kFamilies) {
    Samples samples{family.name, family.type(), family.help, writer};
    for (const MetricFigures& one : figures) {
      if (!family.is_known(one.from)) continue;
      samples.of(one.from.policy, one.from.model);
      family.writer.add(one, samples);
    }
  }
  writer.finish();
  return text;
}

std::string metrics_markdown() {
  std::string page =
      "# Metrics of the planner\n\n"
      "Generated from the table in `src/report/metrics.cpp`; `report_test` holds this page to it.\n\n"
      "A figure that is not known is a series that is not there, never a zero. The series `dynamo_planner_*` have the\n"
      "names, units and labels of NVIDIA Dynamo's planner (1.3.1), so dashboards made for it go on working; its two\n"
      "enum gauges have one series a state, of which one is 1, and carry the state in `state` and in a label called "
      "as\n"
      "the metric, as Prometheus' Python client writes it. `penstock replay --metrics FILE` writes all of them as "
      "they\n"
      "stand at the end of a run, with one more label, `policy`. A planner of several `deployments` has one more "
      "label,\n"
      "`model`. The series `wva_*` have the names and labels of "
      "llm-d's\n"
      "workload-variant-autoscaler and need `penstock plan --wva-metrics`; see [Migrate from "
      "WVA](../migrate-from-wva.md).\n\n"
      "| series | type | labels | meaning |\n|---|---|---|---|\n";
  for (const Family& family : kFamilies)
    page += fmt::format("| `{}` | {} | {} | {} |\n", family.name, family.type(), family.writer.labels, family.help);
  const auto list = [&](std::string_view name, const auto& states) {
    page += fmt::format("\nStates of `{}`:", name);
    for (const std::string_view state : states)
      page += fmt::format("{}`{}`", &state == &states[0] ? "\n" : ",\n", state);
    page += ".\n";
  };
  list("dynamo_planner_load_scaling_decision", kLoadScalingStates);
  list("dynamo_planner_throughput_scaling_decision", kThroughputScalingStates);
  list("penstock_diagnosis", decision::names_of<decision::Cause>());
  list("penstock_rollout_phase", decision::names_of<decision::RolloutPhase>());
  return page;
}

decision::Decision MeteredPolicy::decide(const signals::Observation& observation) {
  last_.decision = policy_.decide(observation);
  last_.totals.count(observation, last_.decision);
  last_.observation = observation;
  last_.observation.recent = {};
  last_.observation.tenants = {};
  return last_.decision;
}

PlannerMetrics MeteredPolicy::at_end(const decision::RunResult& result, const signals::SloTarget& slo) const {
  PlannerMetrics metrics = last_;
  metrics.slo = slo;
  metrics.gpu_hours = result.gpu_hours;
  if (result.completed > 0) metrics.request_duration_s = result.e2e_ms.mean / 1000.0;
  if (result.requests > 0) {
    metrics.slo_attainment = result.slo_attainment;
    metrics.ttft_attainment = result.ttft_attainment;
    metrics.itl_attainment = result.itl_attainment;
  }
  return metrics;
}

}  // namespace penstock::report
