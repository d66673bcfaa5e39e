#include "planner/pool_history.h"

#include <algorithm>
#include <cmath>

#include "planner/samples.h"

namespace penstock::planner {
namespace {

using signals::EngineSample;
using signals::ReplicaState;

constexpr double kLongTermHalfLifeS = 600.0;
constexpr double kKvFull = 0.95;  // The cache is full for prompts of any length.
constexpr double kKvHeld = 0.85;  // Gateways hold prompts back above this usage.

double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }
double ratio(std::uint64_t part, std::uint64_t whole) {
  return ratio(static_cast<double>(part), static_cast<double>(whole));
}

// Returns true if free KV is less than the next queued request needs. A prompt whose KV is transferred is not a prefill
// for the engine, but needs the blocks all the same.
bool blocked_by_kv(const EngineSample& sample, double mean_prompt_tokens) {
  const auto usage = sample.kv_usage();
  if (usage && *usage >= kKvFull) return true;
  if (!sample.kv_capacity_tokens || !sample.kv_used_tokens) return false;
  const std::uint64_t queued_prefill = sample.queued_prefill_tokens.value_or(0);
  const double waiting = ratio(queued_prefill + sample.queued_kv_tokens.value_or(0), sample.queued_requests);
  const auto free = static_cast<double>(*sample.kv_capacity_tokens - *sample.kv_used_tokens);
  return free < std::max(waiting, queued_prefill == 0 ? mean_prompt_tokens : 0.0);
}

// Mean KV tokens that a request holds: its prompt and half of its answer.
double mean_request_tokens(const signals::PoolObservation& pool) {
  const signals::TrafficWindow& traffic = pool.last_minute;
  return mean_prompt_tokens(pool) + ratio(traffic.completed_output_tokens, traffic.completed) / 2.0;
}

// Returns true if a gateway does not send another mean request to the engine for want of KV.
bool holds_requests_back(const EngineSample& sample, double mean_request_tokens) {
  const auto usage = sample.kv_usage();
  if (!usage) return false;
  const double share = ratio(mean_request_tokens, static_cast<double>(sample.kv_capacity_tokens.value_or(0)));
  return *usage >= kKvHeld || *usage + share > 1.0;
}

}  // namespace

bool contradicts_itself(const EngineSample& sample) {
  if (sample.kv_used_tokens && sample.kv_capacity_tokens && *sample.kv_used_tokens > *sample.kv_capacity_tokens)
    return true;
  // An engine that reports its tokens in detail reports those of running requests, too.
  if (sample.running_requests > 0 && sample.scheduled_kv_tokens && sample.kv_used_tokens == 0U) return true;
  return sample.prefix_hit_tokens_total && sample.prompt_tokens_total &&
         *sample.prefix_hit_tokens_total > *sample.prompt_tokens_total;
}

double EngineMinute::hit_share() const { return ratio(prefix_hit_tokens, prompt_tokens); }

double EngineMinute::preemptions_per_request() const {
  return ratio(static_cast<double>(preemptions), static_cast<double>(std::max<std::uint64_t>(1, completed)));
}

double EngineMinute::per_minute(std::uint64_t count) const {
  return ratio(static_cast<double>(count) * 60.0, core::to_seconds(length));
}

double EngineMinute::prefill_tokens_per_step() const {
  const double computed = static_cast<double>(prompt_tokens - prefix_hit_tokens);
  return ratio(computed * running_per_replica, static_cast<double>(generation_tokens));
}

void PoolHistory::add_counters(Tick& tick, core::Instant now, const signals::ReplicaObservation& replica) {
  const EngineSample& sample = *replica.sample;
  const auto known = last_.find(replica.replica);
  EngineSample before;  // All zero, because the engine has started since.
  if (known != last_.end() && known->second.prompt_tokens_total <= sample.prompt_tokens_total &&
      known->second.generation_tokens_total <= sample.generation_tokens_total) {
    before = known->second;
  } else if (known == last_.end() && (!started_ || replica.state_since <= now - core::kMinute)) {
    before = sample;  // Activity before the first report does not belong to this minute.
  }
  const auto gain = [](const std::optional<std::uint64_t>& from, const std::optional<std::uint64_t>& to) {
    return to && *to > from.value_or(0) ? *to - from.value_or(0) : 0;
  };
  EngineMinute& gained = tick.since_last;
  gained.prompt_tokens += gain(before.prompt_tokens_total, sample.prompt_tokens_total);
  gained.prefix_hit_tokens += gain(before.prefix_hit_tokens_total, sample.prefix_hit_tokens_total);
  gained.generation_tokens += gain(before.generation_tokens_total, sample.generation_tokens_total);
  gained.completed += gain(before.completed_total, sample.completed_total);
  gained.preemptions += gain(before.preemptions_total, sample.preemptions_total);
  gained.evictions += gain(before.evictions_total, sample.evictions_total);
  last_[replica.replica] = sample;
}

void PoolHistory::add(core::Instant now, const signals::PoolObservation& pool, core::Duration sample_age_max) {
  Tick tick;
  tick.at = now;
  if (!ticks_.empty()) tick.since_last.length = now - ticks_.back().at;
  const double mean_prompt = mean_prompt_tokens(pool);

  std::vector<const EngineSample*> reporting;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (!replica.sample || replica.sample->sampled_at <= now - sample_age_max) continue;
    if (contradicts_itself(*replica.sample)) continue;
    add_counters(tick, now, replica);
    if (replica.state == ReplicaState::kReady) reporting.push_back(&*replica.sample);
  }
  std::erase_if(last_, [&](const auto& entry) {
    return std::none_of(pool.replicas.begin(), pool.replicas.end(),
                        [&](const auto& replica) { return replica.replica == entry.first; });
  });
  started_ = true;

  EngineMinute& means = tick.since_last;
  means.starting_share = ratio(pool.starting, std::uint64_t{pool.starting} + pool.ready);
  double running = 0.0, queued = 0.0, deferred = 0.0, kv = 0.0, known_kv = 0.0, blocked = 0.0, with_queue = 0.0;
  double full = 0.0;
  const double mean_request = mean_request_tokens(pool);
  for (const EngineSample* sample : reporting) {
    running += sample->running_requests;
    queued += sample->queued_requests;
    deferred += std::min(sample->deferred_requests.value_or(0), sample->queued_requests);
    full += holds_requests_back(*sample, mean_request) ? 1.0 : 0.0;
    kv += sample->kv_usage().value_or(0.0);
    known_kv += sample->kv_usage() ? 1.0 : 0.0;
    if (sample->queued_requests == 0) continue;
    with_queue += 1.0;
    blocked += blocked_by_kv(*sample, mean_prompt) ? 1.0 : 0.0;
  }
  const auto engines = static_cast<double>(reporting.size());
  means.kv_usage = ratio(kv, known_kv);
  means.running_per_replica = ratio(running, engines);
  means.queued_per_replica = ratio(queued, engines);
  means.deferred_per_replica = ratio(deferred, engines);
  means.kv_full_share = ratio(full, engines);
  means.kv_blocked_share = ratio(blocked, with_queue);
  const auto idle = std::count_if(reporting.begin(), reporting.end(), [&](const EngineSample* sample) {
    return sample->queued_requests == 0 && sample->running_requests <= means.running_per_replica / 2.0;
  });
  means.idle_share = ratio(static_cast<double>(idle), engines);
  tick.reported = !reporting.empty();
  tick.queued = with_queue > 0.0;
  tick.unrouted = pool.unrouted_requests > 0 && tick.reported;
  ticks_.push_back(tick);
  forget(now);
}

void PoolHistory::forget(core::Instant now) {
  while (ticks_.size() > 1 && ticks_.front().at <= now - core::kMinute) {
    const EngineMinute& old = ticks_.front().since_last;
    const double kept = std::exp2(-core::to_seconds(old.length) / kLongTermHalfLifeS);
    long_prompt_tokens_ = long_prompt_tokens_ * kept + static_cast<double>(old.prompt_tokens);
    long_hit_tokens_ = long_hit_tokens_ * kept + static_cast<double>(old.prefix_hit_tokens);
    ticks_.pop_front();
  }
}

EngineMinute PoolHistory::last_minute() const {
  EngineMinute sum;
  double reporting = 0.0, queued = 0.0, unrouted = 0.0;
  for (const Tick& tick : ticks_) {
    const EngineMinute& part = tick.since_last;
    sum.length += part.length;
    sum.prompt_tokens += part.prompt_tokens;
    sum.prefix_hit_tokens += part.prefix_hit_tokens;
    sum.generation_tokens += part.generation_tokens;
    sum.completed += part.completed;
    sum.preemptions += part.preemptions;
    sum.evictions += part.evictions;
    sum.starting_share += part.starting_share;
    if (tick.reported) {
      reporting += 1.0;
      sum.kv_usage += part.kv_usage;
      sum.running_per_replica += part.running_per_replica;
      sum.queued_per_replica += part.queued_per_replica;
      sum.deferred_per_replica += part.deferred_per_replica;
    }
    if (tick.unrouted) {
      unrouted += 1.0;
      sum.kv_full_share += part.kv_full_share;
    }
    if (tick.queued) {
      queued += 1.0;
      sum.kv_blocked_share += part.kv_blocked_share;
      sum.idle_share += part.idle_share;
    }
  }
  // An engine counts hits when it schedules a prompt, which may be long before it counts the prompt.
  sum.prefix_hit_tokens = std::min(sum.prefix_hit_tokens, sum.prompt_tokens);
  sum.starting_share = ratio(sum.starting_share, static_cast<double>(ticks_.size()));
  for (double* mean : {&sum.kv_usage, &sum.running_per_replica, &sum.queued_per_replica, &sum.deferred_per_replica})
    *mean = ratio(*mean, reporting);
  sum.kv_full_share = ratio(sum.kv_full_share, unrouted);
  for (double* mean : {&sum.kv_blocked_share, &sum.idle_share}) *mean = ratio(*mean, queued);
  return sum;
}

double PoolHistory::long_term_hit_share() const { return ratio(long_hit_tokens_, long_prompt_tokens_); }

}  // namespace penstock::planner
