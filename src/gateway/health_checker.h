// What a gateway does beside its data path, on one thread of its own: it looks after replicas and answers those who operate it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gateway/shared_dispatcher.h"
#include "net/client.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::gateway {

// Asks each replica for its health and metrics, and a replica without a model for its name; lets the dispatcher do what time
// brings; serves the admin address:
//   GET /health            200 while it lives
//   GET /ready             200 once a replica may be chosen, else 503
//   GET /metrics           Prometheus' text
//   GET /penstock/v1/overview                       replicas, tenants, queues, usage, as JSON
//   GET /penstock/v1/traffic?after=N&limit=M        arrivals, first tokens and ends since number N
//   GET /penstock/v1/prefixes?model=M               hot prefixes with requests to compute them; without M, of all models
class HealthChecker final : private net::ExchangeHandler {
 public:
  using ServerCounts = std::function<net::ServerCounters()>;  // of all workers together

  HealthChecker(const GatewayOptions& options, SharedDispatcher& dispatcher, int listening, ServerCounts counts);
  ~HealthChecker();

  void start();
  void set_replicas(std::vector<ReplicaEndpoint> specs);  // from any thread

 private:
  struct Endpoint {  // a replica that is looked after
    ReplicaEndpoint spec;
    bool asked_model = false;
    std::uint32_t failures = 0;
    bool healthy = true;
    std::size_t unreached = 0;  // counts up with each address that did not answer
    bool health_under_way = false, scrape_under_way = false;
    std::uint64_t prompt_tokens_total = 0, queued_requests = 0;  // as last scraped
    std::uint32_t pings_under_way = 0;
  };

  void on_request(net::Exchange& exchange) override;
  std::string error_body(int status, std::string_view fault) override;
  void answer_traffic(net::Exchange& exchange);
  void answer_prefixes(net::Exchange& exchange);
  void replace(std::vector<ReplicaEndpoint> specs);
  void tell_dispatcher();
  void ask_model(Endpoint& endpoint);
  void check_health();
  void scrape();
  void ping();
  using Done = std::function<void(Endpoint&, int status, const std::string& body)>;
  void get(const Endpoint& endpoint, const std::string& target, core::Duration patience, Done done);
  // A body: it is posted.
  void send(const Endpoint& endpoint, const std::string& target, std::string body, core::Duration patience, Done done);

  const GatewayOptions& options_;
  SharedDispatcher& dispatcher_;
  ServerCounts counts_;
  net::Loop loop_;
  net::Client client_;
  net::Server server_;
  std::map<std::string, Endpoint> patients_;  // by id
  std::string boot_id_;                       // tells one run of the gateway from the next
  std::thread thread_;
};

}  // namespace penstock::gateway
