#include "controller/observed_fleet.h"

#include <algorithm>
#include <utility>

namespace penstock::controller {
namespace {

// An unhealthy replica takes no traffic, as if it were still starting.
signals::ReplicaState state_of(const GatewayReplica& replica) {
  if (replica.phase == "draining") return signals::ReplicaState::kDraining;
  return replica.phase == "serving" && replica.healthy ? signals::ReplicaState::kReady
                                                       : signals::ReplicaState::kStarting;
}

}  // namespace

ObservedFleet::ObservedFleet(net::Loop& loop, net::Client& client, logging::Log& log, ObservedFleetOptions options)
    : options_(std::move(options)), events_(log), watch_(loop, client, events_, [&] {
        EngineWatchOptions watch;
        watch.credentials = options_.credentials;
        return watch;
      }()) {}

void ObservedFleet::update_gateway(const GatewayState& state, core::Instant at) {
  std::map<std::string, Known> next;
  std::vector<WatchedEngine> engines;
  const auto log_state = [&](const std::string& id, const std::string& from, std::string_view to) {
    events_.log().write(logging::Event::kReplicaState, {{"replica", id}, {"from", from}, {"to", to}});
  };
  for (const auto& [id, replica] : state.replicas) {
    const auto pool =
        std::find_if(options_.pools.begin(), options_.pools.end(),
                     [&listed = replica](signals::Role role) { return listed.role == signals::to_string(role); });
    const bool ours = options_.model.empty() || replica.model == options_.model;
    if (!ours || pool == options_.pools.end()) continue;
    Known known;
    if (const auto before = known_.find(id); before != known_.end()) {
      known = before->second;
    } else {
      known.number = next_++;
      known.since = at;
      events_.add(at, false, {}, "the gateway lists " + id);
      log_state(id, {}, replica.phase);
    }
    known.pool = static_cast<std::size_t>(pool - options_.pools.begin());
    known.url = replica.url;
    if (!known.phase.empty() && known.phase != replica.phase) log_state(id, known.phase, replica.phase);
    known.phase = replica.phase;
    if (std::exchange(known.state, state_of(replica)) != known.state) known.since = at;
    engines.push_back({known.number, replica.url, replica.fpm, id});
    next.emplace(id, std::move(known));
  }
  for (const auto& [id, gone] : known_)
    if (!next.contains(id)) {
      events_.add(at, false, {}, "the gateway does not list " + id + " any more");
      log_state(id, gone.phase, "gone");
    }
  known_ = std::move(next);
  watch_.watch(engines);
}

void ObservedFleet::fill(std::size_t pool, signals::PoolObservation& seen) const {
  for (const ReplicaView& view : replicas(pool)) {
    seen.replicas.push_back(view.seen);
    switch (view.seen.state) {
      case signals::ReplicaState::kStarting: ++seen.starting; break;
      case signals::ReplicaState::kReady: ++seen.ready; break;
      case signals::ReplicaState::kDraining: ++seen.draining; break;
      case signals::ReplicaState::kStopped:
      case signals::ReplicaState::kCrashed: break;
    }
  }
  std::sort(seen.replicas.begin(), seen.replicas.end(),
            [](const auto& left, const auto& right) { return left.replica < right.replica; });
  // Another system scales this pool: its target is the number of its replicas.
  seen.target_replicas = seen.starting + seen.ready;
}

std::vector<ReplicaView> ObservedFleet::replicas(std::size_t pool) const {
  std::vector<ReplicaView> views;
  for (const auto& [id, known] : known_)
    if (known.pool == pool)
      views.push_back({id,
                       known.phase,
                       known.url,
                       known.since,
                       {known.number, known.state, known.since, watch_.sample_of(known.number)},
                       watch_.messages_of(known.number)});
  return views;
}

}  // namespace penstock::controller
