#include "report/metrics_figures.h"

#include <algorithm>

#include "core/result.h"
#include "decision/figures.h"

namespace penstock::report {

using signals::Role;

namespace {

std::optional<double> ratio(double sum, std::uint64_t count) {
  return count == 0 ? std::nullopt : std::optional{sum / static_cast<double>(count)};
}

// The sample of a ready replica, if it is recent and not from the future.
const signals::EngineSample* fresh_sample(const signals::ReplicaObservation& replica, core::Instant now) {
  if (replica.state != signals::ReplicaState::kReady || !replica.sample) return nullptr;
  if (replica.sample->sampled_at > now || replica.sample->sampled_at < now - kSampleAgeMax) return nullptr;
  return &*replica.sample;
}

void add_health(PoolFigures& figures, core::Instant now) {
  double kv_usage = 0.0;
  std::uint64_t measured = 0;
  const auto raise = [](std::optional<double>& most, core::Duration age) {
    most = std::max(most.value_or(0.0), core::to_seconds(age));
  };
  for (const signals::ReplicaObservation& replica : figures.seen.replicas) {
    if (replica.state != signals::ReplicaState::kReady) continue;
    if (replica.sample) raise(figures.telemetry_age_s, now - replica.sample->sampled_at);
    const signals::EngineSample* sample = fresh_sample(replica, now);
    if (sample == nullptr) {
      ++figures.silent_replicas;
      continue;
    }
    if (sample->oldest_queued_age) raise(figures.oldest_queued_s, *sample->oldest_queued_age);
    if (const auto usage = sample->kv_usage()) {
      kv_usage += *usage;
      ++measured;
    }
  }
  figures.kv_usage = ratio(kv_usage, measured);
}

}  // namespace

void MetricFigures::add_engines(const signals::PoolObservation& pool) {
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    const signals::EngineSample* sample = fresh_sample(replica, from.observation.now);
    if (sample == nullptr) continue;
    EngineFigures& engine = engines.emplace_back();
    engine.worker_id = std::to_string(replica.replica);
    if (pool.role != Role::kDecode) engine.queued_prefill_tokens = sample->queued_prefill_tokens;
    if (pool.role == Role::kPrefill) continue;
    engine.queued_kv_tokens = sample->queued_kv_tokens;
    engine.scheduled_kv_tokens = sample->scheduled_kv_tokens;
  }
}

void MetricFigures::add_pool(std::size_t index) {
  const signals::PoolObservation& seen = from.observation.pools[index];
  PoolFigures& pool = pools.emplace_back(PoolFigures{seen, from.decision.pools[index]});
  pool.gpu_time_s = core::to_seconds(from.totals.gpu_time(index));
  pool.cost = from.totals.cost(index);
  pool.capacity_requests_per_s = decision::capacity_per_replica(from.decision, index);
  add_health(pool, from.observation.now);
  add_engines(seen);

  const bool prefill = seen.role == Role::kPrefill;
  const auto add = [](std::optional<double>& sum, double replicas) { sum = sum.value_or(0.0) + replicas; };
  add(prefill ? prefill_replicas : decode_replicas, seen.ready);
  add(prefill ? decided_prefill_replicas : decided_decode_replicas, pool.decided.target);
  // Dynamo has one capacity for all prefill engines and one for all that decode. The smallest is the one to plan with.
  if (!pool.capacity_requests_per_s) return;
  const auto lower = [&](std::optional<double>& least) {
    least = std::min(least.value_or(*pool.capacity_requests_per_s), *pool.capacity_requests_per_s);
  };
  if (seen.role != Role::kDecode) lower(prefill_capacity_requests_per_s);
  if (!prefill) lower(decode_capacity_requests_per_s);
}

// Sums over the pools that requests enter first: a decode pool sees the same requests again.
void MetricFigures::add_traffic() {
  signals::TrafficWindow sum;
  for (const signals::PoolObservation& pool : from.observation.pools) {
    const signals::TrafficWindow& window = pool.last_minute;
    if (pool.role == Role::kDecode || window.length <= core::Duration{}) continue;
    requests_per_s =
        requests_per_s.value_or(0.0) + static_cast<double>(window.arrivals) / core::to_seconds(window.length);
    sum.arrivals += window.arrivals;
    sum.input_tokens += window.input_tokens;
    sum.completed += window.completed;
    sum.completed_output_tokens += window.completed_output_tokens;
    sum.timed += window.timed;
    sum.timed_ms += window.timed_ms;
    for (const auto latency : {&signals::TrafficWindow::ttft, &signals::TrafficWindow::itl,
                               &signals::TrafficWindow::e2e, &signals::TrafficWindow::tpot}) {
      (sum.*latency).count += (window.*latency).count;
      (sum.*latency).mean_ms += (window.*latency).mean_ms * static_cast<double>((window.*latency).count);
    }
  }
  input_tokens = ratio(static_cast<double>(sum.input_tokens), sum.arrivals);
  output_tokens = ratio(static_cast<double>(sum.completed_output_tokens), sum.completed);
  ttft_ms = ratio(sum.ttft.mean_ms, sum.ttft.count);
  itl_ms = ratio(sum.itl.mean_ms, sum.itl.count);
  if (!request_duration_s) request_duration_s = ratio(sum.timed_ms / 1000.0, sum.timed);
  unstreamed_e2e_s = ratio(sum.e2e.mean_ms / 1000.0, sum.e2e.count);
  unstreamed_tpot_s = ratio(sum.tpot.mean_ms / 1000.0, sum.tpot.count);
}

// All replicas are paid for. The cost of a token is unknown without a price, and while the part of an engine's time
// that prompts take is unknown.
void MetricFigures::add_token_costs() {
  double input_usd = 0.0, output_usd = 0.0, input_rate = 0.0, output_rate = 0.0;
  for (const PoolFigures& pool : pools) {
    const signals::PoolObservation& seen = pool.seen;
    const double seconds = core::to_seconds(seen.last_minute.length);
    const auto input_share = decision::input_time_share(seen.role, pool.decided);
    if (!pool.cost || !input_share || seconds <= 0.0) return;
    const double usd_per_s = decision::paid_replicas(seen) * seen.gpus_per_replica * seen.price_per_gpu_hour / 3600.0;
    input_usd += usd_per_s * *input_share;
    output_usd += usd_per_s * (1.0 - *input_share);
    if (seen.role != Role::kDecode) input_rate += static_cast<double>(seen.last_minute.input_tokens) / seconds;
    if (seen.role != Role::kPrefill) output_rate += static_cast<double>(seen.last_minute.output_tokens) / seconds;
  }
  if (input_rate > 0.0) usd_per_1m_input_tokens = 1e6 * input_usd / input_rate;
  if (output_rate > 0.0) usd_per_1m_output_tokens = 1e6 * output_usd / output_rate;
}

// The throughput plan and the load loop may try the same fleet. The last outcome counts, so that the fleet is one
// series.
void MetricFigures::add_candidates() {
  for (const decision::Candidate& tried : from.decision.candidates) {
    const auto same = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const decision::Candidate& known) { return known.replicas == tried.replicas; });
    if (same == candidates.end()) {
      candidates.push_back(tried);
    } else {
      const bool chosen = same->chosen || tried.chosen;
      *same = tried;
      same->chosen = chosen;
    }
  }
}

MetricFigures::MetricFigures(const PlannerMetrics& metrics)
    : from(metrics), request_duration_s(metrics.request_duration_s), gpu_hours(metrics.gpu_hours) {
  PENSTOCK_ASSERT(from.decision.pools.size() == from.observation.pools.size(), "a policy decides on every pool");
  if (from.observation.pools.empty()) {
    if (!gpu_hours) return;
    load_scaling = LoadScaling::kDisabled;
    throughput_scaling = ThroughputScaling::kDisabled;
    return;
  }
  core::Duration gpu_time{};
  for (std::size_t i = 0; i < from.observation.pools.size(); ++i) {
    add_pool(i);
    gpu_time += from.totals.gpu_time(i);
  }
  gpu_hours = core::to_hours(gpu_time);
  add_traffic();
  add_token_costs();
  add_candidates();
  decisions = from.totals.decisions();
  forecast = from.decision.forecast.value_or(decision::Forecast{});
  estimate = decision::estimate_of(from.decision);
  load_scaling = load_scaling_state(from.decision);
  throughput_scaling = throughput_scaling_state(from.decision);
}

}  // namespace penstock::report
