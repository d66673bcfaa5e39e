// A subscriber of a NATS server, on one event loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "connect/nats/protocol.h"
#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace penstock::connect {

struct NatsOptions {
  core::Duration connect_time = std::chrono::seconds{5};  // Until the server has answered the first PING.
  // Between two PINGs; a server that has not answered the last one by then is gone.
  core::Duration ping_interval = std::chrono::seconds{20};
  core::Duration backoff = std::chrono::milliseconds{100};  // Before the next attempt; doubles with each failure …
  core::Duration backoff_max = std::chrono::seconds{5};     // … up to this.
  net::Resolver::Lookup resolve = net::Address::resolve;
};

// Connects at once, and again whenever the connection ends; subscriptions outlive connections. Messages of the time
// without a connection are lost. Servers that require TLS or authentication are reported and tried again. Not
// thread-safe.
class NatsClient final : private net::Watcher {
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
  ~NatsClient();
  NatsClient(const NatsClient&) = delete;
  NatsClient& operator=(const NatsClient&) = delete;

  // Errors: not a subject, too many subjects. A known subject changes nothing.
  [[nodiscard]] core::Result<void> subscribe(const std::string& subject);
  void unsubscribe(const std::string& subject);  // Ignores unknown subjects.
  [[nodiscard]] std::size_t subjects() const { return subscriptions_.size(); }
  [[nodiscard]] bool is_connected() const { return phase_ == Phase::kReady; }

 private:
  enum class Phase : std::uint8_t { kClosed, kResolving, kConnecting, kInfo, kPing, kReady };

  void open();
  void connect();
  void on_ready(std::uint32_t events) override;
  bool finish_connect();
  void receive();
  // False: the connection has ended.
  bool take(const NatsReceived& received);
  bool take_info(std::string_view json);
  void send(std::string_view bytes);
  void flush();
  void tick();
  void fail(const std::string& cause);
  void close();
  void report(const std::string& cause);

  net::Loop& loop_;
  const NatsEndpoint server_;
  const Listener listener_;
  const NatsOptions options_;
  std::optional<net::Resolver> resolver_;  // Only for a name.
  std::vector<net::Address> addresses_;
  std::size_t next_address_ = 0;
  std::map<std::string, std::uint64_t, std::less<>> subscriptions_;  // Number by subject.
  std::map<std::uint64_t, std::string> subjects_;                    // The same by number.
  std::uint64_t next_number_ = 1;
  Phase phase_ = Phase::kClosed;
  int descriptor_ = -1;
  NatsParser parser_;
  std::string unsent_;
  bool wants_out_ = false;
  bool has_pong_ = true;  // The last PING was answered.
  net::Loop::Timer timer_ = 0;
  core::Duration backoff_;
  std::optional<std::string> reported_;
};

}  // namespace penstock::connect
