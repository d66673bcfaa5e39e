#include "evaluation/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/format.h"

namespace penstock::evaluation {

using namespace report;
namespace {

constexpr core::Duration kMinute = std::chrono::minutes{1};

// Why a pool must not shrink, or null.
const char* reason_to_stay(core::Instant now, const signals::PoolObservation& pool,
                           const planner::GuardrailOptions& limits) {
  double kv_usage = 0.0;
  std::uint32_t ready = 0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady) continue;
    if (!replica.sample || now - replica.sample->sampled_at > limits.sample_age)
      return "shrinks while telemetry is missing or old";
    if (replica.sample->oldest_queued_age.value_or(core::Duration{}) > limits.queue_age)
      return "shrinks while a queue waits";
    kv_usage += replica.sample->kv_usage().value_or(0.0);
    ++ready;
  }
  if (ready > 0 && kv_usage / ready > limits.kv_hot) return "shrinks while the KV cache is hot";
  if (pool.unrouted_requests > 0) return "shrinks while a queue waits";
  if (pool.starting + pool.draining > 0) return "shrinks while replicas start or drain";
  if (pool.last_minute.failed > 0) return "shrinks while requests fail";
  return nullptr;
}

// Why it must not shrink so far, or null.
const char* reason_to_shrink_less(const signals::PoolObservation& pool, std::uint32_t target,
                                  const planner::GuardrailOptions& limits) {
  if (std::min(pool.ready, target) < std::max(pool.min_replicas, limits.minimum_endpoints))
    return "leaves too few ready replicas";
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample) continue;
    const signals::EngineSample& sample = *replica.sample;
    const auto scaled = [&](std::uint64_t tokens) {
      return static_cast<double>(tokens) * pool.ready / std::max(1U, target) * 100.0;
    };
    const std::uint64_t queued = sample.queued_prefill_tokens.value_or(0);
    const double of_kv = scaled(sample.kv_used_tokens.value_or(0) + sample.queued_kv_tokens.value_or(0) + queued);
    const double of_queue = pool.role == signals::Role::kPrefill ? scaled(queued) : 0.0;
    constexpr double kRounding = 1.0 + 1e-6;
    const double most = std::min(100U, limits.sensitivity) * kRounding;
    if (of_kv > most * static_cast<double>(sample.kv_capacity_tokens.value_or(0)) ||
        of_queue > most * static_cast<double>(limits.prefill_queue_tokens))
      return "leaves too few replicas for the load";
  }
  return nullptr;
}

std::vector<std::uint32_t> ready_of(const signals::PoolObservation& pool) {
  std::vector<std::uint32_t> ready;
  for (const signals::ReplicaObservation& replica : pool.replicas)
    if (replica.state == signals::ReplicaState::kReady) ready.push_back(replica.replica);
  return ready;
}

}  // namespace

decision::Decision WatchedPolicy::decide(const signals::Observation& observation) {
  decision::Decision decision = policy_.decide(observation);
  pasts_.resize(observation.pools.size());
  expect(decision.pools.size() == observation.pools.size(), observation.now, "decides on every pool that it sees");
  for (std::size_t i = 0; i < std::min(decision.pools.size(), observation.pools.size()); ++i)
    check(observation.now, observation.pools[i], decision.pools[i], pasts_[i]);
  if (decision.pools.size() == observation.pools.size()) check_budget(observation, decision);
  last_now_ = observation.now;
  return decision;
}

void WatchedPolicy::check(core::Instant now, const signals::PoolObservation& pool,
                          const decision::PoolDecision& decision, Past& past) {
  const std::uint32_t current = pool.target_replicas;
  check_change(now, pool, decision, past);
  std::deque<Target>& targets = past.targets;
  targets.push_back({now, current});
  while (targets.front().at <= now - kMinute) targets.pop_front();

  expect(decision.target >= pool.min_replicas && decision.target <= pool.max_replicas, now, "leaves its bounds");
  for (const decision::Evidence& evidence : decision.evidence)
    expect(std::isfinite(evidence.value), now, "has evidence that is no finite number");
  if (decision.target > current && current >= pool.min_replicas) {
    std::uint32_t least = current;
    for (const Target& target : targets) least = std::min(least, target.replicas);
    const double most = std::max(limits_.growth_per_minute * least, 1.0 * least + limits_.growth_least);
    expect(decision.target <= most, now, "grows faster than allowed");
  }
  if (decision.target < current && current <= pool.max_replicas) {
    const char* reason = reason_to_stay(now, pool, limits_);
    if (reason == nullptr && decision.target >= pool.min_replicas)
      reason = reason_to_shrink_less(pool, decision.target, limits_);
    expect(reason == nullptr, now, reason);
  }
}

void WatchedPolicy::check_change(core::Instant now, const signals::PoolObservation& pool,
                                 const decision::PoolDecision& decision, Past& past) {
  const std::uint32_t current = pool.target_replicas;
  const bool went_back = last_now_ && now < *last_now_;
  if (went_back) {
    past.targets.clear();
    past.failed_at.reset();
    past.changed_at.reset();
  }
  std::vector<std::uint32_t> ready = ready_of(pool);
  const bool one_more = std::any_of(ready.begin(), ready.end(), [&](std::uint32_t id) {
    return std::find(past.ready.begin(), past.ready.end(), id) == past.ready.end();
  });
  const bool shrunk = past.asked && *past.asked < *past.seen && current == *past.asked;
  if (one_more || shrunk) past.failed_at.reset();
  if (past.actions_failed && pool.actions_failed_total > *past.actions_failed) past.failed_at = now;
  if (past.asked && current != *past.asked && current != *past.seen) past.changed_at = now;

  if (decision.target != std::clamp(current, pool.min_replicas, std::max(pool.min_replicas, pool.max_replicas))) {
    expect(!went_back, now, "changes its target when the clock goes back");
    expect(!past.failed_at || now - *past.failed_at >= limits_.failure_cooldown, now,
           "changes its target soon after an action failed");
    expect(!past.changed_at || now - *past.changed_at >= limits_.manual_hold, now,
           "changes a target that another actor set recently");
  }
  past.actions_failed = pool.actions_failed_total;
  past.ready = std::move(ready);
  past.asked = decision.target;
  past.seen = current;
}

void WatchedPolicy::check_budget(const signals::Observation& observation, const decision::Decision& decision) {
  if (!limits_.gpu_budget) return;
  std::uint64_t gpus = 0;
  bool grows = false;
  for (std::size_t i = 0; i < decision.pools.size(); ++i) {
    const signals::PoolObservation& pool = observation.pools[i];
    const std::uint32_t target = decision.pools[i].target;
    grows = grows || target > std::max(pool.target_replicas, pool.min_replicas);
    gpus += std::uint64_t{pool.gpus_per_replica} *
            (std::max({target, pool.target_replicas, pool.starting + pool.ready}) + pool.draining);
  }
  expect(!grows || gpus <= *limits_.gpu_budget, observation.now, "grows beyond the GPU budget");
}

void WatchedPolicy::expect(bool held, core::Instant now, const char* invariant) {
  if (held) return;
  ++broken_;
  if (first_broken_.empty())
    first_broken_ = fmt::format("{} at {}", invariant, format_seconds(core::to_seconds(now.time_since_epoch())));
}

}  // namespace penstock::evaluation
