// The thread of a gateway that does not serve requests.
#pragma once

#include <thread>
#include <vector>

#include "gateway/admin_server.h"
#include "gateway/budget_exchange.h"
#include "gateway/health_checker.h"
#include "gateway/overload_watch.h"
#include "gateway/prefix_pinger.h"
#include "gateway/replica_client.h"
#include "gateway/replica_warm_up.h"
#include "gateway/shared_dispatcher.h"
#include "logging/log.h"
#include "net/loop.h"

namespace penstock::gateway {

// Runs the health checker, the prefix pinger, the exchange of budgets, the admin server and the dispatcher's timers on
// one loop.
class ControlThread {
 public:
  ControlThread(const GatewayOptions& options, SharedDispatcher& dispatcher, int listening, AdminServer::Totals totals,
                const Lifecycle& lifecycle, logging::Log& log);
  ~ControlThread();
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;

  void start();
  // May be called on any thread. For later requests to the admin address, and later connections.
  void set_access(net::AccessOptions access, std::shared_ptr<net::TlsContext> tls);
  // May be called on any thread; `done` is called on this one. See HealthChecker.
  void count_prompt(PromptToCount prompt);
  void release_admin();  // May be called on any thread. Stops listening on the admin address.
  void set_replicas(std::vector<ReplicaEndpoint> replicas, bool complete);  // May be called on any thread.

 private:
  void tick();
  void look_at_overload();

  SharedDispatcher& dispatcher_;
  logging::Log& log_;
  net::Loop loop_;
  ReplicaClient client_;
  HealthChecker health_;
  PrefixPinger pinger_;
  ReplicaWarmUp warm_up_;
  BudgetExchange budgets_;
  AdminServer admin_;
  OverloadWatch overload_;
  std::thread thread_;
};

}  // namespace penstock::gateway
