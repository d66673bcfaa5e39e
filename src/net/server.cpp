#include "net/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "net/address.h"
#include "net/server_core.h"

namespace penstock::net {

namespace {

// Maximum number of accepts in a row, so that a burst of clients does not delay existing connections.
constexpr int kAcceptsMax = 32;
constexpr core::Duration kAcceptPause = std::chrono::milliseconds{100};
// Time in which handshakes that began before a drain end.
constexpr core::Duration kHandshakesEnd = std::chrono::milliseconds{50};

}  // namespace

struct Server::State final : Watcher {
  State(Loop& loop, int listening_socket, ExchangeHandler& handler, const ServerLimits& limits,
        std::shared_ptr<TlsContext> tls)
      : core{loop, handler, limits, std::move(tls)}, listening{listening_socket} {
    loop.watch(listening, EPOLLIN, *this);
  }
  ~State() {
    core.loop.cancel(pause_timer);
    core.loop.cancel(close_timer);
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
    core.descriptors.refill();
    while (count-- > 0) {
      sockaddr_storage from{};
      socklen_t length = sizeof from;
      const int descriptor =
          accept4(listening, reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (descriptor < 0) {
        if ((errno == EMFILE || errno == ENFILE) && core.descriptors.release_one()) continue;
        // A client that has left the queue again is not an error.
        if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO) continue;
        return errno;
      }
      if (core.counters.open >= core.limits.connections) {
        ++core.counters.refused;
        close(descriptor);
        continue;
      }
      try {
        core.add(descriptor, Address::from_system(&from, length));
      } catch (const std::bad_alloc&) {
        ++core.counters.refused;
        return ENOMEM;
      }
    }
    return 0;
  }

  void drain() {
    core.draining = true;
    if (listening < 0 || close_timer != 0) return;
    // Connections that wait in the accept queue, or get there while their handshake ends, are established for their
    // clients. Clients that connect later try again after a second, when this socket is closed.
    ignore_new_clients(listening);
    while (accept_some(kAcceptsMax) == 0) continue;
    close_timer = core.loop.after(kHandshakesEnd, [this] {
      close_timer = 0;
      while (accept_some(kAcceptsMax) == 0) continue;
      core.loop.cancel(std::exchange(pause_timer, 0));
      stop_listening();
      core.drain();
    });
    core.drain();
  }

  void stop_listening() {
    if (listening < 0) return;
    core.loop.unwatch(listening, *this);
    close(std::exchange(listening, -1));
  }

  ServerCore core;
  int listening;
  Loop::Timer pause_timer = 0, close_timer = 0;
};

Server::Server(Loop& loop, int listening, ExchangeHandler& handler, const ServerLimits& limits,
               std::shared_ptr<TlsContext> tls)
    : state_{std::make_unique<State>(loop, listening, handler, limits, std::move(tls))} {}
Server::~Server() = default;

void Server::set_tls(std::shared_ptr<TlsContext> tls) { state_->core.tls = std::move(tls); }
void Server::announce_drain() { state_->core.draining = true; }
void Server::drain() { state_->drain(); }
bool Server::listening() const { return state_->listening >= 0; }
const ServerCounters& Server::counters() const { return state_->core.counters; }

}  // namespace penstock::net
