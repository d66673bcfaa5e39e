#include "planner/guardrails.h"

#include <algorithm>
#include <cmath>

#include "planner/bounds.h"

namespace penstock::planner {

Limit Guardrails::shrink_hold(core::Instant now, const signals::PoolObservation& pool) const {
  double kv_usage = 0.0;
  std::uint32_t known = 0;
  core::Duration oldest{};
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady) continue;
    if (!replica.sample || replica.sample->sampled_at < now - options_.sample_age ||
        replica.sample->kv_capacity_tokens == 0 || replica.sample->sampled_at > now)
      return Limit::kStaleTelemetry;
    kv_usage += replica.sample->kv_usage();
    oldest = std::max(oldest, replica.sample->oldest_queued_age);
    ++known;
  }
  if (known == 0) return Limit::kStaleTelemetry;
  if (pool.starting > 0 || pool.draining > 0) return Limit::kScalingUnderWay;
  if (kv_usage > options_.kv_hot * known) return Limit::kHotKvCache;
  if (pool.unrouted_requests > 0 || oldest > options_.queue_age) return Limit::kQueueWaits;
  if (failed_at_ > now - options_.stabilisation) return Limit::kFailures;
  return Limit::kNone;
}

PoolDecision Guardrails::apply(core::Instant now, const signals::PoolObservation& pool, PoolDecision proposal) {
  const std::uint32_t current = pool.target_replicas;
  proposal.current = current;
  proposal.limited_by = Limit::kNone;
  if (pool.failed_total > failed_total_) failed_at_ = now;
  failed_total_ = pool.failed_total;

  // Nothing is known of the time before: what runs may be there for a reason.
  if (wishes_.empty()) wishes_.push_back({now, current});
  wishes_.push_back({now, proposal.target});
  while (wishes_.front().at <= now - options_.stabilisation) wishes_.pop_front();
  std::uint32_t wish = proposal.target;
  const auto limit = [&](std::uint32_t replicas, Limit why) {
    if (wish == replicas) return;
    wish = replicas;
    proposal.limited_by = why;
  };

  if (wish < current) {
    std::uint32_t most = wish;
    for (const Entry& entry : wishes_) most = std::max(most, entry.replicas);
    limit(std::min(most, current), Limit::kStabilization);
  }
  if (wish < current) {
    const auto step = std::max(1U, static_cast<std::uint32_t>(std::floor(options_.shrink_share * current)));
    if (const Limit held = shrink_hold(now, pool); held != Limit::kNone)
      limit(current, held);
    else if (shrunk_at_ > now - options_.shrink_step)
      limit(current, Limit::kShrinkRate);
    else
      limit(std::max(wish, current - step), Limit::kShrinkRate);
  }

  targets_.push_back({now, current});
  while (targets_.front().at <= now - std::chrono::minutes{1}) targets_.pop_front();
  if (wish > current) {
    std::uint32_t least = current;
    for (const Entry& entry : targets_) least = std::min(least, entry.replicas);
    const double factor = options_.growth_per_minute * least;
    const auto most = std::max<std::uint32_t>(static_cast<std::uint32_t>(factor), least + options_.growth_least);
    limit(std::min(wish, std::max(most, current)), Limit::kGrowthRate);
  }

  const Bounded bounded = bound(wish, bounds_of(pool));
  limit(bounded.replicas, bounded.limit);
  if (wish < current) shrunk_at_ = now;
  proposal.target = wish;
  return proposal;
}

}  // namespace penstock::planner
