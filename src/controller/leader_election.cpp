#include "controller/leader_election.h"

#include <functional>
#include <utility>

namespace penstock::controller {

core::Result<std::unique_ptr<LeaderElection>> LeaderElection::start(net::Loop& loop, net::Client& client,
                                                                    LeaderElectionOptions options,
                                                                    connect::EventWriter& events, logging::Log& log) {
  std::unique_ptr<LeaderElection> made{new LeaderElection{options.lease, events, log}};
  const auto failed = [raw = made.get()](const std::string& cause) {
    raw->log_.write(logging::Event::kLeaseFailed, {{"lease", raw->lease_text()}, {"error", cause}});
  };
  connect::LeaseOptions lease{std::move(options.identity), options.duration};
  connect::KubernetesOptions api;
  api.access = std::move(options.access);
  api.timeout = lease.request_timeout();
  api.seed = std::hash<std::string>{}(lease.identity);  // Planners must not ask at the same times.
  auto started = connect::KubernetesClient::start(loop, client, std::move(api), failed);
  if (!started) return tl::make_unexpected(started.error());
  made->api_ = *std::move(started);
  made->election_ = std::make_unique<connect::LeaseElection>(
      loop, *made->api_, std::move(options.lease), std::move(lease),
      connect::LeaseElection::Listener{[raw = made.get()] { raw->follow(); }, failed,
                                       [raw = made.get()] {
                                         raw->published_ = raw->targets_ ? raw->targets_() : std::string{};
                                         return raw->published_;
                                       }});
  return made;
}

void LeaderElection::follow() {
  const bool leads = may_act();
  const std::string holder = leader();
  if (leads && !led_) {
    log_.write(logging::Event::kLeadershipAcquired,
               {{"lease", lease_text()}, {"identity", identity()}, {"term", term()}});
    write_event("Acquire", "became leader");
  } else if (led_ && !leads && !is_ending_) {
    log_.write(logging::Event::kLeadershipLost,
               {{"lease", lease_text()}, {"identity", identity()}, {"leader", holder == identity() ? "" : holder}});
    write_event("Release", "stopped leading");
  } else if (!leads && holder != identity()) {
    log_.write(logging::Event::kLeaderChanged, {{"lease", lease_text()}, {"leader", holder}});
  }
  led_ = leads;
  if (changed_ && !is_ending_) changed_();
}

void LeaderElection::publish_now() {
  if (targets_ && may_act() && targets_() != published_) election_->publish_note();
}

void LeaderElection::write_event(const char* action, const char* what) {
  events_.write({{"coordination.k8s.io/v1", "Lease", lease_.in_namespace, lease_.name, election_->uid()},
                 false,
                 "LeaderElection",
                 action,
                 identity() + " " + what});
}

void LeaderElection::end(std::function<void()> done) {
  is_ending_ = true;
  election_->end(std::move(done));
}

}  // namespace penstock::controller
