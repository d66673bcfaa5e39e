#include "net/grpc_server.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "net/acceptor.h"
#include "net/grpc_connection.h"

namespace penstock::net {
namespace {

constexpr core::Duration kSweep = std::chrono::seconds{1};

}  // namespace

struct GrpcServer::State final : AcceptHandler {
  State(Loop& loop, int listening, GrpcHandler& handler, const GrpcLimits& limits, std::shared_ptr<TlsContext> tls)
      : shared{loop, handler, limits, std::move(tls), {}}, acceptor{loop, listening, *this} {
    sweep_timer = loop.every(kSweep, [this] {
      for (const auto& connection : connections) connection->check_deadlines();
    });
  }
  ~State() {
    shared.loop.cancel(sweep_timer);
    shared.loop.cancel(remove_timer);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void on_refused() override { ++shared.counters.refused; }

  void on_client(int descriptor, const Address&) override {
    if (shared.counters.open >= shared.limits.connections) {
      ++shared.counters.refused;
      close(descriptor);
      return;
    }
    connections.reserve(connections.size() + 1);
    ended.reserve(connections.size() + 1);
    connections.push_back(
        std::make_unique<GrpcConnection>(shared, descriptor, [this](const GrpcConnection& gone) { retire(gone); }));
    ++shared.counters.accepted;
    connections.back()->on_ready(0);  // Sends the settings.
  }

  // A function of the connection may be on the stack, so that its memory is freed later.
  void retire(const GrpcConnection& gone) {
    ended.push_back(&gone);
    if (remove_timer != 0) return;
    remove_timer = shared.loop.after(core::Duration{}, [this] {
      remove_timer = 0;
      remove_ended();
    });
  }

  void remove_ended() {
    for (const GrpcConnection* gone : std::exchange(ended, {}))
      std::erase_if(connections, [&](const auto& connection) { return connection.get() == gone; });
  }

  GrpcShared shared;
  Acceptor acceptor;
  std::vector<std::unique_ptr<GrpcConnection>> connections;
  std::vector<const GrpcConnection*> ended;
  Loop::Timer sweep_timer = 0, remove_timer = 0;
};

GrpcServer::GrpcServer(Loop& loop, int listening, GrpcHandler& handler, const GrpcLimits& limits,
                       std::shared_ptr<TlsContext> tls)
    : state_{std::make_unique<State>(loop, listening, handler, limits, std::move(tls))} {}
GrpcServer::~GrpcServer() = default;

void GrpcServer::set_tls(std::shared_ptr<TlsContext> tls) { state_->shared.tls = std::move(tls); }

void GrpcServer::disconnect() {
  // A connection that closes leaves the container.
  std::vector<GrpcConnection*> open;
  for (const auto& connection : state_->connections) open.push_back(connection.get());
  for (GrpcConnection* connection : open) connection->drain();
}

void GrpcServer::drain() {
  if (std::exchange(state_->shared.draining, true)) return;
  state_->acceptor.drain([this] {
    for (const auto& connection : state_->connections) connection->drain();
  });
}

const GrpcCounters& GrpcServer::counters() const { return state_->shared.counters; }

}  // namespace penstock::net
