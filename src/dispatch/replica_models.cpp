// The models of a replica set: a replica serves its own model, aliases of it, and adapters on top of it.
#include <algorithm>

#include "core/result.h"
#include "dispatch/replica_set.h"

namespace penstock::dispatch {

std::uint32_t ReplicaSet::take_model(const std::string& name) {
  if (const auto found = model_numbers_.find(name); found != model_numbers_.end()) return found->second;
  const Model* configured = model_of(options_, name);
  return add_model(configured != nullptr ? *configured : Model{name, {}, 0});
}

std::optional<std::uint32_t> ReplicaSet::model_number(std::string_view model) const {
  const auto found = model_numbers_.find(model);
  if (found == model_numbers_.end()) return std::nullopt;
  const KnownModel& known = models_[found->second];
  return known.stays_known || known.listed ? std::optional{found->second} : std::nullopt;
}

std::uint32_t ReplicaSet::context_tokens(std::uint32_t model) const {
  const KnownModel& known = models_[model];
  const std::uint32_t configured = known.settings.context_tokens;
  const std::uint32_t reported = known.context_tokens.largest(options_.pools.size());
  if (reported == 0) return configured > 0 ? configured : options_.context_tokens;
  return configured > 0 ? std::min(configured, reported) : reported;
}

bool ReplicaSet::is_idle(std::uint32_t pool) const {
  return std::none_of(replicas_.begin(), replicas_.end(), [&](const Replica& replica) {
    return replica.used && replica.open_requests > 0 && replica.spec.role == signals::Role::kAggregated &&
           groups_[replica.group].pool == pool;
  });
}

std::vector<ModelListing> ReplicaSet::models() const {
  std::vector<ModelListing> all;
  for (const auto& [name, number] : model_numbers_)
    if (models_[number].stays_known || models_[number].listed)
      all.push_back({name, context_tokens(number), models_[number].settings.caps});
  return all;
}

bool ReplicaSet::serves(const Replica& replica, std::uint32_t model) const {
  return replica.model == model || std::find(replica.also.begin(), replica.also.end(), model) != replica.also.end();
}

bool ReplicaSet::serves(std::uint32_t model) const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [&](const Replica& replica) { return replica.present && serves(replica, model); });
}

// An alias or adapter without a price or limit of its own has those of the model below it.
void ReplicaSet::inherit_settings(std::uint32_t model, std::uint32_t base) {
  KnownModel& known = models_[model];
  if (known.stays_known) return;
  const std::string name = known.settings.name;
  known.settings = models_[base].settings;
  known.settings.name = name;
}

// A name stays listed while none of the replicas that served it is there to contradict.
void ReplicaSet::update_models() {
  for (Replica& replica : replicas_) {
    if (!replica.present) continue;
    replica.also.clear();
    for (const ServedModel& served : replica.spec.also) replica.also.push_back(take_model(served.name));
  }
  const std::vector<KnownModel> before = models_;
  for (KnownModel& known : models_) {
    known.listed = false;
    known.context_tokens = {};
    for (auto& groups : known.shared) groups.clear();
  }
  std::vector<bool> has_replica(groups_.size());
  for (const Replica& replica : replicas_) {
    if (!replica.present) continue;
    has_replica[replica.group] = true;
    const std::uint32_t pool = groups_[replica.group].pool;
    models_[replica.model].context_tokens.add(pool, replica.spec.context_tokens);
    for (std::size_t i = 0; i < replica.also.size(); ++i) {
      KnownModel& known = models_[replica.also[i]];
      const ServedModel& served = replica.spec.also[i];
      known.listed = true;
      known.key_salt = served.key_salt;
      inherit_settings(replica.also[i], replica.model);
      known.context_tokens.add(pool, served.context_tokens);
      auto& groups = known.shared[static_cast<std::size_t>(replica.spec.role)];
      if (std::find(groups.begin(), groups.end(), replica.group) == groups.end()) groups.push_back(replica.group);
    }
  }
  for (std::size_t number = 0; number < models_.size(); ++number) {
    const KnownModel& last = before[number];
    KnownModel& known = models_[number];
    const bool contradicted = std::any_of(last.shared.begin(), last.shared.end(), [&](const auto& groups) {
      return std::any_of(groups.begin(), groups.end(), [&](std::uint32_t group) { return has_replica[group]; });
    });
    if (known.listed || !last.listed || contradicted) continue;
    known.listed = true;
    known.shared = last.shared;
    known.context_tokens = last.context_tokens;
  }
}

std::vector<std::uint32_t> ReplicaSet::groups_of(std::uint32_t model, signals::Role role) const {
  std::vector<std::uint32_t> groups = models_[model].shared[static_cast<std::size_t>(role)];
  const std::vector<std::uint32_t>& own = models_[model].groups[static_cast<std::size_t>(role)];
  groups.insert(groups.begin(), own.begin(), own.end());
  return groups;
}

bool ReplicaSet::any_eligible(std::uint32_t model, signals::Role role, std::optional<std::uint32_t> pool) const {
  const auto is_of = [&](std::uint32_t group) { return !pool || groups_[group].pool == *pool; };
  for (const std::uint32_t own : models_[model].groups[static_cast<std::size_t>(role)])
    if (groups_[own].eligible > 0 && is_of(own)) return true;
  if (models_[model].shared[static_cast<std::size_t>(role)].empty()) return false;
  return std::any_of(replicas_.begin(), replicas_.end(), [&](const Replica& replica) {
    return replica.used && replica.eligible && replica.spec.role == role && is_of(replica.group) &&
           serves(replica, model);
  });
}

bool ReplicaSet::any_available(std::uint32_t model, signals::Role role, std::span<const std::uint32_t> without) const {
  for (std::uint32_t slot = 0; slot < replicas_.size(); ++slot) {
    const Replica& replica = replicas_[slot];
    if (!is_available(replica) || replica.spec.role != role || !serves(replica, model)) continue;
    if (std::find(without.begin(), without.end(), slot) == without.end()) return true;
  }
  return false;
}

std::vector<PrefixHolder> ReplicaSet::idle_holders(std::uint32_t model, std::span<const std::uint64_t> keys,
                                                   core::Instant now) {
  std::vector<PrefixHolder> found;
  for (const signals::Role role : {signals::Role::kAggregated, signals::Role::kPrefill})
    for (const std::uint32_t group : groups_of(model, role))
      for (const routing::PickingStrategy::Holder& holder : holders(group, keys, now)) {
        const routing::PickingStrategy::Load load = this->load(holder.slot, now);
        if (load.eligible && load.prefill_tokens == 0)
          found.push_back({replica(holder.slot).spec.id, holder.slot, holder.sent_at});
      }
  return found;
}

std::optional<routing::Selection> ReplicaSet::choose(std::uint32_t model, signals::Role role,
                                                     const routing::PickRequest& request, core::Instant now,
                                                     std::optional<std::uint32_t> pool) {
  std::optional<routing::Selection> best;
  const auto is_of_other_pool = [&](std::uint32_t group) { return pool && groups_[group].pool != *pool; };
  const auto consider = [&](std::optional<routing::Selection> selection) {
    if (selection && (!best || selection->expected_ttft_ms < best->expected_ttft_ms)) best = std::move(selection);
  };
  for (const std::uint32_t group : models_[model].groups[static_cast<std::size_t>(role)])
    if (!is_of_other_pool(group)) consider(choose(group, request, now));
  for (const std::uint32_t group : models_[model].shared[static_cast<std::size_t>(role)]) {
    if (is_of_other_pool(group)) continue;
    // Replicas of the group without the model are no candidates.
    std::vector<std::uint32_t> without{request.without.begin(), request.without.end()};
    for (const std::uint32_t slot : groups_[group].slots)
      if (replicas_[slot].used && replicas_[slot].group == group && !serves(replicas_[slot], model))
        without.push_back(slot);
    routing::PickRequest narrowed = request;
    narrowed.without = without;
    consider(choose(group, narrowed, now));
  }
  return best;
}

}  // namespace penstock::dispatch
