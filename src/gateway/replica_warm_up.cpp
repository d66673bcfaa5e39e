#include "gateway/replica_warm_up.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "api/request.h"

namespace penstock::gateway {
namespace {

constexpr core::Duration kWarmUpVisit = std::chrono::milliseconds{100};
constexpr std::size_t kWarmUpPrefixesMax = 32;

}  // namespace

ReplicaWarmUp::ReplicaWarmUp(net::Loop& loop, const GatewayOptions& options, SharedDispatcher& dispatcher,
                             HealthChecker& replicas)
    : loop_(loop), options_(options), dispatcher_(dispatcher), checker_(replicas) {
  if (options_.warm_up) loop_.every(kWarmUpVisit, [this] { visit(); });
}

void ReplicaWarmUp::set_replicas(std::vector<ReplicaEndpoint> replicas, bool complete) {
  if (!options_.warm_up) return checker_.set_replicas(std::move(replicas), complete);
  replicas_ = std::move(replicas);
  complete_ = complete;
  std::set<Name> listed;
  for (const ReplicaEndpoint& replica : replicas_) {
    const Name name{replica.id, replica.url};
    listed.insert(name);
    if (warm_.contains(name)) continue;
    if (was_complete_ && replica.role != signals::Role::kDecode)
      cold_.try_emplace(name);
    else
      warm_.emplace(name, restarts_of(replica.id));
  }
  std::erase_if(warm_, [&](const auto& each) { return !listed.contains(each.first); });
  std::erase_if(cold_, [&](const auto& each) { return !listed.contains(each.first); });
  was_complete_ = was_complete_ || complete;
  pass_on();
}

void ReplicaWarmUp::pass_on() {
  std::vector<ReplicaEndpoint> replicas = replicas_;
  for (ReplicaEndpoint& replica : replicas)
    if (replica.phase == dispatch::ReplicaPhase::kServing && cold_.contains({replica.id, replica.url}))
      replica.phase = dispatch::ReplicaPhase::kWarming;
  checker_.set_replicas(std::move(replicas), complete_);
}

bool ReplicaWarmUp::has_warm_replica() const {
  return std::any_of(replicas_.begin(), replicas_.end(), [&](const ReplicaEndpoint& replica) {
    if (replica.phase != dispatch::ReplicaPhase::kServing || !warm_.contains({replica.id, replica.url})) return false;
    const CheckedReplica* const checked = checker_.find(replica.id);
    return replica.role != signals::Role::kDecode && checked != nullptr && checked->is_healthy();
  });
}

std::uint32_t ReplicaWarmUp::restarts_of(const std::string& id) const {
  const CheckedReplica* const checked = checker_.find(id);
  return checked == nullptr ? 0 : checked->restarts;
}

bool ReplicaWarmUp::find_restarted() {
  bool found = false;
  for (const ReplicaEndpoint& replica : replicas_) {
    const auto warm = warm_.find({replica.id, replica.url});
    if (warm == warm_.end() || replica.role == signals::Role::kDecode) continue;
    if (warm->second == restarts_of(replica.id)) continue;
    cold_.try_emplace(warm->first);
    warm_.erase(warm);
    found = true;
  }
  return found;
}

void ReplicaWarmUp::visit() {
  bool changed = find_restarted();
  for (const ReplicaEndpoint& replica : replicas_) {
    const auto cold = cold_.find({replica.id, replica.url});
    if (cold == cold_.end() || replica.phase != dispatch::ReplicaPhase::kServing) continue;
    if (has_warm_replica() && !is_done(replica, cold->second)) continue;
    warm_.emplace(cold->first, restarts_of(replica.id));
    cold_.erase(cold);
    changed = true;
  }
  if (changed) pass_on();
}

bool ReplicaWarmUp::is_done(const ReplicaEndpoint& replica, ColdReplica& cold) {
  const CheckedReplica* const checked = checker_.find(replica.id);
  const bool answers = checked != nullptr && checked->is_healthy() && checked->models_read;
  if (!answers || checked->endpoint.model.empty()) return false;
  if (cold.restarts != checked->restarts) cold = {};
  if (!std::exchange(cold.has_begun, true)) {
    cold.begun_at = loop_.now();
    cold.restarts = checked->restarts;
    cold.prompts = prompts_for(*checked);
  }
  if (loop_.now() - cold.begun_at >= options_.warm_up_time) return true;
  if (checked->prompts_in_flight > 0) return false;
  if (cold.sent == cold.prompts.size()) return true;
  const WarmUpPrompt& next = cold.prompts[cold.sent++];
  checker_.send_prompt(replica.id, next.path, next.body);
  return false;
}

std::vector<WarmUpPrompt> ReplicaWarmUp::prompts_for(const CheckedReplica& replica) const {
  const std::string& model = replica.endpoint.model;
  const auto serves = [&](const std::string& name) {
    return name == model || std::any_of(replica.endpoint.also.begin(), replica.endpoint.also.end(),
                                        [&](const auto& also) { return also.name == name; });
  };
  std::vector<WarmUpPrompt> prompts;
  for (const WarmUpPrompt& prompt : options_.warm_up_prompts)
    if (prompt.model.empty() || serves(prompt.model))
      prompts.push_back({model, prompt.path, prompt.model.empty() ? body_for(prompt, model) : prompt.body});
  if (dispatcher_.hot_prefixes() == nullptr) return prompts;
  std::vector<HotPrefix> hot = dispatcher_.hot_prefixes()->hot(model, loop_.now());
  hot.resize(std::min(hot.size(), kWarmUpPrefixesMax));
  for (const HotPrefix& prefix : hot)
    prompts.push_back({model, std::string{api::path_of(prefix.text->endpoint)}, prefix.text->body});
  return prompts;
}

}  // namespace penstock::gateway
