// One connection to a NATS server by libnats, from the attempt to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "connect/nats/access.h"
#include "connect/nats/endpoint.h"
#include "core/time.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace penstock::connect {

struct NatsSessionOptions {
  NatsAccess access;
  core::Duration connect_time = std::chrono::seconds{5};  // Until the server has answered the first PING.
  // Between two PINGs; a server that has not answered the last one by then is gone.
  core::Duration ping_interval = std::chrono::seconds{20};
  // Received messages that wait for the loop; further ones are dropped.
  std::size_t waiting_max = 10'000, waiting_bytes_max = 64 * 1024 * 1024;
  net::Resolver::Lookup resolve = net::Address::resolve;
};

// libnats blocks while it connects and calls back on threads of its own. A session therefore has its own thread, and
// hands everything over to the loop.
class NatsSession {
 public:
  // All are called on the loop's thread.
  struct Listener {
    std::function<void()> connected;                        // The server knows the subjects.
    std::function<void(const std::string& cause)> refused;  // The server refuses a subject; the session goes on.
    std::function<void(const std::string& cause)> ended;    // The last call. It may destroy the session.
    std::function<void(const std::string& subject, std::string_view payload)> message;
  };

  NatsSession(net::Loop& loop, NatsEndpoint server, NatsSessionOptions options, std::set<std::string> subjects,
              Listener listener);
  // No call follows. Waits at most kEndWait for the end of an established connection. Nothing ends an attempt to
  // connect: its thread goes on until libnats gives up.
  ~NatsSession();
  NatsSession(const NatsSession&) = delete;
  NatsSession& operator=(const NatsSession&) = delete;
  static constexpr std::chrono::milliseconds kEndWait{500};

  void set_subjects(std::set<std::string> subjects);  // Takes effect soon.
  [[nodiscard]] std::uint64_t dropped() const;        // Messages that were too many for the loop.
  // Expires when the thread of the session has ended.
  [[nodiscard]] std::weak_ptr<const void> thread() const;

 private:
  class Worker;
  std::shared_ptr<Worker> worker_;
};

}  // namespace penstock::connect
