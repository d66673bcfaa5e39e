// The admin address of a gateway, for operators, Prometheus and the planner.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gateway/budget_exchange.h"
#include "gateway/lifecycle.h"
#include "gateway/shared_dispatcher.h"
#include "gateway/worker_context.h"
#include "net/access.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::gateway {

//   GET /health            200 while the process lives
//   GET /ready             200 once a replica may be chosen, 503 before that and while the gateway drains
//   GET /metrics           Prometheus' text
//   GET /penstock/v1/overview                       replicas, tenants, queues, usage, as JSON
//   GET /penstock/v1/traffic?after=N&limit=M        arrivals, first tokens and ends since number N
//   GET /penstock/v1/budgets                        what it took from the budgets of tenants and classes, for others
//   GET /penstock/v1/prefixes?model=M               hot prefixes with requests to compute them; without M, of all
//   models; with credentials only, because these are texts of users
// /health and /ready answer every client. All other paths check the Host field, and credentials where there are any.
class AdminServer final : private net::ExchangeHandler {
 public:
  using Totals = std::function<WorkerTotals()>;  // Of all workers.

  // Owns the listening socket. Lives on one loop.
  AdminServer(net::Loop& loop, int listening, SharedDispatcher& dispatcher, BudgetExchange& budgets, Totals totals,
              const Lifecycle& lifecycle, net::AccessOptions access, std::shared_ptr<net::TlsContext> tls);

  void set_access(net::AccessOptions access, std::shared_ptr<net::TlsContext> tls);
  void drain() { server_.drain(); }

 private:
  void on_request(net::Exchange& exchange) override;
  std::string error_body(int status, std::string_view fault) override;
  void answer_traffic(net::Exchange& exchange);
  void answer_prefixes(net::Exchange& exchange);

  net::Loop& loop_;
  SharedDispatcher& dispatcher_;
  BudgetExchange& budgets_;
  Totals totals_;
  const Lifecycle& lifecycle_;
  net::Address address_;
  net::AccessPolicy access_;
  const std::string boot_id_;
  net::Server server_;
};

}  // namespace penstock::gateway
