// The front of clients that speak HTTP with the gateway.
#pragma once

#include "gateway/front.h"
#include "net/loop.h"

namespace penstock::gateway {

class HttpFront final : public Front {
 public:
  HttpFront(net::Loop& loop, int listening, net::ExchangeHandler& handler, const GatewayOptions& options);

  net::Call& call(net::Exchange& exchange, const Target& target, const net::CallOptions& options, std::string_view head,
                  std::string_view body, net::ResponseListener& listener) override;
  [[nodiscard]] bool is_proxy() const override { return true; }
  void reconfigure(const GatewayOptions& options) override { server_.set_tls(options.tls); }
  void announce_drain() override { server_.announce_drain(); }
  void drain() override { server_.drain(); }
  [[nodiscard]] bool listening() const override { return server_.listening(); }
  [[nodiscard]] net::ServerCounters counters() const override { return server_.counters(); }
  void leave() override {}

 private:
  net::Client client_;
  net::Server server_;
};

}  // namespace penstock::gateway
