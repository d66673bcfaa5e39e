// Where the requests of a worker come from, and how they reach replicas.
#pragma once

#include <memory>
#include <string_view>

#include "gateway/options.h"
#include "gateway/target.h"
#include "net/client.h"
#include "net/server.h"

namespace penstock::gateway {

// A front serves one listening socket, which it owns, on the loop of its worker, and passes each request as a
// net::Exchange to the worker. HttpFront serves clients itself and calls replicas; EnvoyFront serves an Envoy, which
// keeps both connections.
class Front {
 public:
  virtual ~Front() = default;  // Closes all connections; no listener is called.

  // Sends a request that came by this front to an address of the replica; as net::Client::call().
  virtual net::Call& call(net::Exchange& exchange, const Target& target, const net::CallOptions& options,
                          std::string_view head, std::string_view body, net::ResponseListener& listener) = 0;
  // The gateway has the connections to clients and replicas, so that it can send a request again, and relay the framing
  // of answers as it is.
  [[nodiscard]] virtual bool is_proxy() const = 0;

  virtual void reconfigure(const GatewayOptions& options) = 0;  // For connections that are accepted later.
  // See net::Server.
  virtual void announce_drain() = 0;
  virtual void drain() = 0;
  [[nodiscard]] virtual bool listening() const = 0;
  [[nodiscard]] virtual net::ServerCounters counters() const = 0;
  // The process ends: answers that are aborted from now on may go on without the gateway if the front can do that.
  virtual void leave() = 0;
};

}  // namespace penstock::gateway
