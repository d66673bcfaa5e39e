// A subscriber of a NATS server, on one event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "connect/nats/endpoint.h"
#include "connect/nats/session.h"
#include "core/result.h"
#include "core/time.h"
#include "net/loop.h"

namespace penstock::connect {

struct NatsOptions : NatsSessionOptions {
  core::Duration backoff = std::chrono::milliseconds{100};  // Before the next attempt; doubles with each failure …
  core::Duration backoff_max = std::chrono::seconds{5};     // … up to this.
};

// Connects at once, and again whenever the connection ends; subscriptions outlive connections. Messages of the time
// without a connection are lost. Certificates and secrets are read again for every connection. Not thread-safe.
class NatsClient {
 public:
  struct Listener {
    // `subject` is the text given to subscribe(). The views are valid during the call. It may subscribe and
    // unsubscribe; it must not destroy the client.
    std::function<void(const std::string& subject, std::string_view payload)> message;
    // Why there is no connection; empty once there is one. Called when it changes.
    std::function<void(const std::string& cause)> report;
  };
  static constexpr std::size_t kSubjectsMax = 4'096;

  // `server` names host and port.
  NatsClient(net::Loop& loop, NatsEndpoint server, Listener listener, NatsOptions options = {});
  ~NatsClient();  // Waits at most NatsSession::kEndWait, and never for an attempt to connect.
  NatsClient(const NatsClient&) = delete;
  NatsClient& operator=(const NatsClient&) = delete;

  // Errors: not a subject, too many subjects. A known subject changes nothing.
  [[nodiscard]] core::Result<void> subscribe(const std::string& subject);
  void unsubscribe(const std::string& subject);  // Ignores unknown subjects.
  [[nodiscard]] std::size_t subjects() const { return subjects_.size(); }
  [[nodiscard]] bool is_connected() const { return is_connected_; }
  // Messages that were dropped because the loop was busy for too long.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  void open();
  void give_up();
  void fail(const std::string& cause);
  void end_session();
  void report(const std::string& cause);

  net::Loop& loop_;
  const NatsEndpoint server_;
  const Listener listener_;
  const NatsOptions options_;
  std::set<std::string> subjects_;
  std::optional<NatsSession> session_;
  std::vector<std::weak_ptr<const void>> given_up_;  // Threads of attempts that did not end in time.
  bool is_connected_ = false;
  net::Loop::Timer timer_ = 0;
  core::Duration backoff_;
  std::optional<std::string> reported_;
  std::uint64_t dropped_before_ = 0;  // In earlier sessions.
};

}  // namespace penstock::connect
