#include "actuation/advance.h"

#include <fmt/format.h>

#include <algorithm>

#include "actuation/steps.h"
#include "core/enum_names.h"
#include "core/result.h"

namespace penstock::actuation {

namespace {

bool is_wanted(std::span<const PoolWant> wants, const std::string& pool) {
  return std::any_of(wants.begin(), wants.end(), [&](const PoolWant& want) { return want.pool == pool; });
}

bool has_living(const FleetState& fleet, const std::string& pool) {
  return std::any_of(fleet.replicas.begin(), fleet.replicas.end(),
                     [&](const Replica& r) { return r.pool == pool && !has_ended(r.stage); });
}

void forget_ended(FleetState& fleet, std::uint32_t kept) {
  const auto ended = [](const Replica& r) { return has_ended(r.stage); };
  auto surplus = std::count_if(fleet.replicas.begin(), fleet.replicas.end(), ended) - std::int64_t{kept};
  std::erase_if(fleet.replicas, [&](const Replica& r) { return surplus > 0 && ended(r) && surplus-- > 0; });
}

}  // namespace

const Seen* Tick::seen_of(std::uint32_t replica) const {
  const auto found = std::lower_bound(seen.begin(), seen.end(), replica,
                                      [](const Seen* one, std::uint32_t id) { return one->replica < id; });
  return found != seen.end() && (*found)->replica == replica ? *found : nullptr;
}

void Tick::enter(Replica& replica, Stage stage) const {
  replica.stage = stage;
  replica.since = now;
  replica.quiet_since.reset();
  replica.switch_to.clear();
}

void Tick::admit(Replica& replica, StepReason why) {
  enter(replica, Stage::kServing);
  replica.unhealthy_since.reset();
  step(StepKind::kAdmit, replica, why);
}

void Tick::drain(Replica& replica, StepReason why) {
  enter(replica, Stage::kDraining);
  step(StepKind::kDrain, replica, why);
}

void Tick::sleep(Replica& replica, StepReason why) {
  enter(replica, Stage::kAsleep);
  replica.unhealthy_since.reset();
  replica.to_sleep = false;
  step(StepKind::kSleep, replica, why);
}

void Tick::switch_role(Replica& replica, const PoolWant& to) {
  replica.pool = to.pool;
  replica.revision = to.revision;
  replica.unhealthy_since.reset();
  enter(replica, Stage::kSwitching);
  step(StepKind::kSwitch, replica, StepReason::kDrained);
}

const PoolWant* Tick::want_of(std::string_view pool) const {
  const auto found = std::find_if(wants.begin(), wants.end(), [&](const PoolWant& want) { return want.pool == pool; });
  return found == wants.end() ? nullptr : &*found;
}

core::Duration Tick::drain_deadline(const Replica& replica) const {
  const PoolWant* const want = want_of(replica.pool);
  return want == nullptr ? limits.drain_deadline : want->drain_deadline.value_or(limits.drain_deadline);
}

core::Duration Tick::unhealthy_drain_deadline(const Replica& replica) const {
  const PoolWant* const want = want_of(replica.pool);
  return want == nullptr ? limits.unhealthy_drain_deadline
                         : want->unhealthy_drain_deadline.value_or(limits.unhealthy_drain_deadline);
}

void Tick::wake(Replica& replica, StepReason why) {
  enter(replica, Stage::kWaking);
  step(StepKind::kWake, replica, why);
}

void Tick::stop(Replica& replica, StepReason why) {
  enter(replica, Stage::kStopping);
  step(StepKind::kStop, replica, why);
}

PoolState& pool_state(FleetState& fleet, const std::string& name) {
  const auto found =
      std::find_if(fleet.pools.begin(), fleet.pools.end(), [&](const PoolState& pool) { return pool.name == name; });
  if (found != fleet.pools.end()) return *found;
  fleet.pools.push_back({name});
  return fleet.pools.back();
}

core::Instant count_crash(PoolState& pool, const Limits& limits, core::Instant now) {
  if (pool.start_after && now < *pool.start_after) return *pool.start_after;
  core::Duration wait = limits.backoff_first;
  for (std::uint32_t i = 0; i < pool.crashes && wait < limits.backoff_max; ++i) wait *= 2;
  ++pool.crashes;
  pool.start_after = now + std::min(wait, limits.backoff_max);
  return *pool.start_after;
}

Advance advance(FleetState& fleet, std::span<const PoolWant> wants, std::span<const Seen> seen, const Limits& limits,
                core::Instant now) {
  Tick tick{fleet, wants, limits, now, {}};
  tick.seen.reserve(seen.size());
  for (const Seen& one : seen) tick.seen.push_back(&one);
  std::stable_sort(tick.seen.begin(), tick.seen.end(),
                   [](const Seen* a, const Seen* b) { return a->replica < b->replica; });

  review_switches(tick);
  follow_replicas(tick);
  switch_roles(tick);
  for (const PoolWant& want : wants) level_pool(tick, want);
  for (std::size_t i = 0; i < fleet.pools.size(); ++i)
    if (const std::string name = fleet.pools[i].name; !is_wanted(wants, name)) level_pool(tick, {name, 0, {}});

  std::erase_if(fleet.pools,
                [&](const PoolState& pool) { return !is_wanted(wants, pool.name) && !has_living(fleet, pool.name); });
  forget_ended(fleet, limits.ended_kept);
  return std::move(tick.result);
}

void started(FleetState& fleet, std::uint32_t id, Process process, core::Instant now) {
  Replica* const replica = fleet.find(id);
  PENSTOCK_ASSERT(replica != nullptr, "only what was asked for is started");
  if (replica->stage != Stage::kRequested) return;
  replica->stage = Stage::kStarting;
  replica->since = now;
  replica->process = process;
}

std::vector<Note> start_failed(FleetState& fleet, std::uint32_t id, std::string_view why, const Limits& limits,
                               core::Instant now) {
  Replica* const replica = fleet.find(id);
  PENSTOCK_ASSERT(replica != nullptr, "only what was asked for fails to start");
  if (replica->stage != Stage::kRequested) return {};
  replica->stage = Stage::kFailed;
  replica->since = now;
  const core::Instant next = count_crash(pool_state(fleet, replica->pool), limits, now);
  return {{true, id, replica->pool,
           fmt::format("{} could not be started: {}; tries again in {:.0f} s", name_of(*replica), why,
                       core::to_seconds(next - now))}};
}

std::vector<Step> resume(const FleetState& fleet) {
  std::vector<Step> steps;
  for (const Replica& replica : fleet.replicas) {
    const auto again = [&](StepKind kind) { steps.push_back({kind, replica.id, StepReason::kResumed}); };
    switch (replica.stage) {
      case Stage::kRequested: again(StepKind::kStart); break;
      case Stage::kWarming: again(StepKind::kWarmUp); break;
      case Stage::kWaking: again(StepKind::kWake); break;
      case Stage::kSwitching: again(StepKind::kSwitch); break;
      case Stage::kServing: again(StepKind::kAdmit); break;
      case Stage::kDraining: again(StepKind::kDrain); break;
      case Stage::kAsleep: again(StepKind::kSleep); break;
      case Stage::kStopping: again(replica.killed ? StepKind::kKill : StepKind::kStop); break;
      case Stage::kStarting:
      case Stage::kStopped:
      case Stage::kFailed: break;
    }
  }
  return steps;
}

const char* to_string(StepKind kind) {
  return core::name_of<StepKind::kKill>(
      kind, {"start", "warm_up", "admit", "drain", "sleep", "wake", "switch", "stop", "kill"});
}

const char* to_string(StepReason why) {
  return core::name_of<StepReason::kResumed>(
      why, {"below_target", "replaces_failed",  "replaces_outdated", "healthy",       "warm",
            "warm_up_late", "taken_back",       "above_target",      "outdated",      "unhealthy",
            "drained",      "drain_deadline",   "start_deadline",    "stop_deadline", "awake",
            "switched",     "needed_elsewhere", "below_asleep",      "above_asleep",  "resumed"});
}

}  // namespace penstock::actuation
