#include "decision/decision_loop.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "signals/role_switch.h"

namespace penstock::decision {
namespace {

// Awake and asleep replicas together never exceed the maximum of the pool.
std::uint32_t asleep_within(const signals::PoolObservation& pool, std::uint32_t target, std::uint32_t proposed) {
  if (pool.wake_time <= core::Duration{} || target >= pool.max_replicas) return 0;
  return std::min(std::max(proposed, pool.min_asleep), pool.max_replicas - target);
}

// Replicas of the partner that a growing pool can have without a start: those that it does not need any more, and those
// that drain.
std::uint32_t switches(const signals::Observation& observation, const Decision& decision, std::size_t index) {
  const auto partner = signals::switch_partner(observation.pools, index);
  if (!partner) return 0;
  const auto target = [&](std::size_t pool) {
    const signals::PoolObservation& bounds = observation.pools[pool];
    return std::clamp(decision.pools[pool].target, bounds.min_replicas, bounds.max_replicas);
  };
  const signals::PoolObservation& to = observation.pools[index];
  const signals::PoolObservation& from = observation.pools[*partner];
  const std::uint32_t grows = target(index) - std::min(target(index), to.target_replicas);
  const std::uint32_t shrinks = from.target_replicas - std::min(target(*partner), from.target_replicas);
  const std::uint32_t draining = from.draining - std::min(from.draining, to.switching);
  return std::min(grows, shrinks + draining);
}

// The final decision on one pool, after the bounds of the pool and a possible refusal.
DecisionRecord record_of(const Decision& decision, const PoolDecision& pool, const signals::Observation& observation,
                         std::size_t index, std::string_view policy) {
  DecisionRecord record{pool, decision, observation.now, std::string{policy}, observation.pools[index].name, {}};
  if (!record.candidates.empty())
    for (const signals::PoolObservation& each : observation.pools) record.pools.push_back(each.name);
  return record;
}

}  // namespace

Tick DecisionLoop::tick(const signals::Observation& observation, const SetTarget& set_target) {
  Tick tick{decide(observation), {}};
  Decision& decision = tick.decision;
  PENSTOCK_ASSERT(decision.pools.size() == observation.pools.size(), "a policy decides on every pool");
  const bool takes_over = std::exchange(takes_over_, false);
  totals_.count(observation, decision);
  pools_.resize(decision.pools.size());
  for (std::size_t index = 0; index < decision.pools.size(); ++index) {
    const signals::PoolObservation& bounds = observation.pools[index];
    if (const std::uint32_t from_partner = switches(observation, decision, index))
      decision.pools[index].evidence.push_back({"role_switches", static_cast<double>(from_partner), "replicas"});
    PoolDecision pool = decision.pools[index];
    pool.current = bounds.target_replicas;
    pool.target = std::clamp(pool.target, bounds.min_replicas, bounds.max_replicas);
    if (takes_over && pool.target < pool.current) {
      pool.target = pool.current;
      pool.limited_by = Limit::kTakeOver;
      decision.pools[index] = pool;
    }
    // A fleet does not know the targets of the planner that has led until now.
    if ((takes_over || pool.target != pool.current) && !set_target(index, pool.target)) {
      pool.target = pool.current;
      pool.limited_by = Limit::kRefused;
    }
    pool.asleep = decision.pools[index].asleep = asleep_within(bounds, pool.target, pool.asleep);
    PoolState& state = pools_[index];
    const bool changes = is_change(state, pool);
    if (changes) {
      const int direction = pool.target > pool.current ? 1 : -1;
      if (state.direction == -direction) ++direction_changes_;
      state.direction = direction;
      ++changes_;
    }
    record(tick, observation, index, pool, changes);
  }
  return tick;
}

Tick DecisionLoop::hold(const signals::Observation& observation, std::string because) {
  return hold_all(observation, Reason::kNoData, Cause::kUnknown, std::move(because));
}

Tick DecisionLoop::follow(const signals::Observation& observation, std::string because) {
  return hold_all(observation, Reason::kFollower, std::nullopt, std::move(because));
}

Tick DecisionLoop::hold_all(const signals::Observation& observation, Reason reason, std::optional<Cause> cause,
                            std::string because) {
  Tick tick;
  tick.decision.cause = cause;
  tick.decision.diagnosis = std::move(because);
  for (const signals::PoolObservation& pool : observation.pools) {
    tick.decision.pools.push_back({pool.target_replicas, pool.target_replicas, reason});
    tick.decision.pools.back().asleep = asleep_within(pool, pool.target_replicas, pool.asleep_target);
  }
  totals_.count(observation, tick.decision);
  pools_.resize(tick.decision.pools.size());
  for (std::size_t index = 0; index < pools_.size(); ++index)
    record(tick, observation, index, tick.decision.pools[index], false);
  return tick;
}

void DecisionLoop::record(Tick& tick, const signals::Observation& observation, std::size_t index,
                          const PoolDecision& pool, bool changes) {
  PoolState& state = pools_[index];
  state.seen_target = pool.current;
  const LastDecision last{pool.reason, pool.limited_by, tick.decision.cause, pool.next_phase_target,
                          pool.asleep, pool.target};
  const bool is_news = std::exchange(state.last, last) != last;
  const bool is_restored = std::exchange(state.is_restored, false);
  if (changes || is_news || is_restored || records_every_hold_)
    tick.records.push_back(record_of(tick.decision, pool, observation, index, policy_->name()));
}

// A fleet that is only observed, or that does not follow, has the same change proposed at each tick.
bool DecisionLoop::is_change(const PoolState& state, const PoolDecision& pool) {
  if (pool.target == pool.current) return false;
  return !state.last || state.last->target != pool.target || state.seen_target != pool.current;
}

Decision DecisionLoop::decide(const signals::Observation& observation) {
  last_tick_ = observation.now + ahead_;
  pool_names_.clear();
  for (const signals::PoolObservation& pool : observation.pools) pool_names_.push_back(pool.name);
  if (ahead_ == core::Duration{}) return policy_->decide(observation);
  signals::Observation moved = observation;
  moved.now += ahead_;
  for (signals::PoolObservation& pool : moved.pools)
    for (signals::ReplicaObservation& replica : pool.replicas) {
      replica.state_since += ahead_;
      if (replica.sample) replica.sample->sampled_at += ahead_;
    }
  std::vector<signals::RecentRequest> recent{observation.recent.begin(), observation.recent.end()};
  for (signals::RecentRequest& request : recent) request.arrival += ahead_;
  moved.recent = recent;
  return policy_->decide(moved);
}

std::optional<PolicyState> DecisionLoop::save() {
  if (!last_tick_) return std::nullopt;
  core::StateArchive state;
  archive(state);
  return PolicyState{PolicyState::kVersion, std::string{policy_->name()}, pool_names_, *last_tick_, state.text()};
}

core::Result<void> DecisionLoop::restore(const PolicyState& state, const std::vector<std::string>& pools,
                                         core::Instant now, core::Duration passed) {
  PENSTOCK_ASSERT(!last_tick_, "a state is restored before the first tick");
  const auto refuse = [](std::string what) { return core::invalid_input("policy state", std::move(what)); };
  if (state.version != PolicyState::kVersion)
    return refuse(fmt::format("has version {}, this program knows version {}", state.version, PolicyState::kVersion));
  if (state.policy != policy_->name())
    return refuse(fmt::format("is of policy {}, not of {}", state.policy, policy_->name()));
  if (state.pools != pools)
    return refuse(fmt::format("is of pools {}, not of {}", fmt::join(state.pools, ", "), fmt::join(pools, ", ")));
  if (passed < core::Duration{} || passed > PolicyState::kAgeMax)
    return refuse(passed < core::Duration{}
                      ? "was saved in the future"
                      : fmt::format("is older than {} h", PolicyState::kAgeMax / std::chrono::hours{1}));
  core::Result<void> done = read_state(state.values);
  if (!done) return done;
  ahead_ = state.at + passed - now;
  for (PoolState& pool : pools_) pool.is_restored = true;
  return done;
}

std::string DecisionLoop::snapshot() {
  core::StateArchive state;
  archive(state);
  return state.text();
}

void DecisionLoop::reset(const std::string& snapshot) {
  // A snapshot from before a reload may not fit: then what is known now stays.
  static_cast<void>(read_state(snapshot));
  last_tick_.reset();
  ahead_ = {};
}

core::Result<void> DecisionLoop::replace(Policy& policy) {
  core::StateArchive state;
  archive(state);
  policy_ = &policy;
  // Before the first tick a state is known only if one was restored.
  const bool knows = last_tick_ || ahead_ != core::Duration{};
  return knows ? read_state(state.text()) : core::Result<void>{};
}

core::Result<void> DecisionLoop::read_state(const std::string& text) {
  core::StateArchive fresh;
  archive(fresh);
  core::StateArchive read{text};
  archive(read);
  core::Result<void> done = read.finish();
  if (!done) {
    core::StateArchive again{fresh.text()};
    archive(again);
    PENSTOCK_ASSERT(again.finish().has_value(), "what was saved can be restored");
  }
  return done;
}

}  // namespace penstock::decision
