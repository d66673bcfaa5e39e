// Accepts the connections of one listening socket, also while descriptors are short, and stops without losing one.
#pragma once

#include <functional>

#include "net/address.h"
#include "net/loop.h"

namespace penstock::net {

class AcceptHandler {
 public:
  // Takes the descriptor, which does not block. May throw std::bad_alloc.
  virtual void on_client(int descriptor, const Address& peer) = 0;
  virtual void on_refused() = 0;                                  // Memory for a client was short.
  virtual void before_accepts() {}                                // Called once for each batch.
  [[nodiscard]] virtual bool free_descriptor() { return false; }  // Returns true if it has freed one of its own.

 protected:
  ~AcceptHandler() = default;
};

// Owns the socket. The loop and the handler must outlive it.
class Acceptor final : private Watcher {
 public:
  Acceptor(Loop& loop, int listening, AcceptHandler& handler);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Accepts the connections that clients have begun to establish, then closes the socket and calls `ended`. Returns
  // false if it was called before.
  bool drain(std::function<void()> ended);
  [[nodiscard]] bool listening() const { return listening_ >= 0; }

 private:
  void on_ready(std::uint32_t) override;
  int accept_some();  // Returns the error that ended it, or 0.
  void stop();

  Loop& loop_;
  int listening_;
  AcceptHandler& handler_;
  Loop::Timer pause_timer_ = 0, close_timer_ = 0;
};

}  // namespace penstock::net
