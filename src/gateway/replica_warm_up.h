// Warms replicas up that are added to a running gateway.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gateway/health_checker.h"
#include "gateway/shared_dispatcher.h"
#include "net/loop.h"

namespace penstock::gateway {

// Passes the list of replicas on to the health checker. With GatewayOptions::warm_up, a replica that is added later
// warms up there until it has answered the prompts of the options and the hot prefixes of its model, one after the
// other, or until the time for that is over. So does a replica whose engine has restarted. Replicas of the first
// complete list, decode replicas, and replicas that no other healthy one could stand in for serve at once. Runs on one
// loop.
class ReplicaWarmUp {
 public:
  ReplicaWarmUp(net::Loop& loop, const GatewayOptions& options, SharedDispatcher& dispatcher, HealthChecker& replicas);

  void set_replicas(std::vector<ReplicaEndpoint> replicas, bool complete);

 private:
  struct ColdReplica {
    bool has_begun = false;
    core::Instant begun_at{};
    std::uint32_t restarts = 0;         // When it began.
    std::vector<WarmUpPrompt> prompts;  // With their model.
    std::size_t sent = 0;
  };
  using Name = std::pair<std::string, std::string>;  // Id and URL.

  void visit();
  [[nodiscard]] bool find_restarted();  // Returns true if a warm replica is not warm any more.
  [[nodiscard]] std::uint32_t restarts_of(const std::string& id) const;
  [[nodiscard]] bool is_done(const ReplicaEndpoint& replica, ColdReplica& cold);
  [[nodiscard]] std::vector<WarmUpPrompt> prompts_for(const CheckedReplica& replica) const;
  [[nodiscard]] bool has_warm_replica() const;
  void pass_on();

  net::Loop& loop_;
  const GatewayOptions& options_;
  SharedDispatcher& dispatcher_;
  HealthChecker& checker_;
  std::vector<ReplicaEndpoint> replicas_;  // As listed.
  bool complete_ = false, was_complete_ = false;
  std::map<Name, std::uint32_t> warm_;  // With the restarts of the engine until then.
  std::map<Name, ColdReplica> cold_;
};

}  // namespace penstock::gateway
