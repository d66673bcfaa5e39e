#include "signals/sanitize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "core/enum_names.h"

namespace penstock::signals {

namespace {

bool is_share(double value) { return value >= 0.0 && value <= 1.0; }           // false for NaN
bool is_figure(double value) { return std::isfinite(value) && value >= 0.0; }  // Likewise.

// A missing figure contradicts nothing.
bool is_positive(const std::optional<std::uint64_t>& tokens) { return tokens && *tokens > 0; }

bool queue_disagrees(const EngineSample& sample) {
  return sample.queued_requests == 0 &&
         (is_positive(sample.queued_prefill_tokens) || is_positive(sample.queued_kv_tokens) ||
          sample.oldest_queued_age.value_or(core::Duration{}) > core::Duration{});
}

// Requests that run have tokens. Only an engine that reports its tokens in detail can contradict that.
bool running_disagrees(const EngineSample& sample) {
  const bool tokens = is_positive(sample.scheduled_kv_tokens) || is_positive(sample.inflight_prefill_tokens);
  if (sample.running_requests == 0) return tokens;
  return sample.scheduled_kv_tokens && !tokens && sample.kv_used_tokens == 0U;
}

bool went_back(const EngineSample& before, const EngineSample& now) {
  const auto lower = [&](std::optional<std::uint64_t> EngineSample::*counter) {
    return before.*counter && now.*counter && *(now.*counter) < *(before.*counter);
  };
  return lower(&EngineSample::prompt_tokens_total) || lower(&EngineSample::prefix_hit_tokens_total) ||
         lower(&EngineSample::generation_tokens_total) || lower(&EngineSample::completed_total) ||
         lower(&EngineSample::preemptions_total) || lower(&EngineSample::evictions_total);
}

// Empties the window and returns false if a figure is invalid.
bool clean_latencies(LatencyWindow& window) {
  const std::array figures{window.mean_ms, window.p50_ms, window.p90_ms, window.p95_ms, window.p99_ms};
  if (std::all_of(figures.begin(), figures.end(), is_figure)) return true;
  const bool counted = window.count > 0;  // Without a count the figures have no meaning.
  window = {};
  return !counted;
}

bool clean_first_tokens(FirstTokenWindow& window) {
  for (const TimePart* part :
       {&window.admission, &window.replica_wait, &window.queue, &window.prefill, &window.transfer}) {
    if (is_figure(part->mean_ms) && is_figure(part->p95_ms) && is_figure(part->slow_mean_ms)) continue;
    const bool counted = window.count > 0;
    window = {};
    return !counted;
  }
  return true;
}

std::array<std::uint64_t, 6> counters_of(const PoolObservation& pool) {
  return {pool.arrivals_total,  pool.input_tokens_total, pool.output_tokens_total,
          pool.completed_total, pool.failed_total,       pool.actions_failed_total};
}

}  // namespace

const char* to_string(ClockState clock) {
  return core::name_of<ClockState::kLeapt>(clock, {"steady", "went_back", "leapt"});
}

const char* to_string(Contradiction contradiction) {
  return core::name_of<Contradiction::kPoolCounterWentBack>(
      contradiction, {"future_sample", "sample_before_start", "sample_out_of_order", "negative_age", "kv_over_capacity",
                      "queue_disagrees", "running_disagrees", "counter_went_back", "share_out_of_range",
                      "latency_no_number", "traffic_out_of_range", "replica_counts", "pool_counter_went_back"});
}

ClockState Sanitizer::clock_at(core::Instant now) {
  const std::optional<core::Instant> before = std::exchange(last_now_, now);
  if (!before || now == *before) return ClockState::kSteady;
  if (now < *before) return ClockState::kWentBack;
  return now - *before > options_.interval * options_.leap_intervals ? ClockState::kLeapt : ClockState::kSteady;
}

void Sanitizer::report(Contradiction what, std::uint32_t pool, std::optional<std::uint32_t> replica) {
  if (findings_.issues.size() < Findings::kIssuesMax) findings_.issues.push_back({what, pool, replica});
}

std::optional<Contradiction> Sanitizer::at_odds(const EngineSample& sample, core::Instant now,
                                                const SampleMemory* before) const {
  if (sample.sampled_at > now) return Contradiction::kFutureSample;
  if (sample.sampled_at < core::kStart) return Contradiction::kSampleBeforeStart;
  if (sample.oldest_queued_age && *sample.oldest_queued_age < core::Duration{}) return Contradiction::kNegativeAge;
  if (sample.kv_used_tokens && sample.kv_capacity_tokens && *sample.kv_used_tokens > *sample.kv_capacity_tokens)
    return Contradiction::kKvOverCapacity;
  if (!is_share(sample.batch_merge_efficiency.value_or(0.0)) || !is_share(sample.kv_share.value_or(0.0)))
    return Contradiction::kShareOutOfRange;
  if (queue_disagrees(sample)) return Contradiction::kQueueDisagrees;
  if (running_disagrees(sample)) return Contradiction::kRunningDisagrees;
  if (before == nullptr) return std::nullopt;
  if (sample.sampled_at < before->sample.sampled_at) return Contradiction::kSampleOutOfOrder;
  if (went_back(before->sample, sample)) return Contradiction::kCounterWentBack;
  return std::nullopt;
}

void Sanitizer::clean_replicas(Observation& observation, std::uint32_t index) {
  PoolMemory& memory = memory_[index];
  const auto by_replica = [](const SampleMemory& entry, std::uint32_t replica) { return entry.replica < replica; };
  memory.next.clear();
  for (ReplicaObservation& replica : observation.pools[index].replicas) {
    const auto found = std::lower_bound(memory.samples.begin(), memory.samples.end(), replica.replica, by_replica);
    const SampleMemory* before = found != memory.samples.end() && found->replica == replica.replica ? &*found : nullptr;
    if (replica.sample) {
      // A contradictory sample is remembered, too: an engine that restarted continues from it.
      memory.next.push_back({replica.replica, *replica.sample});
      if (const auto what = at_odds(*replica.sample, observation.now, before)) {
        report(*what, index, replica.replica);
        replica.sample.reset();
      }
    } else if (before != nullptr) {
      memory.next.push_back(*before);
    }
  }
  const auto in_order = [](const SampleMemory& a, const SampleMemory& b) { return a.replica < b.replica; };
  if (!std::is_sorted(memory.next.begin(), memory.next.end(), in_order))
    std::sort(memory.next.begin(), memory.next.end(), in_order);
  memory.samples.swap(memory.next);
}

void Sanitizer::clean_windows(PoolObservation& pool, std::uint32_t index) {
  TrafficWindow& traffic = pool.last_minute;
  bool numbers = clean_latencies(traffic.ttft);
  for (LatencyWindow* window : {&traffic.itl, &traffic.e2e, &traffic.tpot}) numbers &= clean_latencies(*window);
  if (traffic.length < core::Duration{}) {
    report(Contradiction::kTrafficOutOfRange, index);
    traffic = {};
  }
  if (pool.detail) {
    for (SegmentWindow& segment : pool.detail->segments) {
      numbers &= clean_latencies(segment.ttft);
      numbers &= clean_latencies(segment.itl);
    }
    numbers &= clean_first_tokens(pool.detail->first_tokens);
    if (pool.detail->oldest_unrouted_age < core::Duration{}) {
      report(Contradiction::kNegativeAge, index);
      pool.detail->oldest_unrouted_age = {};
    }
  }
  if (!numbers) report(Contradiction::kLatencyNoNumber, index);
}

void Sanitizer::check_counts(const PoolObservation& pool, std::uint32_t index) {
  std::array<std::uint32_t, 6> listed{};
  for (const ReplicaObservation& replica : pool.replicas) ++listed[static_cast<std::size_t>(replica.state)];
  const auto is = [&](ReplicaState state, std::uint32_t reported) {
    return listed[static_cast<std::size_t>(state)] == reported;
  };
  if (!is(ReplicaState::kStarting, pool.starting) || !is(ReplicaState::kReady, pool.ready) ||
      !is(ReplicaState::kDraining, pool.draining) || !is(ReplicaState::kAsleep, pool.asleep + pool.starting_to_sleep))
    report(Contradiction::kReplicaCounts, index);
  const auto counters = counters_of(pool);
  auto& before = memory_[index].counters;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (counters[i] >= before[i]) continue;
    report(Contradiction::kPoolCounterWentBack, index);
    break;
  }
  before.assign(counters.begin(), counters.end());
}

const Findings& Sanitizer::clean(Observation& observation) {
  findings_.clock = clock_at(observation.now);
  findings_.issues.clear();
  memory_.resize(observation.pools.size());
  for (std::uint32_t index = 0; index < observation.pools.size(); ++index) {
    if (findings_.clock != ClockState::kSteady) memory_[index].samples.clear();
    clean_replicas(observation, index);
    clean_windows(observation.pools[index], index);
    check_counts(observation.pools[index], index);
  }
  return findings_;
}

}  // namespace penstock::signals
