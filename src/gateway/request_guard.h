// Passes the events of a client and a replica to a request handler.
#pragma once

#include <functional>
#include <new>
#include <utility>

#include "net/client.h"
#include "net/server.h"

namespace penstock::gateway {

// A failed allocation within an event ends the request, and the thread goes on.
class RequestGuard final : public net::ExchangeListener, public net::ResponseListener {
 public:
  RequestGuard(net::ExchangeListener& client, net::ResponseListener& replica, std::function<void()> out_of_memory)
      : client_(client), replica_(replica), out_of_memory_(std::move(out_of_memory)) {}

  template <class Task>
  void run(Task&& task) {
    try {
      task();
    } catch (const std::bad_alloc&) {
      out_of_memory_();
    }
  }

  void on_writable() override {
    run([this] { client_.on_writable(); });
  }
  void on_client_gone() override {
    run([this] { client_.on_client_gone(); });
  }
  void on_head(const net::ResponseHead& head) override {
    run([&] { replica_.on_head(head); });
  }
  void on_body(std::string_view bytes) override {
    run([&] { replica_.on_body(bytes); });
  }
  void on_end() override {
    run([this] { replica_.on_end(); });
  }
  void on_fault(net::ClientFault fault, bool answered) override {
    run([&] { replica_.on_fault(fault, answered); });
  }

 private:
  net::ExchangeListener& client_;
  net::ResponseListener& replica_;
  std::function<void()> out_of_memory_;
};

}  // namespace penstock::gateway
