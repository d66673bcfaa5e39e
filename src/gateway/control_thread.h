// The thread of a gateway beside its data path.
#pragma once

#include <thread>
#include <vector>

#include "gateway/admin_server.h"
#include "gateway/health_checker.h"
#include "gateway/prefix_pinger.h"
#include "gateway/replica_client.h"
#include "gateway/shared_dispatcher.h"
#include "logging/log.h"
#include "net/loop.h"

namespace penstock::gateway {

// One loop for the health checker, the prefix pinger, the admin server and the dispatcher's clock.
class ControlThread {
 public:
  ControlThread(const GatewayOptions& options, SharedDispatcher& dispatcher, int listening,
                AdminServer::ServerCounts counts, logging::Log& log);
  ~ControlThread();
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  void start();
  void set_replicas(std::vector<ReplicaEndpoint> replicas);  // from any thread

 private:
  void tick();

  SharedDispatcher& dispatcher_;
  logging::Log& log_;
  net::Loop loop_;
  ReplicaClient client_;
  HealthChecker health_;
  PrefixPinger pinger_;
  AdminServer admin_;
  std::thread thread_;
};

}  // namespace penstock::gateway
