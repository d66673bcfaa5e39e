// One thread of the gateway's data path: its loop, its server, its connections to replicas, its handlers.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gateway/request_handler.h"
#include "gateway/shared_dispatcher.h"

namespace penstock::gateway {

class Worker final : private net::ExchangeHandler, private dispatch::GrantListener {
 public:
  // Owns the listening socket, which shares its port with those of the other workers.
  Worker(const GatewayOptions& options, const KeyRing& key_ring, std::uint32_t anonymous_tenant,
         SharedDispatcher& dispatcher, GatewayLogs logs, int listening, std::uint64_t index);
  ~Worker();  // cuts what is open

  void start();
  void stop();  // its thread has ended when this returns
  // From any thread. Refuses new connections; `done` is called on the worker's thread once no request is in flight.
  void drain(std::function<void()> done);
  [[nodiscard]] net::ServerCounters counters() const;  // as they were a second ago at most; any thread

 private:
  void on_request(net::Exchange& exchange) override;
  std::string error_body(int status, std::string_view fault) override;
  void deliver(dispatch::Ticket ticket, const dispatch::Grant& grant) override;
  void deliver(dispatch::Ticket ticket, const dispatch::Refusal& refusal) override;
  RequestHandler& take_handler();
  void answer_models(net::Exchange& exchange);

  net::Loop loop_;
  net::Client client_;
  WorkerContext context_;
  std::vector<std::unique_ptr<RequestHandler>> handlers_;
  std::unique_ptr<net::Server> server_;
  mutable std::mutex counters_mutex_;
  net::ServerCounters counters_;
  std::function<void()> drained_;
  std::thread thread_;
};

}  // namespace penstock::gateway
