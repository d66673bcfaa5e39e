// Leadership by a Lease of Kubernetes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "connect/kubernetes/client.h"
#include "connect/kubernetes/event_writer.h"
#include "connect/kubernetes/lease.h"
#include "connect/kubernetes/lease_election.h"
#include "controller/leadership.h"
#include "core/result.h"
#include "core/time.h"
#include "logging/log.h"
#include "net/client.h"
#include "net/loop.h"

namespace penstock::controller {

struct LeaderElectionOptions {
  connect::KubernetesAccess access;
  connect::ObjectName lease;
  std::string identity;  // As connect::new_lease_identity() makes it.
  core::Duration duration = std::chrono::seconds{10};
};

// Lives on one loop. All arguments must outlive it.
class LeaderElection final : public Leadership {
 public:
  [[nodiscard]] static core::Result<std::unique_ptr<LeaderElection>> start(net::Loop& loop, net::Client& client,
                                                                           LeaderElectionOptions options,
                                                                           connect::EventWriter& events,
                                                                           logging::Log& log);

  // `changed` comes after each change of may_act() and leader(), never within this call.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
  // The targets of this planner while it leads, which the others then give as well.
  void publish(std::function<std::string()> targets) { targets_ = std::move(targets); }
  // Writes them now, not only with the next renewal.
  void publish_now();
  // Stops acting and gives the Lease up; `done` comes after that, or once another planner need not wait any longer.
  void end(std::function<void()> done);

  [[nodiscard]] bool may_act() const override { return election_->leads(); }
  [[nodiscard]] std::uint64_t term() const override { return election_->term(); }
  [[nodiscard]] std::string leader() const override { return election_->holder(); }
  [[nodiscard]] bool follows() const override { return election_->follows(); }
  [[nodiscard]] std::string targets_of_leader() const override { return election_->leader_note(); }
  [[nodiscard]] const std::string& identity() const { return election_->identity(); }

 private:
  LeaderElection(const connect::ObjectName& lease, connect::EventWriter& events, logging::Log& log)
      : lease_(lease), events_(events), log_(log) {}
  void follow();
  void write_event(const char* action, const char* what);
  [[nodiscard]] std::string lease_text() const { return lease_.in_namespace + "/" + lease_.name; }

  const connect::ObjectName lease_;
  connect::EventWriter& events_;
  logging::Log& log_;
  std::unique_ptr<connect::KubernetesClient> api_;
  std::unique_ptr<connect::LeaseElection> election_;
  std::function<void()> changed_;
  std::function<std::string()> targets_;
  std::string published_;
  bool led_ = false, is_ending_ = false;
};

}  // namespace penstock::controller
