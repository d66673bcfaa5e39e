// What a gateway does beside its data path, on one thread of its own: it looks after replicas and answers those who operate it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "gateway/desk.h"
#include "net/client.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::gateway {

// Asks each replica for its health and metrics, and a replica without a model for its name; lets the desk do what time
// brings; serves the admin address:
//   GET /health            200 while it lives
//   GET /ready             200 once a replica may be chosen, else 503
//   GET /metrics           Prometheus' text
//   GET /penstock/v1/overview                       replicas, tenants, queues, usage, as JSON
//   GET /penstock/v1/traffic?after=N&limit=M        arrivals, first tokens and ends since number N
class Steward final : private net::RequestHandler {
 public:
  using ServerCounts = std::function<net::ServerCounters()>;  // of all workers together

  Steward(const GatewayOptions& options, Desk& desk, int listening, ServerCounts counts);
  ~Steward();

  void start();
  void set_replicas(std::vector<ReplicaSpec> specs);  // from any thread

 private:
  struct Patient {  // a replica that is looked after
    ReplicaSpec spec;
    bool asked_model = false;
    std::uint32_t failures = 0;
    bool healthy = true;
    bool health_under_way = false, scrape_under_way = false;
  };

  void on_request(net::Exchange& exchange) override;
  std::string error_body(int status, std::string_view fault) override;
  void answer_traffic(net::Exchange& exchange);
  void replace(std::vector<ReplicaSpec> specs);
  void tell_desk();
  void ask_model(Patient& patient);
  void check_health();
  void scrape();
  void get(const ReplicaSpec& spec, std::string_view target,
           std::function<void(Patient&, int status, const std::string& body)> done);

  const GatewayOptions& options_;
  Desk& desk_;
  ServerCounts counts_;
  net::Loop loop_;
  net::Client client_;
  net::Server server_;
  std::map<std::string, Patient> patients_;  // by id
  std::string boot_id_;                      // tells one run of the gateway from the next
  std::thread thread_;
};

}  // namespace penstock::gateway
