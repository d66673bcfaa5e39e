#include "net/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "net/address.h"
#include "net/server_core.h"

namespace penstock::net {

namespace {

// Maximum number of accepts in a row, so that a burst of clients does not delay existing connections.
constexpr int kAcceptsMax = 32;
constexpr core::Duration kAcceptPause = std::chrono::milliseconds{100};

}  // namespace

struct Server::State final : Watcher {
  State(Loop& loop, int listening_socket, ExchangeHandler& handler, const ServerLimits& limits,
        std::shared_ptr<TlsContext> tls)
      : core{loop, handler, limits, std::move(tls)}, listening{listening_socket} {
    loop.watch(listening, EPOLLIN, *this);
  }
  ~State() {
    core.loop.cancel(pause_timer);
    stop_listening();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void on_ready(std::uint32_t) override {
    if (const int fault = accept_some(kAcceptsMax); fault == 0 || fault == EAGAIN) return;
    // Without descriptors or memory the socket stays readable, and an immediate retry would spin.
    core.loop.change(listening, 0, *this);
    pause_timer = core.loop.after(kAcceptPause, [this] {
      pause_timer = 0;
      core.loop.change(listening, EPOLLIN, *this);
    });
  }

  // Returns the error that ended it, or 0.
  int accept_some(int count) {
    while (count-- > 0) {
      sockaddr_storage from{};
      socklen_t length = sizeof from;
      const int descriptor =
          accept4(listening, reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (descriptor < 0) {
        // A client that has left the queue again is not an error.
        if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO) continue;
        return errno;
      }
      if (core.counters.open >= core.limits.connections) {
        ++core.counters.refused;
        close(descriptor);
        continue;
      }
      core.add(descriptor, Address::from_system(&from, length));
    }
    return 0;
  }

  void drain() {
    if (std::exchange(core.draining, true)) return;
    // Connections that wait in the accept queue are already established for their clients.
    while (accept_some(kAcceptsMax) == 0) continue;
    core.loop.cancel(std::exchange(pause_timer, 0));
    stop_listening();
    core.drain();
  }

  void stop_listening() {
    if (listening < 0) return;
    core.loop.unwatch(listening, *this);
    close(std::exchange(listening, -1));
  }

  ServerCore core;
  int listening;
  Loop::Timer pause_timer = 0;
};

Server::Server(Loop& loop, int listening, ExchangeHandler& handler, const ServerLimits& limits,
               std::shared_ptr<TlsContext> tls)
    : state_{std::make_unique<State>(loop, listening, handler, limits, std::move(tls))} {}
Server::~Server() = default;

void Server::drain() { state_->drain(); }
const ServerCounters& Server::counters() const { return state_->core.counters; }

}  // namespace penstock::net
