#include "net/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

namespace penstock::net {
namespace {

// Maximum number of accepts in a row, so that a burst of clients does not delay existing connections.
constexpr int kAcceptsMax = 32;
constexpr core::Duration kAcceptPause = std::chrono::milliseconds{100};
// Time in which handshakes that began before a drain end.
constexpr core::Duration kHandshakesEnd = std::chrono::milliseconds{50};

}  // namespace

Acceptor::Acceptor(Loop& loop, int listening, AcceptHandler& handler)
    : loop_{loop}, listening_{listening}, handler_{handler} {
  loop.watch(listening, EPOLLIN, *this);
}

Acceptor::~Acceptor() {
  loop_.cancel(pause_timer_);
  loop_.cancel(close_timer_);
  stop();
}

void Acceptor::on_ready(std::uint32_t) {
  if (const int fault = accept_some(); fault == 0 || fault == EAGAIN) return;
  // Without descriptors or memory the socket stays readable, and an immediate retry would spin.
  loop_.change(listening_, 0, *this);
  pause_timer_ = loop_.after(kAcceptPause, [this] {
    pause_timer_ = 0;
    loop_.change(listening_, EPOLLIN, *this);
  });
}

int Acceptor::accept_some() {
  handler_.before_accepts();
  for (int count = kAcceptsMax; count > 0; --count) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    const int descriptor =
        accept4(listening_, reinterpret_cast<sockaddr*>(&from), &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) {
      if ((errno == EMFILE || errno == ENFILE) && handler_.free_descriptor()) continue;
      // A client that has left the queue again is not an error.
      if (errno == ECONNABORTED || errno == EINTR || errno == EPROTO) continue;
      return errno;
    }
    try {
      handler_.on_client(descriptor, Address::from_system(&from, length));
    } catch (const std::bad_alloc&) {
      handler_.on_refused();
      return ENOMEM;
    }
  }
  return 0;
}

bool Acceptor::drain(std::function<void()> ended) {
  if (listening_ < 0 || close_timer_ != 0) return false;
  // Connections that wait in the accept queue, or get there while their handshake ends, are established for their
  // clients. Clients that connect later try again after a second, when this socket is closed.
  ignore_new_clients(listening_);
  while (accept_some() == 0) continue;
  close_timer_ = loop_.after(kHandshakesEnd, [this, ended = std::move(ended)] {
    close_timer_ = 0;
    while (accept_some() == 0) continue;
    loop_.cancel(std::exchange(pause_timer_, 0));
    stop();
    ended();
  });
  return true;
}

void Acceptor::stop() {
  if (listening_ < 0) return;
  loop_.unwatch(listening_, *this);
  close(std::exchange(listening_, -1));
}

}  // namespace penstock::net
