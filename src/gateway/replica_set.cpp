#include "gateway/replica_set.h"

#include <algorithm>

#include "net/address.h"

namespace penstock::gateway {
namespace {

constexpr core::Duration kBusyPause = std::chrono::seconds{1};

std::shared_ptr<const Target> target_of(const ReplicaSpec& spec) {
  auto target = std::make_shared<Target>();
  target->id = spec.id;
  target->model = spec.model;
  target->addresses = spec.addresses;
  const auto url = net::parse_url(spec.url);
  PENSTOCK_ASSERT(url.has_value(), "discovery hands over readable URLs only");
  target->tls = url->tls;
  target->host = url->host;
  target->host_field = url->host_field();
  target->path_prefix = url->path;
  return target;
}

}  // namespace

ReplicaSet::ReplicaSet(const GatewayOptions& options) : options_(options) {}

std::uint32_t ReplicaSet::take_slot() {
  const auto free = std::find(used_.begin(), used_.end(), false);
  const auto slot = static_cast<std::uint32_t>(free - used_.begin());
  if (free == used_.end()) {
    used_.push_back(true);
    replicas_.push_back(Replica{{}, {}, 0, false, true, Breaker{options_.breaker}, 0, 0, 0, 0});
  } else {
    used_[slot] = true;
    replicas_[slot] = Replica{{}, {}, 0, false, true, Breaker{options_.breaker}, 0, 0, 0, 0};
  }
  return slot;
}

std::uint32_t ReplicaSet::take_group(const std::string& model, signals::Role role) {
  if (const auto known = group_of(model, role)) return *known;
  const auto group = static_cast<std::uint32_t>(groups_.size());
  const auto random = core::RandomStream{options_.seed}.fork("routing").fork(group);
  groups_.push_back(Group{model, role, routing::EndpointPicker{options_.picker, random}});
  return group;
}

void ReplicaSet::set(const std::vector<ReplicaSpec>& specs, core::Instant now) {
  for (Replica& replica : replicas_) replica.present = false;
  for (const ReplicaSpec& spec : specs) {
    const auto known = by_id_.find(spec.id);
    std::uint32_t slot = 0;
    if (known != by_id_.end() && replicas_[known->second].spec.url == spec.url &&
        replicas_[known->second].spec.model == spec.model && replicas_[known->second].spec.role == spec.role) {
      slot = known->second;
      if (replicas_[slot].spec.addresses != spec.addresses) replicas_[slot].target = target_of(spec);
      describe(slot, spec, now);
    } else {
      // The same name for another place: what was there ends by itself.
      slot = take_slot();
      by_id_[spec.id] = slot;
      replicas_[slot].target = target_of(spec);
      replicas_[slot].group = take_group(spec.model, spec.role);
      picker(replicas_[slot].group).add(slot, now, spec.weight);
      describe(slot, spec, now);
    }
    replicas_[slot].spec = spec;
    replicas_[slot].present = true;
  }
  for (std::uint32_t slot = 0; slot < replicas_.size(); ++slot) {
    if (!used_[slot]) continue;
    update(slot, now);
    forget_if_done(slot);
  }
}

void ReplicaSet::describe(std::uint32_t slot, const ReplicaSpec& spec, core::Instant now) {
  const std::uint64_t keys =
      spec.kv_tokens == 0 ? options_.picker.keys_per_replica : spec.kv_tokens / options_.key_tokens;
  routing::EndpointPicker& picker = this->picker(replicas_[slot].group);
  picker.set_weight(slot, spec.weight, now);
  picker.set_capacity(slot, static_cast<std::uint32_t>(std::clamp<std::uint64_t>(keys, 1, UINT32_MAX)));
}

void ReplicaSet::update(std::uint32_t slot, core::Instant now) {
  Replica& replica = replicas_[slot];
  const bool may = replica.present && replica.spec.phase == ReplicaPhase::kServing && replica.healthy &&
                   replica.breaker.lets_through(now);
  picker(replica.group).set_eligible(slot, may, now);
}

void ReplicaSet::forget_if_done(std::uint32_t slot) {
  Replica& replica = replicas_[slot];
  if (!used_[slot] || replica.present || replica.open_requests > 0) return;
  picker(replica.group).forget(slot);
  if (const auto named = by_id_.find(replica.spec.id); named != by_id_.end() && named->second == slot)
    by_id_.erase(named);
  used_[slot] = false;
}

void ReplicaSet::set_health(std::uint32_t slot, bool healthy, core::Instant now) {
  replicas_[slot].healthy = healthy;
  update(slot, now);
}

void ReplicaSet::tick(core::Instant now) {
  for (std::uint32_t slot = 0; slot < replicas_.size(); ++slot)
    if (used_[slot] && replicas_[slot].breaker.state() == Breaker::State::kOpen) update(slot, now);
}

std::optional<std::uint32_t> ReplicaSet::slot_of(std::string_view id) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::uint32_t> ReplicaSet::group_of(std::string_view model, signals::Role role) const {
  for (std::uint32_t group = 0; group < groups_.size(); ++group)
    if (groups_[group].role == role && groups_[group].model == model) return group;
  return std::nullopt;
}

bool ReplicaSet::serves(std::string_view model) const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [&](const Replica& replica) { return replica.present && replica.spec.model == model; });
}

bool ReplicaSet::knows(std::string_view model) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) { return group.model == model; }) ||
         model_of(options_, model) != nullptr;
}

std::vector<std::string> ReplicaSet::models() const {
  std::vector<std::string> names;
  for (const Group& group : groups_) names.push_back(group.model);
  for (const Model& configured : options_.models) names.push_back(configured.name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

routing::EndpointPicker::Load ReplicaSet::load(std::uint32_t slot, core::Instant now) const {
  return groups_[replicas_[slot].group].picker.load(slot, now);
}

void ReplicaSet::dispatched(std::uint32_t slot, const routing::PickRequest& ask, const routing::Selection& selection,
                            core::Instant now) {
  Replica& replica = replicas_[slot];
  ++replica.open_requests;
  ++replica.requests_total;
  picker(replica.group).dispatched(ask, selection, now);
  replica.breaker.dispatched();
  if (replica.breaker.state() != Breaker::State::kClosed) update(slot, now);
}

void ReplicaSet::succeeded(std::uint32_t slot, core::Instant now) {
  const bool was_closed = replicas_[slot].breaker.state() == Breaker::State::kClosed;
  replicas_[slot].breaker.succeeded();
  if (!was_closed) update(slot, now);
}

void ReplicaSet::faulted(std::uint32_t slot, core::Instant now) {
  ++replicas_[slot].failures_total;
  replicas_[slot].breaker.failed(now);
  update(slot, now);
}

void ReplicaSet::busy(std::uint32_t slot, core::Instant now) {
  ++replicas_[slot].busy_total;
  succeeded(slot, now);
  picker(replicas_[slot].group).busy(slot, now, kBusyPause);
}

void ReplicaSet::undecided(std::uint32_t slot, core::Instant now) {
  replicas_[slot].breaker.undecided();
  if (replicas_[slot].breaker.state() != Breaker::State::kClosed) update(slot, now);
}

void ReplicaSet::left(std::uint32_t slot) {
  PENSTOCK_ASSERT(replicas_[slot].open_requests > 0, "a request leaves the replica that it went to");
  --replicas_[slot].open_requests;
  forget_if_done(slot);
}

}  // namespace penstock::gateway
