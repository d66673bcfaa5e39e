// Subscriptions to forward pass metrics, and to what Dynamo's workers report of their KV caches, over ZeroMQ and NATS.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <variant>

#include "connect/nats/client.h"
#include "connect/zmq/subscriber.h"
#include "core/result.h"
#include "net/loop.h"
#include "telemetry/dynamo_kv.h"
#include "telemetry/forward_pass.h"

namespace penstock::controller {

// The server of NATS that has TLS files and credentials. Any other server gets none of them.
struct NatsServerOptions {
  std::string server;  // "nats://host:port" or "tls://host:port"; empty: there is none.
  connect::NatsAccess access;
};

// A message that could not be read is an error; one without a known topic counts as forward pass metrics.
using ChannelMessage =
    std::variant<core::Result<telemetry::ForwardPassMetrics>, core::Result<telemetry::WorkerKvMessage>>;

// An endpoint is "tcp://host:port" (ZeroMQ), "nats://host:port/subject" or "tls://host:port/subject" (NATS). Lives on
// one loop, on which all callbacks run.
class FpmChannels {
 public:
  struct Listener {
    // The endpoint is the text given to add().
    std::function<void(const std::string& endpoint, const ChannelMessage&)> message;
    // Why a server of NATS has no connection; empty once it has one.
    std::function<void(const std::string& server, const std::string& cause)> report;
  };

  FpmChannels(net::Loop& loop, Listener listener, NatsServerOptions nats = {});
  ~FpmChannels();
  FpmChannels(const FpmChannels&) = delete;
  FpmChannels& operator=(const FpmChannels&) = delete;

  // Errors: the endpoint has no such form, or there are too many. A known endpoint changes nothing.
  [[nodiscard]] core::Result<void> add(const std::string& endpoint);
  void keep_only(const std::set<std::string>& endpoints);  // Ends the subscriptions to all others.

 private:
  struct NatsServer {
    std::unique_ptr<connect::NatsClient> client;
    std::map<std::string, std::string> endpoints;  // By subject.
  };
  [[nodiscard]] core::Result<void> add_nats(const std::string& endpoint);
  void remove_nats(const std::string& endpoint);

  net::Loop& loop_;
  const Listener listener_;
  const NatsServerOptions nats_;
  std::set<std::string> subscribed_;
  std::map<std::string, NatsServer> servers_;  // By "nats://host:port".
  // Posted messages may run after the destructor.
  std::shared_ptr<int> alive_ = std::make_shared<int>();
  std::unique_ptr<connect::Subscriber> subscriber_;  // It is destroyed first, because its thread posts to the loop.
};

}  // namespace penstock::controller
