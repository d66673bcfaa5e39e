#include "net/server.h"

#include <unistd.h>

#include <utility>

#include "net/acceptor.h"
#include "net/address.h"
#include "net/server_core.h"

namespace penstock::net {

struct Server::State final : AcceptHandler {
  State(Loop& loop, int listening, ExchangeHandler& handler, const ServerLimits& limits,
        std::shared_ptr<TlsContext> tls)
      : core{loop, handler, limits, std::move(tls)}, acceptor{loop, listening, *this} {}

  void before_accepts() override { core.descriptors.refill(); }
  bool free_descriptor() override { return core.descriptors.release_one(); }
  void on_refused() override { ++core.counters.refused; }

  void on_client(int descriptor, const Address& peer) override {
    if (core.counters.open < core.limits.connections) return core.add(descriptor, peer);
    ++core.counters.refused;
    close(descriptor);
  }

  void drain() {
    core.draining = true;
    if (acceptor.drain([this] { core.drain(); })) core.drain();
  }

  ServerCore core;
  Acceptor acceptor;
};

Server::Server(Loop& loop, int listening, ExchangeHandler& handler, const ServerLimits& limits,
               std::shared_ptr<TlsContext> tls)
    : state_{std::make_unique<State>(loop, listening, handler, limits, std::move(tls))} {}
Server::~Server() = default;

void Server::set_tls(std::shared_ptr<TlsContext> tls) { state_->core.tls = std::move(tls); }
void Server::announce_drain() { state_->core.draining = true; }
void Server::drain() { state_->drain(); }
bool Server::listening() const { return state_->acceptor.listening(); }
const ServerCounters& Server::counters() const { return state_->core.counters; }

}  // namespace penstock::net
