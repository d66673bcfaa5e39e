#include "planner/penstock/guardrails.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/bounds.h"
#include "planner/samples.h"

namespace penstock::planner {

using signals::PoolObservation;
using signals::ReplicaObservation;
using signals::ReplicaState;

namespace {

constexpr std::uint32_t kDoublingsMax = 8;

// The used share of a replica's capacity; above 1 if more requests wait than fit. `without_kv` is that of an engine
// that reports no KV usage.
double load_share(const signals::EngineSample& sample, const PoolObservation& pool, const GuardrailOptions& options,
                  double without_kv) {
  const double mean_prompt = mean_prompt_tokens(pool), queued = queued_prompt_tokens(sample, mean_prompt);
  const double of_kv = kv_demand(sample, mean_prompt).value_or(without_kv);
  if (pool.role != signals::Role::kPrefill) return of_kv;
  return std::max(of_kv, queued / static_cast<double>(std::max<std::uint64_t>(1, options.prefill_queue_tokens)));
}

// An engine that does not report the age of its queue counts as having an old one.
bool queue_waits(const signals::EngineSample& sample, core::Duration age_max) {
  return sample.oldest_queued_age ? *sample.oldest_queued_age > age_max : sample.queued_requests > 0;
}

}  // namespace

// The proposal on its way to a target, and the last limit that changed it.
class Guardrails::Clamp {
 public:
  explicit Clamp(std::uint32_t proposal) : proposal_(proposal) {}
  void to(std::uint32_t replicas, Limit why) {
    if (proposal_ == replicas) return;
    proposal_ = replicas;
    limit_ = why;
  }
  [[nodiscard]] std::uint32_t proposal() const { return proposal_; }
  [[nodiscard]] Limit limit() const { return limit_; }

 private:
  std::uint32_t proposal_;
  Limit limit_ = Limit::kNone;
};

Limit Guardrails::shrink_hold(core::Instant now, const PoolObservation& pool, bool switches) const {
  double kv_usage = 0.0;
  std::uint32_t known = 0, with_kv = 0;
  bool waits = pool.unrouted_requests > 0;
  for (const ReplicaObservation& replica : pool.replicas) {
    if (replica.state != ReplicaState::kReady) continue;
    if (!replica.sample || replica.sample->sampled_at < now - options_.sample_age || replica.sample->sampled_at > now)
      return Limit::kStaleTelemetry;
    const auto usage = replica.sample->kv_usage();
    with_kv += usage ? 1 : 0;
    kv_usage += usage.value_or(0.0);
    waits = waits || queue_waits(*replica.sample, options_.queue_age);
    ++known;
  }
  if (known == 0 || known != pool.ready) return Limit::kStaleTelemetry;
  if (with_kv < known) {
    if (waits || running_.has_waited()) return Limit::kQueueWaits;
    if (pool.role != signals::Role::kAggregated || !running_.share()) return Limit::kStaleTelemetry;
  }
  if (pool.starting > 0 || (pool.draining > 0 && !switches)) return Limit::kStartingOrDraining;
  if (kv_usage > options_.kv_hot * with_kv) return Limit::kHotKvCache;
  if (waits) return Limit::kQueueWaits;
  if (failed_at_ && *failed_at_ > time_ - options_.stabilisation) return Limit::kFailures;
  return Limit::kNone;
}

std::uint32_t Guardrails::fewest_that_carry(const PoolObservation& pool, std::uint32_t most) const {
  double fullest = 0.0;
  const double without_kv = running_.share().value_or(1.0);
  for (const ReplicaObservation& replica : pool.replicas)
    if (replica.state == ReplicaState::kReady && replica.sample)
      fullest = std::max(fullest, load_share(*replica.sample, pool, options_, without_kv));
  if (fullest == 0.0) return 0;
  // If M of N replicas remain, the load of each grows by N/M and must stay within the threshold.
  const double threshold = std::min(100U, options_.sensitivity) / 100.0;
  const double needed = std::ceil(fullest * pool.ready / threshold - 1e-9);
  return needed < static_cast<double>(most) ? static_cast<std::uint32_t>(needed) : most;
}

std::uint32_t Guardrails::fewest_after_switch(core::Instant now, const PoolObservation& pool) const {
  const std::uint32_t current = pool.target_replicas;
  if (time_ < manual_until_ || time_ < cooldown_until_ || time_ < shrink_cooldown_until_) return current;
  if (shrink_hold(now, pool, true) != Limit::kNone) return current;
  return std::max({fewest_that_carry(pool, current), options_.minimum_endpoints, pool.min_replicas});
}

void Guardrails::note_time(core::Instant now) {
  if (last_now_) time_ += now - *last_now_;
  last_now_ = now;
}

void Guardrails::note_ready(const PoolObservation& pool) {
  ready_.swap(was_ready_);
  ready_.clear();
  for (const ReplicaObservation& replica : pool.replicas)
    if (replica.state == ReplicaState::kReady) ready_.push_back(replica.replica);
  std::sort(ready_.begin(), ready_.end());
}

void Guardrails::note_failures(const PoolObservation& pool) {
  if (pool.failed_total > failed_total_) failed_at_ = time_;
  failed_total_ = pool.failed_total;

  note_ready(pool);
  const bool one_more_ready = !std::includes(was_ready_.begin(), was_ready_.end(), ready_.begin(), ready_.end());
  const bool shrunk = last_target_ && *last_target_ < last_current_ && pool.target_replicas == *last_target_;
  if (one_more_ready || shrunk) {
    failures_in_a_row_ = 0;
    cooldown_until_ = time_;
  }
  if (actions_failed_ && pool.actions_failed_total > *actions_failed_) {
    const core::Duration doubled = options_.failure_cooldown * (1LL << std::min(failures_in_a_row_, kDoublingsMax));
    cooldown_until_ = time_ + std::min(options_.failure_cooldown_max, doubled);
    ++failures_in_a_row_;
  }
  actions_failed_ = pool.actions_failed_total;
  if (shrinks_failed_ && pool.shrinks_failed_total > *shrinks_failed_)
    shrink_cooldown_until_ = time_ + options_.failure_cooldown;
  shrinks_failed_ = pool.shrinks_failed_total;
}

void Guardrails::note_manual_change(std::uint32_t current) {
  const bool changed = last_target_ && current != *last_target_ && current != last_current_;
  // A fleet that was restarted between two processes is not a manual change.
  if (changed && !restored_) manual_until_ = time_ + options_.manual_hold;
  restored_ = false;
  // Proposals before or during the hold are dropped, so that they cause no jump afterwards.
  if (!changed && time_ >= manual_until_) return;
  proposals_.clear();
  targets_.clear();
}

void Guardrails::record_proposal(std::uint32_t current, std::uint32_t proposal) {
  // The time before is unknown, and the running replicas may be needed.
  if (proposals_.empty()) proposals_.push_back({time_, current});
  proposals_.push_back({time_, proposal});
  while (!proposals_.empty() && proposals_.front().at <= time_ - options_.stabilisation) proposals_.pop_front();
  targets_.push_back({time_, current});
  while (targets_.front().at <= time_ - core::kMinute) targets_.pop_front();
}

void Guardrails::limit_shrinking(core::Instant now, const PoolObservation& pool, Clamp& clamp) const {
  const std::uint32_t current = pool.target_replicas;
  if (clamp.proposal() >= current) return;
  // A pool needs none only after a time without requests, which is a window of its own.
  const bool needs_none = clamp.proposal() == 0 && pool.min_replicas == 0;
  std::uint32_t most = clamp.proposal();
  for (const Entry& entry : proposals_) most = std::max(most, entry.replicas);
  if (!needs_none) clamp.to(std::min(most, current), Limit::kStabilization);
  if (clamp.proposal() >= current) return;

  if (time_ < shrink_cooldown_until_) return clamp.to(current, Limit::kCooldown);
  if (const Limit held = shrink_hold(now, pool); held != Limit::kNone) return clamp.to(current, held);
  // A step that the fleet has not followed yet stays the proposal: it is not a second one.
  const bool is_pending = last_target_ && *last_target_ < last_current_ && current == last_current_;
  if (!is_pending && shrunk_at_ && *shrunk_at_ > time_ - options_.shrink_step)
    return clamp.to(current, Limit::kShrinkRate);
  const auto step = std::max(1U, static_cast<std::uint32_t>(std::floor(options_.shrink_share * current)));
  clamp.to(std::max(clamp.proposal(), current - step), Limit::kShrinkRate);
  clamp.to(std::max(clamp.proposal(), fewest_that_carry(pool, current)), Limit::kConsolidation);

  // No replica starts or drains here, so the replicas that are ready now, or the target if lower, are ready afterwards.
  if (needs_none) return;
  if (pool.ready < std::max(pool.min_replicas, options_.minimum_endpoints))
    clamp.to(current, Limit::kMinEndpoints);
  else
    clamp.to(std::min(current, std::max(clamp.proposal(), options_.minimum_endpoints)), Limit::kMinEndpoints);
}

void Guardrails::limit_growth(std::uint32_t current, Clamp& clamp) const {
  if (clamp.proposal() <= current) return;
  std::uint32_t least = current;
  for (const Entry& entry : targets_) least = std::min(least, entry.replicas);
  const double most = std::max(std::floor(options_.growth_per_minute * least), 1.0 * least + options_.growth_least);
  if (clamp.proposal() > most) clamp.to(std::max(static_cast<std::uint32_t>(most), current), Limit::kGrowthRate);
}

PoolDecision Guardrails::finish(const PoolObservation& pool, PoolDecision proposal, Clamp clamp) {
  const Bounded bounded = bound(clamp.proposal(), bounds_of(pool));
  clamp.to(bounded.replicas, bounded.limit);
  if (clamp.proposal() < pool.target_replicas) shrunk_at_ = time_;
  proposal.current = last_current_ = pool.target_replicas;
  proposal.target = clamp.proposal();
  proposal.limited_by = clamp.limit();
  last_target_ = proposal.target;
  return proposal;
}

PoolDecision Guardrails::apply(core::Instant now, const PoolObservation& pool, PoolDecision proposal) {
  if (last_now_ && now < *last_now_) return hold_over_jump(now, pool, std::move(proposal));
  const std::uint32_t current = pool.target_replicas;
  note_time(now);
  note_failures(pool);
  note_manual_change(current);
  record_proposal(current, proposal.target);
  running_.observe(time_, pool, options_.stabilisation);

  Clamp clamp{proposal.target};
  if (time_ < manual_until_) {
    clamp.to(current, Limit::kManualChange);
  } else if (time_ < cooldown_until_) {
    clamp.to(current, Limit::kCooldown);
  } else {
    limit_shrinking(now, pool, clamp);
    limit_growth(current, clamp);
  }
  return finish(pool, std::move(proposal), clamp);
}

PoolDecision Guardrails::hold_over_jump(core::Instant now, const PoolObservation& pool, PoolDecision proposal) {
  last_now_ = now;
  note_failures(pool);
  note_manual_change(pool.target_replicas);
  record_proposal(pool.target_replicas, proposal.target);
  Clamp clamp{proposal.target};
  clamp.to(pool.target_replicas, Limit::kClockJump);
  return finish(pool, std::move(proposal), clamp);
}

}  // namespace penstock::planner
