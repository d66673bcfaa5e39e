// One thread of the gateway's data path, with its loop, server, connections to replicas and request handlers.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gateway/request_handler.h"
#include "gateway/shared_dispatcher.h"

namespace penstock::gateway {

class Worker final : private net::ExchangeHandler, private dispatch::GrantListener {
 public:
  using MakeFront = std::function<std::unique_ptr<Front>(net::Loop&, net::ExchangeHandler&)>;
  Worker(const std::shared_ptr<const Settings>& settings, SharedDispatcher& dispatcher, GatewayLogs logs,
         const MakeFront& make_front, LargeBodies& large_bodies, std::uint64_t index);
  ~Worker();  // Closes open connections.

  // Before start(). Lets an engine count a prompt.
  void set_prompt_counter(std::function<void(PromptToCount)> count) { context_.count_prompt = std::move(count); }
  void start();
  void stop();  // The thread has ended when this returns.
  // May be called on any thread. Refuses new connections; `done` is called on the worker's thread once no request is in
  // flight.
  void drain(std::function<void()> done);
  // May be called on any thread. See Gateway.
  void announce_drain();
  void cut();
  // May be called on any thread. Requests that are read later use the new settings.
  void reconfigure(std::shared_ptr<const Settings> settings);
  void add_to(
      WorkerTotals& totals) const;  // Counters of connections are at most one second old. Any thread may call it.

 private:
  void on_request(net::Exchange& exchange) override;
  net::BodyAdmission admit_body(const net::RequestHead& head, std::uint64_t bytes) override;
  std::string request_id(const net::RequestHead& head) override;
  std::string error_body(int status, std::string_view fault) override;
  void deliver(dispatch::Ticket ticket, const dispatch::Grant& grant) override;
  void deliver(dispatch::Ticket ticket, const dispatch::Refusal& refusal) override;
  RequestHandler& take_handler();
  void open_accounts();
  // Reports the progress of open streams, frees bodies that are not needed, and takes requests from replicas that are
  // unresponsive.
  void visit_requests();
  void refuse_method(net::Exchange& exchange, std::string_view allowed);
  // Answers without a request handler, with an x-request-id.
  void respond(net::Exchange& exchange, int status, std::vector<net::Field> fields, std::string_view body);
  void refuse_at_once(net::Exchange& exchange, const Refusal& refusal);
  void answer_models(net::Exchange& exchange, std::optional<std::string_view> name);  // Without a name, the list.

  net::Loop loop_;
  std::vector<std::unique_ptr<RequestHandler>> handlers_;
  std::unique_ptr<Front> front_;
  WorkerContext context_;
  std::vector<dispatch::Progress> progress_;  // Of the open streams, reused.
  mutable std::mutex counters_mutex_;
  net::ServerCounters counters_;
  std::function<void()> drained_;
  std::thread thread_;
};

}  // namespace penstock::gateway
