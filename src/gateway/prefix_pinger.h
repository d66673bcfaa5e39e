// Keeps hot prefixes in the caches of idle replicas.
#pragma once

#include "gateway/health_checker.h"
#include "gateway/shared_dispatcher.h"
#include "net/loop.h"

namespace penstock::gateway {

// At each ping interval, sends hot prefixes again to the idle replicas that hold them, if no user's request has used
// them for a while. Runs on one loop.
class PrefixPinger {
 public:
  PrefixPinger(net::Loop& loop, const GatewayOptions& options, SharedDispatcher& dispatcher, HealthChecker& replicas);

 private:
  void ping();

  net::Loop& loop_;
  const GatewayOptions& options_;
  SharedDispatcher& dispatcher_;
  HealthChecker& replicas_;
};

}  // namespace penstock::gateway
