#include "report/metrics_sources.h"

#include <algorithm>
#include <set>

#include "core/result.h"
#include "decision/figures.h"

namespace penstock::report {

using decision::Limit;
using decision::Reason;
using signals::Role;

namespace {

std::optional<double> mean_of(std::uint64_t sum, std::uint64_t count) {
  if (count == 0) return std::nullopt;
  return static_cast<double>(sum) / static_cast<double>(count);
}

// A sample that may be believed: of a ready replica, not old, and not of a time to come.
const signals::EngineSample* fresh_sample(const signals::ReplicaObservation& replica, core::Instant now) {
  if (replica.state != signals::ReplicaState::kReady || !replica.sample) return nullptr;
  if (replica.sample->sampled_at > now || replica.sample->sampled_at < now - kSampleAgeMax) return nullptr;
  return &*replica.sample;
}

void add_engines(PlannerMetrics& metrics, const signals::PoolObservation& pool, core::Instant now) {
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    const signals::EngineSample* sample = fresh_sample(replica, now);
    if (sample == nullptr) continue;
    EngineMetrics& engine = metrics.engines.emplace_back();
    engine.worker_id = std::to_string(replica.replica);
    if (pool.role != Role::kDecode) engine.queued_prefill_tokens = static_cast<double>(sample->queued_prefill_tokens);
    if (pool.role == Role::kPrefill) continue;
    engine.queued_decode_kv_tokens = static_cast<double>(sample->queued_kv_tokens);
    engine.inflight_decode_kv_tokens = static_cast<double>(sample->scheduled_kv_tokens);
  }
}

void add_health(PoolMetrics& metrics, const signals::PoolObservation& pool, core::Instant now) {
  double kv_usage = 0.0;
  std::uint32_t measured = 0;
  std::optional<core::Duration> oldest_sample, oldest_queued;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady) continue;
    if (replica.sample)
      oldest_sample = std::max(oldest_sample.value_or(core::Duration{}), now - replica.sample->sampled_at);
    const signals::EngineSample* sample = fresh_sample(replica, now);
    if (sample == nullptr) {
      ++metrics.silent_replicas;
      continue;
    }
    oldest_queued = std::max(oldest_queued.value_or(core::Duration{}), sample->oldest_queued_age);
    if (sample->kv_capacity_tokens == 0) continue;
    kv_usage += sample->kv_usage();
    ++measured;
  }
  if (oldest_sample) metrics.telemetry_age_s = core::to_seconds(*oldest_sample);
  if (oldest_queued) metrics.oldest_queued_s = core::to_seconds(*oldest_queued);
  if (measured > 0) metrics.kv_usage = kv_usage / measured;
}

PoolMetrics pool_metrics(const MetricSources& sources, std::size_t index) {
  const signals::PoolObservation& pool = sources.observation.pools[index];
  const decision::PoolDecision& decision = sources.decision.pools[index];
  PoolMetrics metrics;
  metrics.pool = pool.name;
  metrics.role = pool.role;
  metrics.starting = pool.starting;
  metrics.ready = pool.ready;
  metrics.draining = pool.draining;
  metrics.min_replicas = pool.min_replicas;
  metrics.max_replicas = pool.max_replicas;
  metrics.target_replicas = decision.target;
  metrics.reason = decision.reason;
  metrics.limited_by = decision.limited_by;
  // A name that comes twice would be one series with two values, which no scrape survives: the first one stays.
  std::set<std::string_view> names;
  for (const decision::Evidence& evidence : decision.evidence)
    if (names.insert(evidence.name).second) metrics.evidence.push_back(evidence);
  metrics.cause = sources.decision.cause;
  if (decision.next_phase_target) metrics.next_phase_target = *decision.next_phase_target;
  metrics.capacity_requests_per_s = decision::capacity_per_replica(sources.decision, index);
  metrics.unrouted_requests = pool.unrouted_requests;
  add_health(metrics, pool, sources.observation.now);
  metrics.requests_total = static_cast<double>(pool.arrivals_total);
  metrics.failed_total = static_cast<double>(pool.failed_total);
  metrics.gpu_s_total = core::to_seconds(sources.totals.gpu_time(index));
  metrics.cost_total = sources.totals.cost(index);
  return metrics;
}

void add_replicas(PlannerMetrics& metrics, const MetricSources& sources) {
  const auto add = [](std::optional<double>& sum, std::uint32_t replicas) { sum = sum.value_or(0.0) + replicas; };
  for (std::size_t i = 0; i < sources.observation.pools.size(); ++i) {
    const signals::PoolObservation& pool = sources.observation.pools[i];
    const bool prefill = pool.role == Role::kPrefill;
    add(prefill ? metrics.prefill_replicas : metrics.decode_replicas, pool.ready);
    add(prefill ? metrics.decided_prefill_replicas : metrics.decided_decode_replicas, sources.decision.pools[i].target);
  }
}

// Sums over the pools that requests come to first: a decode pool sees the same ones again.
void add_traffic(PlannerMetrics& metrics, const signals::Observation& observation) {
  std::uint64_t arrivals = 0, input_tokens = 0, completed = 0, output_tokens = 0, first_tokens = 0, gaps = 0;
  double rate = 0.0, ttft_ms = 0.0, itl_ms = 0.0;
  bool measured = false;
  for (const signals::PoolObservation& pool : observation.pools) {
    const signals::TrafficWindow& window = pool.last_minute;
    if (pool.role == Role::kDecode || window.length <= core::Duration{}) continue;
    measured = true;
    rate += static_cast<double>(window.arrivals) / core::to_seconds(window.length);
    arrivals += window.arrivals;
    input_tokens += window.input_tokens;
    completed += window.completed;
    output_tokens += window.completed_output_tokens;
    first_tokens += window.ttft.count;
    ttft_ms += window.ttft.mean_ms * static_cast<double>(window.ttft.count);
    gaps += window.itl.count;
    itl_ms += window.itl.mean_ms * static_cast<double>(window.itl.count);
  }
  if (measured) metrics.observed.requests_per_s = rate;
  metrics.observed.input_tokens = mean_of(input_tokens, arrivals);
  metrics.observed.output_tokens = mean_of(output_tokens, completed);
  if (first_tokens > 0) metrics.observed_latency.ttft_ms = ttft_ms / static_cast<double>(first_tokens);
  if (gaps > 0) metrics.observed_latency.itl_ms = itl_ms / static_cast<double>(gaps);
}

// A fleet may be tried twice, by the plan and by the reaction; its last outcome counts, and one series stays one.
void add_candidates(PlannerMetrics& metrics, const decision::Decision& decision) {
  for (const decision::Candidate& tried : decision.candidates) {
    const auto same = std::find_if(metrics.candidates.begin(), metrics.candidates.end(),
                                   [&](const decision::Candidate& known) { return known.replicas == tried.replicas; });
    if (same == metrics.candidates.end()) {
      metrics.candidates.push_back(tried);
    } else {
      const bool chosen = same->chosen || tried.chosen;
      *same = tried;
      same->chosen = chosen;
    }
  }
}

void add_forecast(PlannerMetrics& metrics, const decision::Decision& decision) {
  metrics.phase = decision.phase;
  if (!decision.forecast) return;
  metrics.predicted = {decision.forecast->requests_per_s, decision.forecast->input_tokens,
                       decision.forecast->output_tokens};
  metrics.forecast_error = decision.forecast->error;
  metrics.naive_forecast_error = decision.forecast->naive_error;
}

// Dynamo knows one capacity for all prefill engines and one for all that decode; the smallest is the one to plan with.
void add_estimates(PlannerMetrics& metrics, const decision::Decision& decision) {
  const decision::Estimate estimate = decision::estimate_of(decision);
  metrics.estimated = {estimate.ttft_ms, estimate.itl_ms};
  for (const PoolMetrics& pool : metrics.pools) {
    if (!pool.capacity_requests_per_s) continue;
    const auto lower = [&](std::optional<double>& least) {
      least = std::min(least.value_or(*pool.capacity_requests_per_s), *pool.capacity_requests_per_s);
    };
    if (pool.role != Role::kDecode) lower(metrics.prefill_capacity_requests_per_s);
    if (pool.role != Role::kPrefill) lower(metrics.decode_capacity_requests_per_s);
  }
}

void known_first(std::optional<double>& figure, const std::optional<double>& told) {
  if (told) figure = told;
}

// A loop that its rollout phase does not let act yet is switched off.
bool before_phase(const decision::Decision& decision, decision::RolloutPhase acts_from) {
  return decision.phase && *decision.phase < acts_from;
}

// The reaction wanted less than the plan, which is the floor.
bool below_floor(const decision::PoolDecision& decision) {
  const auto proposal = decision::evidence_value(decision, "load_based_target", "replicas");
  const auto floor = decision::evidence_value(decision, "floor", "replicas");
  return proposal && floor && *proposal < *floor && *proposal < decision.current;
}

LoadScaling load_scaling_of(const decision::PoolDecision& decision) {
  if (decision.target > decision.current) return LoadScaling::kScaleUp;
  if (decision.target < decision.current) return LoadScaling::kScaleDown;
  switch (decision.limited_by) {
    case Limit::kStaleTelemetry: return LoadScaling::kNoFpmData;
    case Limit::kStartingOrDraining: return LoadScaling::kScalingInProgress;
    case Limit::kConsolidation: return LoadScaling::kScaleDownRefusedConsolidation;
    case Limit::kManualChange: return LoadScaling::kWorkerCountMismatch;
    default: break;
  }
  switch (decision.reason) {
    case Reason::kFixed: return LoadScaling::kDisabled;
    case Reason::kNoData: return LoadScaling::kNoFpmData;
    case Reason::kInsufficientData: return LoadScaling::kInsufficientData;
    case Reason::kScalingInProgress: return LoadScaling::kScalingInProgress;
    case Reason::kConsolidationRefused: return LoadScaling::kScaleDownRefusedConsolidation;
    default: return below_floor(decision) ? LoadScaling::kScaleDownCappedByThroughput : LoadScaling::kNoChange;
  }
}

ThroughputScaling throughput_scaling_of(const decision::PoolDecision& decision) {
  switch (decision.reason) {
    case Reason::kFixed: return ThroughputScaling::kDisabled;
    case Reason::kNoData: return ThroughputScaling::kNoTrafficData;
    case Reason::kInsufficientData: return ThroughputScaling::kModelNotReady;
    default: return decision.target == decision.current ? ThroughputScaling::kSetLowerBound : ThroughputScaling::kScale;
  }
}

template <class State, std::size_t count>
State gravest(const decision::Decision& decision, State (*state_of)(const decision::PoolDecision&),
              const std::array<State, count>& by_weight) {
  auto found = by_weight.end();
  for (const decision::PoolDecision& pool : decision.pools)
    found = std::min(found, std::find(by_weight.begin(), by_weight.end(), state_of(pool)));
  return found == by_weight.end() ? State::kUnset : *found;
}

}  // namespace

LoadScaling load_scaling_state(const decision::Decision& decision) {
  using enum LoadScaling;
  if (before_phase(decision, decision::RolloutPhase::kLoad)) return kDisabled;
  static constexpr std::array kByWeight = {kScaleUp,
                                           kScaleDown,
                                           kNoFpmData,
                                           kWorkerCountMismatch,
                                           kInsufficientData,
                                           kScalingInProgress,
                                           kScaleDownRefusedConsolidation,
                                           kScaleDownCappedByThroughput,
                                           kNoChange,
                                           kDisabled};
  return gravest(decision, load_scaling_of, kByWeight);
}

ThroughputScaling throughput_scaling_state(const decision::Decision& decision) {
  using enum ThroughputScaling;
  if (before_phase(decision, decision::RolloutPhase::kThroughput)) return kDisabled;
  static constexpr std::array kByWeight = {kScale, kNoTrafficData, kModelNotReady, kSetLowerBound, kDisabled};
  const ThroughputScaling state = gravest(decision, throughput_scaling_of, kByWeight);
  const bool no_forecast = decision.forecast && !decision.forecast->requests_per_s;
  return state == kSetLowerBound && no_forecast ? kPredictFailed : state;
}

PlannerMetrics make_planner_metrics(const MetricSources& sources) {
  const signals::Observation& observation = sources.observation;
  PENSTOCK_ASSERT(sources.decision.pools.size() == observation.pools.size(), "a policy decides on every pool");
  PlannerMetrics metrics;
  add_replicas(metrics, sources);
  add_traffic(metrics, observation);
  core::Duration gpu_time{};
  for (std::size_t i = 0; i < observation.pools.size(); ++i) {
    metrics.pools.push_back(pool_metrics(sources, i));
    metrics.candidate_pools.push_back(observation.pools[i].name);
    add_engines(metrics, observation.pools[i], observation.now);
    gpu_time += sources.totals.gpu_time(i);
  }
  metrics.gpu_hours = core::to_hours(gpu_time);
  metrics.decisions = sources.totals.decisions();
  add_candidates(metrics, sources.decision);
  if (sources.slo)
    metrics.sla_target = {core::to_milliseconds(sources.slo->ttft), core::to_milliseconds(sources.slo->itl)};
  metrics.observed_request_duration_s = sources.observed_request_duration_s;
  add_forecast(metrics, sources.decision);
  add_estimates(metrics, sources.decision);
  known_first(metrics.predicted.requests_per_s, sources.predicted.requests_per_s);
  known_first(metrics.predicted.input_tokens, sources.predicted.input_tokens);
  known_first(metrics.predicted.output_tokens, sources.predicted.output_tokens);
  known_first(metrics.estimated.ttft_ms, sources.estimated.ttft_ms);
  known_first(metrics.estimated.itl_ms, sources.estimated.itl_ms);
  known_first(metrics.prefill_capacity_requests_per_s, sources.prefill_capacity_requests_per_s);
  known_first(metrics.decode_capacity_requests_per_s, sources.decode_capacity_requests_per_s);
  metrics.slo_attainment = sources.slo_attainment;
  metrics.ttft_attainment = sources.ttft_attainment;
  metrics.itl_attainment = sources.itl_attainment;
  metrics.load_scaling = sources.load_scaling.value_or(load_scaling_state(sources.decision));
  metrics.throughput_scaling = sources.throughput_scaling.value_or(throughput_scaling_state(sources.decision));
  return metrics;
}

}  // namespace penstock::report
