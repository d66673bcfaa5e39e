// Leader election among planners: drives a LeaseElector with requests to the API server.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "connect/kubernetes/client.h"
#include "connect/kubernetes/lease.h"
#include "connect/kubernetes/lease_elector.h"
#include "core/time.h"
#include "net/loop.h"

namespace penstock::connect {

// A name of this process that no other process has or had: the host's name and a random part.
[[nodiscard]] std::string new_lease_identity();

// Lives on one loop. The client should serve nothing else, so that renewals wait for no other request.
class LeaseElection {
 public:
  struct Listener {
    std::function<void()> changed;                         // leads() or holder() has another value.
    std::function<void(const std::string& cause)> failed;  // Once until it is another cause, or until a success.
    std::function<std::string()> note{};                   // Of a planner that leads, for the others.
  };

  LeaseElection(net::Loop& loop, KubernetesClient& client, ObjectName lease, LeaseOptions options, Listener listener);
  ~LeaseElection();
  LeaseElection(const LeaseElection&) = delete;
  LeaseElection& operator=(const LeaseElection&) = delete;

  // Whether this process may act now. Reads a clock, because the process may have been stopped since anything else.
  [[nodiscard]] bool leads() const { return elector_.may_act(read_clock()); }
  [[nodiscard]] std::uint64_t term() const { return elector_.term(); }
  [[nodiscard]] std::string holder() const { return elector_.holder(); }
  [[nodiscard]] const std::string& identity() const { return identity_; }
  [[nodiscard]] std::string uid() const { return elector_.uid(); }  // Of the Lease; empty: unknown.

  // What the planner that leads has noted, at most about two renewals ago; empty: nothing, or none is known to lead.
  [[nodiscard]] std::string leader_note() const { return elector_.holder_note(read_clock()); }
  // Whether another planner is known to lead.
  [[nodiscard]] bool follows() const { return elector_.follows(read_clock()); }
  // Writes the note now, if this planner leads.
  void publish_note();

  // Stops acting at once, gives the Lease up, and calls `done`, which may come within the call.
  void end(std::function<void()> done);

 private:
  // Time since the start of the machine. It goes on while the machine is suspended, and no setting of the time of day
  // changes it.
  [[nodiscard]] static core::Instant read_clock();
  void step();
  void send(const LeaseElector::Request& request, core::Instant now);
  void take(bool is_write, bool is_create, core::Instant sent, ApiAnswer answer);
  void give_up();
  void fail(LeaseFailure failure, const std::string& cause);
  void notify();
  void wake_up_for_next();

  net::Loop& loop_;
  KubernetesClient& client_;
  const ObjectName name_;
  const std::string identity_;
  const core::Duration timeout_;
  const Listener listener_;
  LeaseElector elector_;
  std::string acquired_time_;
  std::uint64_t request_ = 0;  // Counts; late answers are of an earlier number.
  bool in_flight_ = false;
  core::Instant sent_{};
  net::Loop::Timer timer_ = 0;
  bool led_ = false;
  std::string known_holder_, reported_;
  std::function<void()> done_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace penstock::connect
