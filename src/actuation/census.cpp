#include "actuation/census.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace penstock::actuation {

namespace {

bool is_outdated(const Tick& tick, const Replica& replica, const PoolWant& want) {
  if (want.replicas == 0) return false;  // Nothing replaces it.
  return replica.revision != want.revision ||
         (replica.unhealthy_since && tick.now - *replica.unhealthy_since >= tick.limits.unhealthy_time);
}

bool is_for_sleep(const Replica& replica) { return replica.stage == Stage::kAsleep || replica.to_sleep; }

// Known open requests; an unknown count is assumed to be the maximum.
std::uint64_t open_requests(const Tick& tick, const Replica& replica) {
  const Seen* const seen = tick.seen_of(replica.id);
  if (seen != nullptr && seen->gateway) return seen->gateway->open_requests;
  if (seen != nullptr && seen->engine && seen->engine->open)
    return std::uint64_t{seen->engine->open->requests} + seen->engine->open->transfers;
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

Census take_census(Tick& tick, const PoolWant& want) {
  Census census;
  for (Replica& replica : tick.fleet.replicas) {
    census.expected += replica.switch_to == want.pool ? 1 : 0;
    if (replica.pool != want.pool || has_ended(replica.stage)) continue;
    const bool outdated = is_outdated(tick, replica, want);
    if (replica.stage == Stage::kDraining && !outdated && tick.limits.take_back) census.taken_back.push_back(&replica);
    if (replica.stage == Stage::kDraining && replica.switch_to.empty() && !replica.unhealthy_since &&
        replica.revision == want.revision)
      ++census.may_sleep;
    if (replica.stage == Stage::kDraining || replica.stage == Stage::kStopping)
      census.leaving += want.replicas > 0 && replica.revision != want.revision ? 1 : 0;
    else if (!outdated)
      (is_for_sleep(replica) ? census.asleep : census.fresh).push_back(&replica);
    else
      (replica.stage == Stage::kServing ? census.old_serving : census.old_idle).push_back(&replica);
  }
  std::stable_sort(census.taken_back.begin(), census.taken_back.end(),
                   [](const Replica* a, const Replica* b) { return a->since > b->since; });
  return census;
}

Replicas victims(const Tick& tick, Replicas candidates, std::size_t count) {
  const auto rank = [&](const Replica* r) {
    const bool serves = r->stage == Stage::kServing;
    return std::tuple{r->stage, serves ? open_requests(tick, *r) : 0, ~r->id};
  };
  std::sort(candidates.begin(), candidates.end(), [&](auto* a, auto* b) { return rank(a) < rank(b); });
  candidates.resize(std::min(count, candidates.size()));
  return candidates;
}

}  // namespace penstock::actuation
