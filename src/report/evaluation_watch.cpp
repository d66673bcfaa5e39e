#include "report/evaluation_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/format.h"

namespace penstock::report {
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
    if (replica.sample->oldest_queued_age > limits.queue_age) return "shrinks while a queue waits";
    kv_usage += replica.sample->kv_usage();
    ++ready;
  }
  if (ready > 0 && kv_usage / ready > limits.kv_hot) return "shrinks while the KV cache is hot";
  if (pool.unrouted_requests > 0) return "shrinks while a queue waits";
  if (pool.starting + pool.draining > 0) return "shrinks while replicas start or drain";
  if (pool.last_minute.failed > 0) return "shrinks while requests fail";
  return nullptr;
}

}  // namespace

planner::Decision WatchedPolicy::decide(const signals::Observation& observation) {
  planner::Decision decision = policy_.decide(observation);
  targets_.resize(observation.pools.size());
  expect(decision.pools.size() == observation.pools.size(), observation.now, "decides on every pool that it sees");
  for (std::size_t i = 0; i < std::min(decision.pools.size(), observation.pools.size()); ++i)
    check(observation.now, observation.pools[i], decision.pools[i], targets_[i]);
  return decision;
}

void WatchedPolicy::check(core::Instant now, const signals::PoolObservation& pool,
                          const planner::PoolDecision& decision, std::deque<Target>& targets) {
  const std::uint32_t current = pool.target_replicas;
  targets.push_back({now, current});
  while (targets.front().at <= now - kMinute) targets.pop_front();

  expect(decision.target >= pool.min_replicas && decision.target <= pool.max_replicas, now, "leaves its bounds");
  for (const planner::Evidence& evidence : decision.evidence)
    expect(std::isfinite(evidence.value), now, "has evidence that is no finite number");
  if (decision.target > current && current >= pool.min_replicas) {
    std::uint32_t least = current;
    for (const Target& target : targets) least = std::min(least, target.replicas);
    const double most = std::max(limits_.growth_per_minute * least, 1.0 * least + limits_.growth_least);
    expect(decision.target <= most, now, "grows faster than allowed");
  }
  if (decision.target < current && current <= pool.max_replicas) {
    const char* reason = reason_to_stay(now, pool, limits_);
    expect(reason == nullptr, now, reason);
  }
}

void WatchedPolicy::expect(bool held, core::Instant now, const char* invariant) {
  if (held) return;
  ++broken_;
  if (first_broken_.empty())
    first_broken_ = fmt::format("{} at {}", invariant, format_seconds(core::to_seconds(now.time_since_epoch())));
}

}  // namespace penstock::report
