// Replica count of each pool: which replicas are taken back, drained and started.
#include <fmt/format.h>

#include <algorithm>

#include "actuation/census.h"
#include "actuation/steps.h"
#include "core/result.h"

namespace penstock::actuation {

namespace {

void give_up(Tick& tick, Replica& replica, StepReason why) {
  // Its process is not confirmed; it is stopped as soon as it is.
  if (replica.stage == Stage::kRequested) return;
  if (replica.stage == Stage::kServing) return tick.drain(replica, why);
  tick.stop(replica, why);
}

// Returns true if users' requests reach it, so that another replica may drain.
bool is_in_service(const Tick& tick, const Replica& replica) {
  if (replica.stage != Stage::kServing || replica.unhealthy_since) return false;
  if (!tick.limits.gateway) return true;
  const Seen* const seen = tick.seen_of(replica.id);
  return seen != nullptr && seen->gateway && seen->gateway->routes && seen->gateway->at > replica.since;
}

void forget_crashes(Tick& tick, PoolState& pool, const Replicas& fresh) {
  if (pool.crashes == 0 || !pool.start_after) return;
  // No crash loop has a longer period.
  const core::Duration longest = tick.limits.start_deadline + tick.limits.warm_up_deadline + tick.limits.steady_time;
  const bool steady = std::any_of(fresh.begin(), fresh.end(), [&](const Replica* r) {
    return r->stage == Stage::kServing && r->since >= *pool.start_after && !r->unhealthy_since &&
           tick.now - r->since >= tick.limits.steady_time;
  });
  if (!steady && tick.now - *pool.start_after < longest) return;
  pool.crashes = 0;
  pool.start_after.reset();
}

void take_back(Tick& tick, Census& census, std::size_t count) {
  for (std::size_t i = 0; i < count && i < census.taken_back.size(); ++i) {
    Replica& replica = *census.taken_back[i];
    census.may_sleep -= replica.unhealthy_since || !replica.switch_to.empty() ? 0 : 1;
    tick.admit(replica, StepReason::kTakenBack);
    census.fresh.push_back(&replica);
  }
}

// Those asleep come first, then those whose start-up is the furthest; the oldest first.
void wake(Tick& tick, Census& census, std::size_t count) {
  std::stable_sort(census.asleep.begin(), census.asleep.end(),
                   [](const Replica* a, const Replica* b) { return a->stage > b->stage; });
  count = std::min(count, census.asleep.size());
  for (std::size_t i = 0; i < count; ++i) {
    Replica& replica = *census.asleep[i];
    if (replica.stage == Stage::kAsleep) tick.wake(replica, StepReason::kBelowTarget);
    replica.to_sleep = false;
    census.fresh.push_back(&replica);
  }
  census.asleep.erase(census.asleep.begin(), census.asleep.begin() + static_cast<std::ptrdiff_t>(count));
}

// One that does not serve yet may sleep instead, if others that drain are not enough.
void give_up_surplus(Tick& tick, const PoolWant& want, Census& census, std::size_t count) {
  for (Replica* replica : victims(tick, census.fresh, count)) {
    const bool sleeps = replica->stage != Stage::kServing && census.asleep.size() + census.may_sleep < want.asleep;
    if (!sleeps) {
      give_up(tick, *replica, StepReason::kAboveTarget);
      if (replica->stage == Stage::kDraining && !replica->unhealthy_since) ++census.may_sleep;
      continue;
    }
    replica->to_sleep = true;
    census.asleep.push_back(replica);
    std::erase(census.fresh, replica);
  }
}

// Returns the number of old replicas that stay.
std::size_t let_old_ones_go(Tick& tick, const PoolWant& want, Census& census) {
  std::size_t stay = 0;
  for (Replica* replica : census.old_idle) {
    give_up(tick, *replica, StepReason::kOutdated);
    (replica->stage == Stage::kRequested ? stay : census.leaving) += 1;
  }
  const auto in_service = static_cast<std::size_t>(std::count_if(
      census.fresh.begin(), census.fresh.end(), [&](const Replica* r) { return is_in_service(tick, *r); }));
  const std::size_t keep =
      std::min(census.old_serving.size(), want.replicas > in_service ? want.replicas - in_service : 0);
  for (Replica* replica : victims(tick, census.old_serving, census.old_serving.size() - keep)) {
    const bool same_revision = replica->revision == want.revision;
    give_up(tick, *replica, same_revision ? StepReason::kUnhealthy : StepReason::kOutdated);
    census.leaving += same_revision ? 0 : 1;
  }
  return stay + keep;
}

std::size_t room(Tick& tick, PoolState& pool, std::size_t wanted) {
  const auto living = static_cast<std::size_t>(std::count_if(tick.fleet.replicas.begin(), tick.fleet.replicas.end(),
                                                             [](const Replica& r) { return !has_ended(r.stage); }));
  const std::size_t free = tick.limits.replicas_max > living ? tick.limits.replicas_max - living : 0;
  if (wanted > free && !pool.full)
    tick.result.notes.push_back({true, 0, pool.name,
                                 fmt::format("pool {} needs {} more replicas, but {} run already, and {} may",
                                             pool.name, wanted, living, tick.limits.replicas_max)});
  pool.full = wanted > free;
  return std::min(wanted, free);
}

// How many are to be woken or started. Below the target these are all missing replicas; during a replacement only the
// surge is added. `old`: replicas that are to be replaced and still stay.
std::size_t missing_to_serve(const Tick& tick, const PoolWant& want, const Census& census, std::size_t old) {
  const std::size_t coming = census.fresh.size() + census.expected;
  if (coming >= want.replicas) return 0;
  const std::size_t missing = want.replicas - coming;
  const std::size_t staying = coming + old;
  const std::size_t below = want.replicas > staying ? want.replicas - staying : 0;
  const std::size_t most = std::size_t{want.replicas} + tick.limits.surge;
  const std::size_t surge = most > staying + census.leaving ? most - staying - census.leaving : 0;
  return std::min(missing, std::max(below, old > 0 ? surge : 0));
}

void start(Tick& tick, const PoolWant& want, std::size_t count, StepReason why, bool to_sleep = false) {
  for (std::size_t i = 0; i < count; ++i) {
    Replica& replica = tick.fleet.replicas.emplace_back();
    replica.id = tick.fleet.next_id++;
    replica.pool = want.pool;
    replica.revision = want.revision;
    replica.to_sleep = to_sleep;
    replica.requested_at = replica.since = tick.now;
    tick.step(StepKind::kStart, replica, why);
  }
}

}  // namespace

void level_pool(Tick& tick, const PoolWant& want) {
  PoolState& pool = pool_state(tick.fleet, want.pool);
  Census census = take_census(tick, want);
  forget_crashes(tick, pool, census.fresh);

  if (census.fresh.size() < want.replicas) take_back(tick, census, want.replicas - census.fresh.size());
  if (census.fresh.size() > want.replicas) give_up_surplus(tick, want, census, census.fresh.size() - want.replicas);
  const std::size_t old = let_old_ones_go(tick, want, census);
  wake(tick, census, missing_to_serve(tick, want, census, old));
  if (census.asleep.size() > want.asleep)
    for (Replica* replica : victims(tick, census.asleep, census.asleep.size() - want.asleep))
      give_up(tick, *replica, StepReason::kAboveAsleep);

  const std::size_t wanted = missing_to_serve(tick, want, census, old);
  // Nothing is added to those asleep while others are replaced, so that the surge limits the GPUs.
  const std::size_t sleepers = census.asleep.size() + census.may_sleep;
  const std::size_t asleep = old == 0 && want.asleep > sleepers ? want.asleep - sleepers : 0;
  if (wanted + asleep == 0) {
    pool.full = pool.full && census.fresh.size() < want.replicas;
    return;
  }
  if (pool.start_after && tick.now < *pool.start_after) return;
  const bool replaces = census.fresh.size() + census.expected + old >= want.replicas;
  const StepReason why = replaces           ? StepReason::kReplacesOutdated
                         : pool.crashes > 0 ? StepReason::kReplacesFailed
                                            : StepReason::kBelowTarget;
  const std::size_t most = room(tick, pool, wanted + asleep);
  start(tick, want, std::min(most, wanted), why);
  if (most > wanted) start(tick, want, most - wanted, StepReason::kBelowAsleep, true);
}

}  // namespace penstock::actuation
