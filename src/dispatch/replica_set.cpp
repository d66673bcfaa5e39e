#include "dispatch/replica_set.h"

#include <algorithm>
#include <utility>

#include "core/result.h"

namespace penstock::dispatch {
namespace {

constexpr core::Duration kBusyPause = std::chrono::seconds{1};

// Recorded runs of the peers' routers depend on the stream that they draw from.
core::RandomStream stream_of(const DispatchOptions& options, std::uint32_t group) {
  const core::RandomStream random{options.seed};
  if (options.strategy == routing::Strategy::kLive) return random.fork("routing").fork(group);
  return random.fork("fleet").fork("router").fork(group);
}

// Their number for replicas of a pool without a rule; 0 for other roles.
std::uint32_t pool_number(const std::vector<PoolRule>& rules, const ReplicaSpec& spec) {
  if (spec.role != signals::Role::kAggregated) return 0;
  std::uint32_t pool = 0;
  while (pool < rules.size() && rules[pool].name != spec.pool) ++pool;
  return pool;
}

void report_kv(routing::PickingStrategy& picker, std::uint32_t place, KvChange change,
               std::span<const std::uint64_t> keys) {
  switch (change) {
    case KvChange::kStored:
      for (const std::uint64_t key : keys) picker.stored(place, key);
      break;
    case KvChange::kRemoved:
      for (const std::uint64_t key : keys) picker.removed(place, key);
      break;
    case KvChange::kCleared: picker.cleared(place); break;
    case KvChange::kLost: picker.events_lost(place); break;
  }
}

}  // namespace

ReplicaSet::ReplicaSet(const DispatchOptions& options) : options_(options) {
  for (const Model& model : options.models)
    if (!model_numbers_.contains(model.name)) models_[add_model(model)].stays_known = true;
}

std::uint32_t ReplicaSet::add_model(const Model& settings) {
  const auto number = static_cast<std::uint32_t>(models_.size());
  models_.push_back({settings});
  model_numbers_.emplace(settings.name, number);
  return number;
}

void ReplicaSet::options_changed() {
  for (KnownModel& known : models_) {
    const Model* configured = model_of(options_, known.settings.name);
    known.settings = configured != nullptr ? *configured : Model{known.settings.name, {}, 0};
  }
  for (const Model& model : options_.models) models_[take_model(model.name)].stays_known = true;
  update_models();
  for (Replica& replica : replicas_) replica.breaker.set_options(options_.circuit_breaker);
  for (const Group& group : groups_) group.strategy->set_kv_full(options_.pressure.kv_reject);
}

std::uint32_t ReplicaSet::take_slot() {
  const auto free = std::find_if(replicas_.begin(), replicas_.end(), [](const Replica& each) { return !each.used; });
  const auto slot = static_cast<std::uint32_t>(free - replicas_.begin());
  if (free == replicas_.end()) replicas_.emplace_back();
  replicas_[slot] = Replica{};
  replicas_[slot].used = true;
  replicas_[slot].breaker = CircuitBreaker{options_.circuit_breaker};
  return slot;
}

std::uint32_t ReplicaSet::take_group(const ReplicaSpec& spec) {
  const std::uint32_t model = take_model(spec.model);
  models_[model].stays_known = true;
  std::vector<std::uint32_t>& groups = models_[model].groups[static_cast<std::size_t>(spec.role)];
  const std::uint32_t pool = pool_number(options_.pools, spec);
  for (const std::uint32_t group : groups)
    if (groups_[group].pool == pool) return group;
  const auto group = static_cast<std::uint32_t>(groups_.size());
  groups.push_back(group);
  groups_.emplace_back().strategy = routing::make_picking_strategy(options_.strategy, options_.picker,
                                                                   options_.key_tokens, stream_of(options_, group));
  groups_.back().strategy->set_kv_full(options_.pressure.kv_reject);
  groups_.back().pool = pool;
  return group;
}

std::uint32_t ReplicaSet::add(const ReplicaSpec& spec, core::Instant now) {
  const std::uint32_t slot = take_slot();
  Replica& replica = replicas_[slot];
  replica.group = take_group(spec);
  replica.model = take_model(spec.model);
  replica.eligible = true;
  Group& group = groups_[replica.group];
  ++group.eligible;
  if (group.free_places.empty()) {
    replica.place = static_cast<std::uint32_t>(group.slots.size());
    group.slots.push_back(slot);
  } else {
    replica.place = group.free_places.back();
    group.free_places.pop_back();
    group.slots[replica.place] = slot;
  }
  group.strategy->add(replica.place, now, spec.weight);
  return slot;
}

void ReplicaSet::set(const std::vector<ReplicaSpec>& specs, core::Instant now) {
  for (Replica& replica : replicas_)
    // Nothing checks a replica that is not listed. Its checks begin anew when it is listed again.
    if (!std::exchange(replica.present, false)) replica.health = ReplicaHealth::kHealthy;
  for (const ReplicaSpec& spec : specs) {
    const auto known = slot_of(spec.id);
    const bool same = known && replicas_[*known].spec.number == spec.number &&
                      replicas_[*known].spec.model == spec.model && replicas_[*known].spec.role == spec.role &&
                      pool_of(*known) == pool_number(options_.pools, spec);
    // What was sent to another replica of this name ends by itself.
    const std::uint32_t slot = same ? *known : add(spec, now);
    by_id_[spec.id] = slot;
    describe(slot, spec, now);
    replicas_[slot].spec = spec;
    replicas_[slot].present = true;
  }
  update_models();
  for (std::uint32_t group = 0; group < groups_.size(); ++group) update_uses_slow(group);
  for (std::uint32_t slot = 0; slot < replicas_.size(); ++slot) {
    if (!replicas_[slot].used) continue;
    update(slot, now);
    forget_if_done(slot);
  }
}

void ReplicaSet::describe(std::uint32_t slot, const ReplicaSpec& spec, core::Instant now) {
  const std::uint64_t keys = spec.kv_tokens == 0
                                 ? std::uint64_t{options_.picker.keys_per_replica} * std::max(1U, spec.workers)
                                 : spec.kv_tokens / options_.key_tokens;
  strategy(slot).set_weight(place(slot), spec.weight, now);
  strategy(slot).set_capacity(place(slot), static_cast<std::uint32_t>(std::clamp<std::uint64_t>(keys, 1, UINT32_MAX)));
}

void ReplicaSet::update(std::uint32_t slot, core::Instant now) {
  Replica& replica = replicas_[slot];
  Group& group = groups_[replica.group];
  const bool may = may_serve(slot, now);
  report_change(replica, now);
  const bool suspect = replica.used && replica.breaker.is_suspect();
  group.suspects = group.suspects + (suspect ? 1 : 0) - (replica.suspect ? 1 : 0);
  replica.suspect = suspect;
  if (may || group.last_resort != slot) set_eligible(slot, may, now);
  update_last_resort(replica.group, now);
}

bool ReplicaSet::may_serve(std::uint32_t slot, core::Instant now) {
  return is_available(replicas_[slot]) && replicas_[slot].breaker.lets_through(now);
}

// If every available replica of a group is ejected, the one whose ejection ends first stays eligible.
void ReplicaSet::update_last_resort(std::uint32_t group_number, core::Instant now) {
  Group& group = groups_[group_number];
  if (const std::uint32_t former = std::exchange(group.last_resort, kNone); former != kNone) {
    if (may_serve(former, now)) return;
    const bool has_others = group.eligible > (replicas_[former].eligible ? 1U : 0U);
    if (!has_others && is_available(replicas_[former])) return void(group.last_resort = former);
    set_eligible(former, false, now);
  }
  if (group.eligible > 0) return;
  each_available(group_number, [&](std::uint32_t slot) {
    const auto ends = [this](std::uint32_t each) { return replicas_[each].breaker.open_until(); };
    if (group.last_resort == kNone || ends(slot) < ends(group.last_resort)) group.last_resort = slot;
  });
  if (group.last_resort != kNone) set_eligible(group.last_resort, true, now);
}

void ReplicaSet::set_eligible(std::uint32_t slot, bool eligible, core::Instant now) {
  Replica& replica = replicas_[slot];
  std::uint32_t& count = groups_[replica.group].eligible;
  count = count + (eligible ? 1 : 0) - (replica.eligible ? 1 : 0);
  replica.eligible = eligible;
  strategy(slot).set_eligible(replica.place, eligible, now);
}

void ReplicaSet::report_change(Replica& replica, core::Instant now) {
  const CircuitBreaker& breaker = replica.breaker;
  const bool ejected_again = breaker.ejections() != replica.ejections_logged;
  if (replica.breaker_state == breaker.state() && !ejected_again) return;
  replica.breaker_state = breaker.state();
  replica.ejections_logged = breaker.ejections();
  if (changes_.size() < kChangesMax)
    changes_.push_back({replica.spec.id, replica.breaker_state, breaker.failures(), breaker.cause(),
                        std::max(core::Duration{}, breaker.open_until() - now)});
}

// At least one other replica stays, and at most the configured share of the group is ejected.
bool ReplicaSet::may_eject(std::uint32_t slot) const {
  std::uint32_t available = 0, ejected = 0;
  each_available(replicas_[slot].group, [&](std::uint32_t each) {
    ++available;
    ejected += replicas_[each].breaker.state() == CircuitBreaker::State::kClosed ? 0 : 1;
  });
  const auto most = static_cast<std::uint32_t>(options_.circuit_breaker.ejected_max * available);
  return ejected + 1 < available && ejected + 1 <= std::max(1U, most);
}

void ReplicaSet::judge(std::uint32_t slot, core::Instant now) {
  CircuitBreaker& breaker = replicas_[slot].breaker;
  if (options_.circuit_breaker.failures == CircuitBreakerOptions::kNever) return;
  EjectionCause cause = breaker.has_too_many_failures() ? EjectionCause::kConsecutiveFailures : EjectionCause::kNone;
  if (cause == EjectionCause::kNone) {
    peers_.clear();
    each_available(replicas_[slot].group, [&](std::uint32_t each) {
      if (each != slot) peers_.push_back(replicas_[each].breaker.counts(now));
    });
    if (is_outlier(breaker.counts(now), peers_, options_.circuit_breaker)) cause = EjectionCause::kSuccessRate;
  }
  if (cause != EjectionCause::kNone && may_eject(slot)) breaker.eject(cause, now);
}

void ReplicaSet::forget_if_done(std::uint32_t slot) {
  Replica& replica = replicas_[slot];
  if (!replica.used || replica.present || replica.open_requests + replica.open_transfers > 0) return;
  strategy(slot).forget(replica.place);
  groups_[replica.group].free_places.push_back(replica.place);
  if (const auto named = by_id_.find(replica.spec.id); named != by_id_.end() && named->second == slot)
    by_id_.erase(named);
  replica.used = false;
}

void ReplicaSet::set_health(std::uint32_t slot, ReplicaHealth health, core::Instant now) {
  Replica& replica = replicas_[slot];
  if (health == ReplicaHealth::kHealthy && replica.health != health) replica.breaker.end_ejection();
  replica.health = health;
  const Group& group = groups_[replica.group];
  const bool used_slow = group.uses_slow;
  update_uses_slow(replica.group);
  if (group.uses_slow == used_slow) return update(slot, now);
  for (std::uint32_t each = 0; each < replicas_.size(); ++each)
    if (replicas_[each].used && replicas_[each].group == replica.group) update(each, now);
}

void ReplicaSet::update_uses_slow(std::uint32_t group) {
  groups_[group].uses_slow = std::none_of(replicas_.begin(), replicas_.end(), [&](const Replica& replica) {
    return replica.group == group && replica.is_serving() && replica.is_healthy();
  });
}

void ReplicaSet::tick(core::Instant now) {
  for (std::uint32_t slot = 0; slot < replicas_.size(); ++slot)
    if (replicas_[slot].used && replicas_[slot].breaker.state() == CircuitBreaker::State::kOpen) update(slot, now);
}

core::Instant ReplicaSet::next_wake() const {
  core::Instant earliest = core::kNever;
  for (const Replica& replica : replicas_)
    if (replica.used && replica.breaker.state() == CircuitBreaker::State::kOpen)
      earliest = std::min(earliest, replica.breaker.open_until());
  return earliest;
}

std::optional<std::uint32_t> ReplicaSet::slot_of(std::string_view id) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::uint32_t> ReplicaSet::group_of(std::uint32_t model, signals::Role role) const {
  const std::vector<std::uint32_t>& groups = models_[model].groups[static_cast<std::size_t>(role)];
  return groups.empty() ? std::nullopt : std::optional{groups.front()};
}

std::optional<routing::Selection> ReplicaSet::choose(std::uint32_t group, const routing::PickRequest& request,
                                                     core::Instant now) {
  Group& chosen_from = groups_[group];
  std::optional<routing::Selection> selection;
  if (request.without.empty() && chosen_from.suspects == 0) {
    selection = chosen_from.strategy->choose(request, now);
  } else {
    other_places_.clear();
    for (const std::uint32_t slot : request.without)
      if (replicas_[slot].group == group) other_places_.push_back(place(slot));
    const std::size_t excluded = other_places_.size();
    if (chosen_from.suspects > 0)
      for (const std::uint32_t slot : chosen_from.slots)
        if (replicas_[slot].group == group && replicas_[slot].suspect && replicas_[slot].open_requests > 0)
          other_places_.push_back(place(slot));
    routing::PickRequest local = request;
    local.without = other_places_;
    selection = chosen_from.strategy->choose(local, now);
    if (!selection && excluded < other_places_.size()) {
      local.without = std::span{other_places_}.first(excluded);
      selection = chosen_from.strategy->choose(local, now);
    }
  }
  if (selection) selection->slot = chosen_from.slots[selection->slot];
  return selection;
}

std::uint32_t ReplicaSet::dispatched(const routing::PickRequest& request, const routing::Selection& selection,
                                     core::Instant now) {
  const std::uint32_t slot = selection.slot;
  Replica& replica = replicas_[slot];
  ++replica.open_requests;
  ++replica.requests_total;
  ++replica.picks[static_cast<std::size_t>(selection.why)];
  routing::Selection local = selection;
  local.slot = replica.place;
  strategy(slot).dispatched(request, local, now);
  const std::uint32_t period = replica.breaker.dispatched();
  if (replica.breaker.state() != CircuitBreaker::State::kClosed) update(slot, now);
  return period;
}

void ReplicaSet::first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Duration ttft,
                             core::Instant now) {
  replicas_[slot].answered_at = now;
  strategy(slot).first_token(place(slot), uncached_tokens, ttft, now);
}

void ReplicaSet::assume_first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Instant sent_at,
                                    core::Instant now) {
  strategy(slot).assume_first_token(place(slot), uncached_tokens, sent_at, now);
}

void ReplicaSet::finished(std::uint32_t slot, std::uint32_t uncached_tokens, std::uint32_t input_tokens,
                          std::uint32_t output_tokens, bool answered) {
  PENSTOCK_ASSERT(replicas_[slot].open_requests > 0, "a request leaves the replica that it went to");
  strategy(slot).finished(place(slot), uncached_tokens, input_tokens, output_tokens, answered);
  --replicas_[slot].open_requests;
  forget_if_done(slot);
}

void ReplicaSet::release_kv(std::uint32_t slot) {
  PENSTOCK_ASSERT(replicas_[slot].open_transfers > 0, "KV is released once");
  --replicas_[slot].open_transfers;
  forget_if_done(slot);
}

void ReplicaSet::succeeded(std::uint32_t slot, std::uint32_t period, core::Instant now) {
  Replica& replica = replicas_[slot];
  const bool was_closed = replica.breaker.state() == CircuitBreaker::State::kClosed;
  replica.answered_at = now;
  replica.breaker.succeeded(period, now);
  if (!was_closed || replica.suspect) update(slot, now);
}

void ReplicaSet::faulted(std::uint32_t slot, std::uint32_t period, core::Instant now, bool reached) {
  Replica& replica = replicas_[slot];
  ++replica.failures_total;
  if (replica.breaker.failed(period, now, reached)) judge(slot, now);
  update(slot, now);
}

void ReplicaSet::busy(std::uint32_t slot, std::uint32_t period, core::Instant now) {
  ++replicas_[slot].busy_total;
  undecided(slot, period, now);
  strategy(slot).busy(place(slot), now, kBusyPause);
}

void ReplicaSet::undecided(std::uint32_t slot, std::uint32_t period, core::Instant now) {
  replicas_[slot].breaker.undecided(period);
  if (replicas_[slot].breaker.state() != CircuitBreaker::State::kClosed) update(slot, now);
}

routing::PickingStrategy::Load ReplicaSet::load(std::uint32_t slot, core::Instant now) const {
  return groups_[replicas_[slot].group].strategy->load(place(slot), now);
}

void ReplicaSet::report_load(std::uint32_t slot, const routing::ReportedLoad& load) {
  strategy(slot).report_load(place(slot), load);
}

void ReplicaSet::kv_event(std::uint32_t slot, KvChange change, std::span<const std::uint64_t> keys) {
  report_kv(strategy(slot), place(slot), change, keys);
}

void ReplicaSet::prefix_missing(std::uint32_t slot, core::Instant used_at) {
  strategy(slot).prefix_missing(place(slot), used_at);
}

std::vector<routing::PickingStrategy::Holder> ReplicaSet::holders(std::uint32_t group,
                                                                  std::span<const std::uint64_t> keys,
                                                                  core::Instant now) {
  auto found = groups_[group].strategy->holders(keys, now);
  for (routing::PickingStrategy::Holder& holder : found) holder.slot = groups_[group].slots[holder.slot];
  return found;
}

void ReplicaSet::pinged(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now) {
  if (slot < replicas_.size() && replicas_[slot].used) strategy(slot).pinged(place(slot), keys, now);
}

}  // namespace penstock::dispatch
