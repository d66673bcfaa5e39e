// The front of an Envoy that asks this gateway, by external processing, where each request shall go: the gateway is its
// endpoint picker. Requests are authenticated, admitted, routed and accounted for as those of any other client, but
// Envoy keeps the connections to clients and replicas.
// Source: docs/proposals/004-endpoint-picker-protocol of the Gateway API Inference Extension
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "connect/envoy/ext_proc_messages.h"
#include "gateway/envoy_exchange.h"
#include "gateway/front.h"
#include "net/grpc_health.h"
#include "net/grpc_server.h"
#include "net/loop.h"

namespace penstock::gateway {

class EnvoyFront final : public Front, private net::GrpcHandler {
 public:
  // `options` has an endpoint picker. `is_ready` is what health checks are told; any thread may call it.
  // `health_listening`: a socket for health checks alone; -1: there is none.
  EnvoyFront(net::Loop& loop, int listening, net::ExchangeHandler& handler, const GatewayOptions& options,
             const std::function<bool()>& is_ready, int health_listening);

  net::Call& call(net::Exchange& exchange, const Target& target, const net::CallOptions& options, std::string_view head,
                  std::string_view body, net::ResponseListener& listener) override;
  [[nodiscard]] bool is_proxy() const override { return false; }
  void reconfigure(const GatewayOptions& options) override;
  void announce_drain() override;
  void drain() override;
  [[nodiscard]] bool listening() const override { return !draining_; }
  [[nodiscard]] net::ServerCounters counters() const override;
  void leave() override;

 private:
  void on_message(net::GrpcCall& call, std::string_view message, bool is_first) override;
  void on_half_closed(net::GrpcCall& call) override;
  void on_gone(net::GrpcCall& call) override;
  void bury();  // Destroys exchanges that are over.

  net::Loop& loop_;
  EnvoyContext context_;
  net::GrpcHealth health_;
  std::map<const net::GrpcCall*, std::unique_ptr<EnvoyExchange>> exchanges_;
  connect::ProcessingRequest message_;  // Reused.
  bool draining_ = false;
  net::GrpcServer server_;
  std::optional<net::GrpcServer> health_server_;
};

}  // namespace penstock::gateway
