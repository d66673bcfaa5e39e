// Replica count of each pool: which replicas are taken back, drained and started.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "actuation/steps.h"
#include "core/result.h"

namespace penstock::actuation {

namespace {

using Replicas = std::vector<Replica*>;

bool is_outdated(const Tick& tick, const Replica& replica, const PoolWant& want) {
  if (want.replicas == 0) return false;  // Nothing replaces it.
  return replica.revision != want.revision ||
         (replica.unhealthy_since && tick.now - *replica.unhealthy_since >= tick.limits.unhealthy_time);
}

// The pool's replicas by role in this tick.
struct Census {
  Replicas fresh;           // Starting, warming or serving the current revision.
  Replicas old_serving;     // To be replaced, still serving.
  Replicas old_idle;        // To be replaced, not serving yet.
  Replicas taken_back;      // Draining replicas that may be taken back, latest first.
  std::size_t leaving = 0;  // Replicas of an old revision that are ending; each still holds its GPUs.
};

Census take_census(Tick& tick, const PoolWant& want) {
  Census census;
  for (Replica& replica : tick.fleet.replicas) {
    if (replica.pool != want.pool || has_ended(replica.stage)) continue;
    const bool outdated = is_outdated(tick, replica, want);
    if (replica.stage == Stage::kDraining && !outdated && tick.limits.take_back) census.taken_back.push_back(&replica);
    if (replica.stage == Stage::kDraining || replica.stage == Stage::kStopping)
      census.leaving += want.replicas > 0 && replica.revision != want.revision ? 1 : 0;
    else if (!outdated)
      census.fresh.push_back(&replica);
    else
      (replica.stage == Stage::kServing ? census.old_serving : census.old_idle).push_back(&replica);
  }
  std::stable_sort(census.taken_back.begin(), census.taken_back.end(),
                   [](const Replica* a, const Replica* b) { return a->since > b->since; });
  return census;
}

// Known open requests; an unknown count is assumed to be the maximum.
std::uint64_t open_requests(const Tick& tick, const Replica& replica) {
  const Seen* const seen = tick.seen_of(replica.id);
  if (seen != nullptr && seen->gateway) return seen->gateway->open_requests;
  if (seen != nullptr && seen->engine && seen->engine->open)
    return std::uint64_t{seen->engine->open->requests} + seen->engine->open->transfers;
  return std::numeric_limits<std::uint64_t>::max();
}

// The first `count` in drain order; newest first among equals.
Replicas victims(const Tick& tick, Replicas candidates, std::size_t count) {
  const auto rank = [&](const Replica* r) {
    const bool serves = r->stage == Stage::kServing;
    return std::tuple{r->stage, serves ? open_requests(tick, *r) : 0, ~r->id};
  };
  std::sort(candidates.begin(), candidates.end(), [&](auto* a, auto* b) { return rank(a) < rank(b); });
  candidates.resize(std::min(count, candidates.size()));
  return candidates;
}

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
    tick.admit(*census.taken_back[i], StepReason::kTakenBack);
    census.fresh.push_back(census.taken_back[i]);
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

void start(Tick& tick, const PoolWant& want, std::size_t count, StepReason why) {
  for (std::size_t i = 0; i < count; ++i) {
    Replica& replica = tick.fleet.replicas.emplace_back();
    replica.id = tick.fleet.next_id++;
    replica.pool = want.pool;
    replica.revision = want.revision;
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
  if (census.fresh.size() > want.replicas)
    for (Replica* replica : victims(tick, census.fresh, census.fresh.size() - want.replicas))
      give_up(tick, *replica, StepReason::kAboveTarget);
  const std::size_t old = let_old_ones_go(tick, want, census);
  if (census.fresh.size() >= want.replicas) {
    pool.full = false;
    return;
  }

  // Below the target all missing replicas are started; during a replacement only the surge is added.
  const std::size_t missing = want.replicas - census.fresh.size();
  const std::size_t staying = census.fresh.size() + old;
  const std::size_t below = want.replicas > staying ? want.replicas - staying : 0;
  const std::size_t most = std::size_t{want.replicas} + tick.limits.surge;
  const std::size_t surge = most > staying + census.leaving ? most - staying - census.leaving : 0;
  const std::size_t starts = std::min(missing, std::max(below, old > 0 ? surge : 0));
  if (starts == 0 || (pool.start_after && tick.now < *pool.start_after)) return;
  const StepReason why = below == 0         ? StepReason::kReplacesOutdated
                         : pool.crashes > 0 ? StepReason::kReplacesFailed
                                            : StepReason::kBelowTarget;
  start(tick, want, room(tick, pool, starts), why);
}

}  // namespace penstock::actuation
