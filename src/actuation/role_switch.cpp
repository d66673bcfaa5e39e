// Replicas that one pool does not need take the role of another: which ones, and until when they are waited for.
#include "actuation/role_switch.h"

#include <algorithm>

#include "actuation/census.h"
#include "actuation/steps.h"

namespace penstock::actuation {

namespace {

// Of a draining replica.
bool is_in_time(const Tick& tick, const Replica& replica, const RoleSwitch& by) {
  return is_in_time(tick.now - replica.since, by);
}

core::Duration drain_time(const Tick& tick, const std::string& pool) {
  for (const PoolState& state : tick.fleet.pools)
    if (state.name == pool) return state.drain_time.value_or(core::Duration{});
  return {};
}

// Replicas that the pool has, with those that are to be replaced and still count.
std::size_t present(const Census& census) {
  return census.fresh.size() + census.old_serving.size() + census.old_idle.size();
}

// Replicas that no other means provides without a start.
std::size_t lacking(const PoolWant& want, const Census& census) {
  const std::size_t has = present(census) + census.taken_back.size() + census.asleep.size() + census.expected;
  return want.replicas > has ? want.replicas - has : 0;
}

void switch_between(Tick& tick, const PoolWant& from, const PoolWant& to, std::size_t count) {
  const Census census = take_census(tick, from);
  // A pool that lacks replicas itself takes back those that drain, as far as they may come back.
  if (census.fresh.size() >= from.replicas || !tick.limits.take_back)
    for (Replica& replica : tick.fleet.replicas) {
      if (count == 0) return;
      if (replica.pool != from.pool || replica.stage != Stage::kDraining || !replica.switch_to.empty()) continue;
      if (replica.revision != from.revision || replica.unhealthy_since) continue;
      if (!is_in_time(tick, replica, *to.role_switch)) continue;
      replica.switch_to = to.pool;
      --count;
    }
  if (census.fresh.size() <= from.replicas) return;
  for (Replica* replica : victims(tick, census.fresh, census.fresh.size() - from.replicas)) {
    if (count == 0) return;
    if (replica->stage != Stage::kServing || replica->unhealthy_since) continue;
    tick.drain(*replica, StepReason::kNeededElsewhere);
    replica->switch_to = to.pool;
    --count;
  }
}

}  // namespace

void review_switches(Tick& tick) {
  for (Replica& replica : tick.fleet.replicas) {
    if (replica.switch_to.empty()) continue;
    const PoolWant* const to = tick.want_of(replica.switch_to);
    const bool may = to != nullptr && to->role_switch && to->role_switch->partner == replica.pool;
    if (!may || replica.unhealthy_since || !is_in_time(tick, replica, *to->role_switch)) replica.switch_to.clear();
  }
  for (const PoolWant& want : tick.wants) {
    const Census census = take_census(tick, want);
    const std::size_t has = present(census);
    std::size_t surplus = census.expected - std::min(census.expected, want.replicas > has ? want.replicas - has : 0);
    // The latest to drain go first.
    for (auto replica = tick.fleet.replicas.rbegin(); surplus > 0 && replica != tick.fleet.replicas.rend(); ++replica) {
      if (replica->switch_to != want.pool) continue;
      replica->switch_to.clear();
      --surplus;
    }
  }
}

void switch_roles(Tick& tick) {
  for (const PoolWant& want : tick.wants) {
    if (!want.role_switch) continue;
    const PoolWant* const partner = tick.want_of(want.role_switch->partner);
    if (partner == nullptr || partner == &want) continue;
    if (!is_in_time(drain_time(tick, partner->pool), *want.role_switch)) continue;
    if (const std::size_t count = lacking(want, take_census(tick, want)); count > 0)
      switch_between(tick, *partner, want, count);
  }
}

}  // namespace penstock::actuation
