// An HTTP/1.1 server on one loop: keep-alive, pipelining, streams with backpressure, limits on everything.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/time.h"
#include "net/http.h"
#include "net/loop.h"

namespace penstock::net {

class TlsContext;

struct ServerLimits {
  std::size_t head_bytes = 32 * 1024;                    // 431
  std::size_t body_bytes = 64 * 1024 * 1024;             // 413
  std::size_t body_bytes_total = 512 * 1024 * 1024;      // of all requests that are being read; 503
  std::uint32_t connections = 20'000;                    // more are closed at once
  core::Duration head_time = std::chrono::seconds{10};   // for a whole head; 408
  core::Duration body_time = std::chrono::seconds{60};   // for a body, and for each MiB of it as much again; 408
  core::Duration idle_time = std::chrono::seconds{75};   // between requests
  core::Duration write_time = std::chrono::seconds{30};  // that a client may take nothing of what waits for it
};

// Told about one exchange. Neither call comes after finish(), respond() or abort().
class ExchangeListener {
 public:
  virtual void on_writable() = 0;     // what was written before has gone to the system: more may follow
  virtual void on_client_gone() = 0;  // the exchange is no more; do not touch it again

 protected:
  ~ExchangeListener() = default;
};

// A request and the answer to it. Owned by its connection; gone after finish(), respond(), abort() or on_client_gone().
// All calls on the loop's thread, during on_request() or later.
class Exchange {
 public:
  [[nodiscard]] virtual const RequestHead& head() const = 0;  // its views hold until the exchange is gone
  [[nodiscard]] virtual std::string_view body() const = 0;    // whole, unchunked
  [[nodiscard]] virtual std::string take_body() = 0;
  // The same, and leaves its memory to a later request; what was in `into` is dropped.
  virtual void take_body(std::string& into) = 0;
  [[nodiscard]] virtual std::string_view peer() const = 0;      // "127.0.0.1:4711"
  [[nodiscard]] virtual core::Instant received_at() const = 0;  // when its first byte was read
  virtual void listen(ExchangeListener* listener) = 0;

  // The whole answer. Content-Length, Date and Connection are added.
  virtual void respond(int status, std::span<const Field> fields, std::string_view body) = 0;

  // A streamed answer. The head goes out with the first write, or by flush(). Without a length it is chunked.
  virtual void start(int status, std::span<const Field> fields,
                     std::optional<std::uint64_t> content_length = std::nullopt) = 0;
  // False: the client does not keep up; wait for on_writable(). The bytes are taken all the same.
  virtual bool write(std::string_view payload) = 0;
  virtual bool flush() = 0;
  virtual void finish() = 0;

  // For relays: a head line by line ("HTTP/1.1 200 OK\r\n…\r\n\r\n") and bytes that are framed already, passed on as they
  // are; the head goes out with the first of them. Ends with finish(); where `close_after`, the connection goes with it.
  virtual void start_raw(std::string_view head, bool close_after) = 0;
  virtual bool write_raw(std::string_view bytes) = 0;

  // Cuts the connection, so that the client sees an answer that is not whole as such.
  virtual void abort() = 0;

 protected:
  ~Exchange() = default;
};

class ExchangeHandler {
 public:
  virtual void on_request(Exchange& exchange) = 0;
  // What the server answers by itself to requests that never become one (400, 408, 413, 431, 503), as a body of JSON.
  [[nodiscard]] virtual std::string error_body(int status, std::string_view fault) = 0;

 protected:
  ~ExchangeHandler() = default;
};

struct ServerCounters {
  std::uint64_t accepted = 0, refused = 0, requests = 0, malformed = 0, timed_out = 0, clients_gone = 0;
  std::uint32_t open = 0, busy = 0;  // connections; those of them with a request under way
};

// Serves one listening socket, which it owns. For as long as it lives, the loop is alive. An error of accept() (no more
// descriptors) pauses accepting for a moment.
class Server {
 public:
  Server(Loop& loop, int listening, ExchangeHandler& handler, const ServerLimits& limits = {},
         std::shared_ptr<TlsContext> tls = nullptr);
  ~Server();  // cuts what is open; no listener is called
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Refuses new connections, closes idle ones, and lets each request under way end, with "Connection: close".
  void drain();
  [[nodiscard]] const ServerCounters& counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::net
