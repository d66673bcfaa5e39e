// HTTP/1.1 server on one event loop: keep-alive, pipelining, streaming with backpressure, limits on everything.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/time.h"
#include "net/body.h"
#include "net/http.h"
#include "net/loop.h"

namespace penstock::net {

class TlsContext;

struct ServerLimits {
  std::size_t head_bytes = 32 * 1024;        // Exceeding it is answered with 431.
  std::size_t body_bytes = 8 * 1024 * 1024;  // Exceeding it is answered with 413.
  // Limits bodies, pipelined input and unsent output; exceeding it is answered with 503. Null: the server has a budget
  // of its own.
  std::shared_ptr<MemoryBudget> memory;
  std::uint32_t reserved_descriptors = 0;               // Kept for connections to this server when all others are used.
  std::uint32_t connections = 20'000;                   // Further connections are closed at once.
  core::Duration head_time = std::chrono::seconds{10};  // Time limit for a complete head; 408.
  // Time limit for a body, plus the same for each MiB of it; 408.
  core::Duration body_time = std::chrono::seconds{60};
  core::Duration idle_time = std::chrono::seconds{75};  // Time limit between requests.
  // Time limit for a client that reads nothing while output is pending.
  core::Duration write_time = std::chrono::seconds{30};
};

// Receives the events of one exchange. No call follows finish(), respond() or abort().
class ExchangeListener {
 public:
  virtual void on_writable() = 0;     // All pending output was handed to the system; the handler may write more.
  virtual void on_client_gone() = 0;  // The exchange no longer exists and must not be used.

 protected:
  ~ExchangeListener() = default;
};

// A request and its response. Owned by its connection; invalid after finish(), respond(), abort() or on_client_gone().
// All calls belong to the loop's thread, during on_request() or later.
class Exchange {
 public:
  [[nodiscard]] virtual const RequestHead& head() const = 0;  // The views are valid as long as the exchange.
  [[nodiscard]] virtual std::string_view body() const = 0;    // The complete body without chunk framing.
  // Moves the body into `into` and keeps the memory of `into` for a later request. The previous content of `into` is
  // dropped.
  virtual void take_body(Body& into) = 0;
  // Lets the account pay for output that is stored from now on. Before this call the one that admitted the body pays.
  virtual void charge_to(MemoryAccount& account) = 0;
  [[nodiscard]] virtual std::string_view peer() const = 0;  // For example "127.0.0.1:4711".
  // Returns true if the client has shown a certificate that TLS verified.
  [[nodiscard]] virtual bool client_verified() const = 0;
  // Returns the common name of that certificate; empty if there is none.
  [[nodiscard]] virtual std::string client_name() const = 0;
  [[nodiscard]] virtual core::Instant received_at() const = 0;  // Time at which the first byte was read.
  virtual void listen(ExchangeListener* listener) = 0;

  // Sends a complete response. Content-Length, Connection and a Date, if the fields have none, are added.
  virtual void respond(int status, std::span<const Field> fields, std::string_view body) = 0;

  // Starts a streamed response. The head is sent with the first write or by flush(). Without a length the body is
  // chunked.
  virtual void start(int status, std::span<const Field> fields,
                     std::optional<std::uint64_t> content_length = std::nullopt) = 0;
  // Accepts the bytes. Returns false if the client does not keep up; the handler then waits for on_writable().
  virtual bool write(std::string_view payload) = 0;
  virtual bool flush() = 0;
  virtual void finish() = 0;

  // For proxies: starts a response with a complete head ("HTTP/1.1 200 OK\r\n…\r\n\r\n") and framed bytes that are
  // passed on unchanged. The head is sent with the first bytes. finish() ends the response; with `close_after` it also
  // closes the connection.
  virtual void start_raw(std::string_view head, bool close_after) = 0;
  virtual bool write_raw(std::string_view bytes) = 0;

  // Closes the connection, so that the client can detect an incomplete response.
  virtual void abort() = 0;

 protected:
  ~Exchange() = default;
};

// The decision about a body that is to be read.
struct BodyAdmission {
  MemoryAccount* account = nullptr;  // Pays for the body. Null: the part of the budget that belongs to no tenant.
  // Anything but 0 refuses the body with this status and error body; the connection is closed.
  int refusal_status = 0;
  std::string refusal_body{};
  std::vector<std::pair<std::string, std::string>> refusal_fields{};  // Such as Retry-After.
};

class ExchangeHandler {
 public:
  // A body above the first size is admitted before it is read, or when it grows above it. One that grows above the
  // second size is admitted again.
  static constexpr std::size_t kAdmittedBytes = 16 * 1024, kLargeBytes = 256 * 1024;

  virtual void on_request(Exchange& exchange) = 0;
  // `bytes`: the announced length, or what has come of a body without one.
  [[nodiscard]] virtual BodyAdmission admit_body(const RequestHead&, std::uint64_t /*bytes*/) { return {}; }
  // Returns the x-request-id of a rejection by the server itself, if it has read the head; empty: there is none.
  [[nodiscard]] virtual std::string request_id(const RequestHead&) { return {}; }
  // Returns the JSON body for requests that the server rejects itself (400, 408, 413, 431; 503: there is no memory).
  [[nodiscard]] virtual std::string error_body(int status, std::string_view fault) = 0;

 protected:
  ~ExchangeHandler() = default;
};

struct ServerCounters {
  std::uint64_t accepted = 0, refused = 0, requests = 0, malformed = 0, timed_out = 0, clients_gone = 0;
  std::uint64_t out_of_memory = 0;   // Requests that the memory limit or a failed allocation ended.
  std::uint32_t open = 0, busy = 0;  // Connections, and those with a request in flight.
};

// Serves one listening socket, which it owns. The loop must outlive the server. An error of accept(), such as too few
// descriptors, pauses accepting briefly.
class Server {
 public:
  Server(Loop& loop, int listening, ExchangeHandler& handler, const ServerLimits& limits = {},
         std::shared_ptr<TlsContext> tls = nullptr);
  ~Server();  // Closes all connections; no listener is called.
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Connections that are accepted later use the context.
  void set_tls(std::shared_ptr<TlsContext> tls);
  // Answers say "Connection: close" from now on; new connections are still accepted.
  void announce_drain();
  // Stops listening, closes idle connections, and lets requests in flight end. Connections that clients have begun to
  // establish are still accepted, and listening() is true until then.
  void drain();
  [[nodiscard]] bool listening() const;
  [[nodiscard]] const ServerCounters& counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::net
