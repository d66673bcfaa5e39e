// HTTP/1.1 client on one event loop: pooled connections, streamed responses, backpressure, cancellation.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/time.h"
#include "net/address.h"
#include "net/http.h"
#include "net/loop.h"

namespace penstock::net {

class TlsContext;

struct ClientLimits {
  std::size_t head_bytes = 64 * 1024;
  std::uint32_t idle_connections = 256;                   // Maximum number of idle connections per address.
  core::Duration connect_time = std::chrono::seconds{5};  // Includes the TLS handshake.
  // Maximum age of an unused connection. Servers should keep theirs longer.
  core::Duration idle_time = std::chrono::seconds{50};
  // A pooled connection that closes without a response within this time after its request was closed before the server
  // read it. The time covers a round trip and a loop that is late.
  core::Duration stale_time = std::chrono::seconds{1};
};

enum class ClientFault : std::uint8_t {
  kConnect,    // The connection or the TLS handshake failed or timed out.
  kTimeout,    // The response head or the next body bytes timed out.
  kClosed,     // The connection closed before the response was complete.
  kMalformed,  // The response is not HTTP.
};
[[nodiscard]] const char* to_string(ClientFault fault);

// Exactly one of on_end() and on_fault() is called, as the last call. No call follows cancel().
class ResponseListener {
 public:
  // Informational responses (1xx) are skipped. The views are valid during the call.
  virtual void on_head(const ResponseHead& head) = 0;
  // In raw mode the bytes include the chunk framing; otherwise they are the payload.
  virtual void on_body(std::string_view bytes) = 0;
  virtual void on_end() = 0;
  // `answered` is true if part of the response was received.
  virtual void on_fault(ClientFault fault, bool answered) = 0;

 protected:
  ~ResponseListener() = default;
};

struct CallOptions {
  Address address;
  std::shared_ptr<TlsContext> tls;                      // Null for plain connections.
  std::string host;                                     // Server name for TLS.
  bool raw = false;                                     // See on_body().
  core::Duration head_time = std::chrono::minutes{10};  // Time limit from the call to the response head.
  core::Duration silence = std::chrono::minutes{10};    // Time limit between two pieces of the body.
  // `head_time` lasts until Call::begun(), and `silence` counts only after it.
  bool waits_for_begun = false;
};

// A request in flight. The object is invalid after on_end(), on_fault() or cancel(). All calls belong to the loop's
// thread.
class Call {
 public:
  virtual void cancel() = 0;  // Closes the connection, which informs the server.
  virtual void begun() = 0;   // See CallOptions::waits_for_begun.
  // Returns true if all of the request was written. Head and body may then be freed; if a pooled connection turns out
  // to be closed after that, the call fails.
  virtual bool release_request() = 0;
  // Passes on the bytes of the body that have arrived and were not delivered, as on_body() would have them, at most
  // about `bytes_max`; of many bytes it waits up to 10 ms for the last ones. Only cancel() may follow.
  virtual void take_rest(const std::function<void(std::string_view)>& take, std::size_t bytes_max) = 0;
  virtual void pause() = 0;  // Stops reading until resume(). Bytes that were already read are still delivered.
  virtual void resume() = 0;

 protected:
  ~Call() = default;
};

class Client {
 public:
  explicit Client(Loop& loop, const ClientLimits& limits = {});
  ~Client();  // Cancels all calls.
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sends head and body unchanged. Both must stay valid until the first call of the listener; unsent bytes are dropped
  // then. Bytes after the end of a response are dropped together with the connection. If a pooled connection turns out
  // to be closed before any response byte and within ClientLimits::stale_time, the request is sent once more on a new
  // connection. A server that closes later may have executed the request, which is then a fault. The listener is never
  // called during this call.
  Call& call(const CallOptions& options, std::string_view head, std::string_view body, ResponseListener& listener);

  // Why no connection came about: "Connection refused", "the certificate is not trusted: …"; empty if that is unknown.
  // Valid during ResponseListener::on_fault().
  [[nodiscard]] const std::string& failure() const;

  [[nodiscard]] std::uint32_t open_connections() const;
  void close_idle(const Address& address);  // Closes the idle connections to a server that was removed.

  // Keeps a listener that has no other owner until release(), or until the client, which drops its calls first, is
  // destroyed.
  void keep(std::shared_ptr<ResponseListener> listener);
  std::shared_ptr<ResponseListener> release(const ResponseListener& listener);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::net
